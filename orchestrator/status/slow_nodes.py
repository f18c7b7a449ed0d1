"""Find nodes that slow down their runs.

Runs are compared with their siblings: runs that differ from them only in `repeat`.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.common.tables import Column, Style, Table, make_table
from orchestrator.slurm.lists import expand_nodes
from orchestrator.status.slow_runs import FACTOR, TimedRun, siblings, stands_out

HOW_MADE = (
    "ratio: a run's median step time divided by that of its siblings (runs that differ only in "
    "repeat); for a node: the median ratio of its n comparable runs; a run on several nodes counts "
    f"for each node; slow: the ratio is above {FACTOR:g} and far above the ratio of other nodes"
)


@dataclass(frozen=True, slots=True)
class NodeSpeed:
    """A node, and how slow the runs on it are compared with their siblings.

    runs: how many runs were on the node. compared: how many of these runs can be compared, because
    the step times of the run and of siblings are known. ratio: the median, over the compared runs,
    of the run's step time divided by its siblings' step time; None if no run can be compared.
    """

    node: str
    runs: int
    compared: int
    ratio: float | None
    slow: bool


@dataclass(frozen=True, slots=True)
class _Compared:
    """A run's step time, and how much its step times vary, both relative to the run's siblings.

    ratio: the run's median step time, divided by the siblings' median step time.
    deviation: the median absolute deviation of the run's step times, also divided by the siblings'
    median step time.
    """

    ratio: float
    deviation: float


_COLUMNS: tuple[Column[NodeSpeed], ...] = (
    Column("node", "node", lambda speed: speed.node),
    Column("runs", "runs", lambda speed: speed.runs),
    Column("n", "compared", lambda speed: speed.compared),
    Column("ratio", "ratio", lambda speed: speed.ratio, Style(digits=3)),
    Column("slow", "slow", lambda speed: "slow" if speed.slow else None),
)


def node_table(speeds: Sequence[NodeSpeed]) -> Table:
    """Return a table with one row per node."""
    return make_table(_COLUMNS, speeds)


def node_speeds(runs: Mapping[str, TimedRun]) -> list[NodeSpeed]:
    """Compare the runs on each node with their siblings; return the slowest node first."""
    compared = _compared(runs)
    on_node: dict[str, list[str]] = {}
    for identity, run in runs.items():
        for node in dict.fromkeys(expand_nodes(run.node_list or "")):
            on_node.setdefault(node, []).append(identity)
    by_node = {
        node: [compared[identity] for identity in identities if identity in compared]
        for node, identities in on_node.items()
    }
    ratios = {
        node: statistics.median(run.ratio for run in those)
        for node, those in by_node.items()
        if those
    }
    within = statistics.median(ratio.deviation for ratio in compared.values()) if compared else 0.0
    speeds = [
        NodeSpeed(
            node=node,
            runs=len(identities),
            compared=len(by_node[node]),
            ratio=ratios.get(node),
            slow=_is_slow(node, ratios, within),
        )
        for node, identities in on_node.items()
    ]
    return sorted(speeds, key=lambda speed: (-(speed.ratio or 0.0), speed.node))


def _compared(runs: Mapping[str, TimedRun]) -> dict[str, _Compared]:
    alike = siblings(runs)
    ratios = {}
    for identity, run in runs.items():
        if run.times is not None and alike[identity]:
            usual = statistics.median(times.median_seconds for times in alike[identity])
            ratios[identity] = _Compared(
                run.times.median_seconds / usual, run.times.deviation_seconds / usual
            )
    return ratios


def _is_slow(node: str, ratios: Mapping[str, float], within: float) -> bool:
    """Return whether a node's ratio is above 1.25, and far above the other nodes' ratios.

    A node's ratio compares the runs on it with their siblings: the higher, the slower. Both
    conditions are needed. If one run is slow, its siblings are fast in comparison, so the nodes of
    the siblings have ratios below 1. Compared with these nodes alone, a normal node would look
    slow.

    ratios: the ratio of each node.
    within: how much the step times of one run usually vary, relative to its siblings' step time.
    """
    others = [ratio for other, ratio in ratios.items() if other != node]
    own = ratios.get(node)
    return own is not None and own > FACTOR and bool(others) and stands_out(own, others, within)
