"""Order runs in blocks A B B A, so that changes of the cluster's speed cancel.

A block has two runs of each configuration. First, each configuration runs once, in a random order.
Then each configuration runs again, in the reverse order. In a block of n runs, a configuration with
its first run at place p has its second run at place n + 1 - p. The mean of these two places is the
same for every configuration. So if the cluster's speed changes at a constant pace, the mean result
of every configuration changes by the same amount. Each block has a new random order, so that other
changes favour no configuration.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.run.identity import run_id


@dataclass(frozen=True, slots=True)
class Placed:
    """A run, the number of its block, and its place in this block, both counted from 1."""

    planned: PlannedRun
    block: int
    place: int


def interleaved(runs: Sequence[PlannedRun], seed: int) -> Iterator[Placed]:
    """Yield `runs` block by block, in their starting order.

    The random order depends on the seed, the block and the identities of the runs, but not on the
    order of `runs`. If the number of repeats is odd, the last block has one run per configuration.
    """
    kinds: dict[str, dict[int, PlannedRun]] = {}
    for planned in runs:
        kind = run_id(replace(planned.run, repeat=1))
        kinds.setdefault(kind, {})[planned.run.repeat] = planned
    last = max((planned.run.repeat for planned in runs), default=0)
    for block in range(1, (last + 1) // 2 + 1):
        drawn = sorted(kinds, key=lambda kind: _drawn(seed, block, kind))
        first, second = 2 * block - 1, 2 * block
        order = [(kind, first) for kind in drawn] + [(kind, second) for kind in reversed(drawn)]
        members = [kinds[kind][repeat] for kind, repeat in order if repeat in kinds[kind]]
        for place, planned in enumerate(members, 1):
            yield Placed(planned, block, place)


def unfinished_blocks(
    runs: Sequence[PlannedRun], missing: Collection[str], seed: int
) -> list[list[Placed]]:
    """Return the missing runs of each block; a block without missing runs is left out.

    missing: the ids of the missing runs. runs: all runs of the campaign. Completed runs are needed,
    too, because the place of a run in its block depends on them.
    """
    placed = [run for run in interleaved(runs, seed) if run.planned.run_id in missing]
    return [list(block) for _, block in groupby(placed, key=lambda run: run.block)]


def _drawn(seed: int, block: int, kind: str) -> bytes:
    # Not Python's `random`: its numbers for a seed may change between versions of Python.
    return hashlib.sha256(f"{seed} {block} {kind}".encode()).digest()
