"""Decide whether one configuration is faster than another, if there are enough runs.

A run counts once, however many iterations it has. The iterations of a run share its nodes and
its hour. So a thousand iterations show no more about another allocation than one iteration
does. Runs in one allocation also share the speed of the allocation. So if A and B both have
runs in an allocation, they are compared within it, in pairs. Otherwise an allocation counts
once, with the mean of its runs.

Everything is computed in logarithms of speed. The difference of two logarithms is the
logarithm of a ratio. So 2 times as fast and 2 times as slow are equally far from zero. The
result is an interval for the speed of A divided by the speed of B. The verdict is `faster` if
the whole interval is above 1, `slower` if it is below 1, and `cannot tell` otherwise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from orchestrator.compare.intervals import (
    Interval,
    mean_and_variance,
    paired_interval,
    pairs_suffice,
    sides_suffice,
    unpaired_interval,
)
from orchestrator.compare.sample_size import more_pairs, more_units

# An interval that is closer to zero than this can come from rounding, so it gives no verdict.
_ROUNDING = 1e-9


class Verdict(StrEnum):
    """The verdict about A, relative to B."""

    FASTER = "faster"
    SLOWER = "slower"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Timing:
    """The speed of a run, in any unit, and where and when it ran.

    allocation: the allocation of the run; None if not known. block: the number of the block
    within the allocation. place: the place of the run in its block. It is needed to check
    whether a drift cancels.
    """

    speed: float
    allocation: str | None = None
    block: int | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The speed of A relative to B. A value that cannot be computed from the runs is None.

    runs: the number of runs of A and of B, used or not. left_out: how many of these are not used.
        If paired, these are runs without a run of the other side in their block or allocation. If
        not paired, these are runs in allocations that contain pairs.
    paired: whether A and B are compared within allocations.
    units: how many numbers of A and of B are compared. If paired, both are the number of pairs. If
        not paired, each unit is an allocation, or a run whose allocation is not known.
    allocations: how many allocations contain the units.
    balanced: in how many pairs a drift at a constant pace cancels, because A and B have the same
        mean place.
    ratio: the speed of A divided by the speed of B. low, high: the ends of its 95 % interval.
    more: how many more pairs, or more units of each side, give a verdict with a probability of
        80 %. This assumes that the true difference is as large as the measured one. None if there
        is a verdict already, or if `more_pairs` or `more_units` returns no number.
    least: whether `more` is only the minimum that any verdict needs.
    gain: how many times larger the variance of the difference would be without pairs. None if not
        paired, with fewer than two pairs, or if all pairs have the same difference.
    """

    runs: tuple[int, int]
    left_out: tuple[int, int] = (0, 0)
    paired: bool = False
    units: tuple[int, int] = (0, 0)
    allocations: int = 0
    balanced: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict = Verdict.CANNOT_TELL
    more: int | None = None
    least: bool = False
    gain: float | None = None

    def is_slower_by(self, part: float) -> bool:
        """Return whether A is certainly slower than B by more than `part` of B's speed.

        This holds if the whole interval of A's speed divided by B's is below 1 - `part`.
        """
        return self.high is not None and self.high < 1 - part


@dataclass(frozen=True, slots=True)
class _Unit:
    """The mean speed of the runs of A, or of B, in one block or allocation.

    log_speed: the mean of the logarithms of speed. place: the mean place; None if a place is not
    known. runs: the number of runs.
    """

    allocation: str | None
    log_speed: float
    place: float | None
    runs: int


def compare_timings(
    first: Sequence[Timing], second: Sequence[Timing], *, repeatable: bool = True
) -> Comparison:
    """Compare the speeds of the runs of A (`first`) with those of the runs of B (`second`).

    If there are enough pairs for a verdict, the runs are compared in pairs. If there are fewer
    pairs, they are used only if a comparison without pairs cannot give a verdict, either. This
    choice depends on the number of runs and on their allocations. It never depends on their speeds,
    because then chance would lead to more wrong verdicts. repeatable: whether B can have more runs.
    """
    pairs = _pairs(first, second)
    shared = {unit.allocation for pair in pairs for unit in pair}
    alone = [
        [_unit(runs) for runs in _grouped(side, by_block=False) if runs[0].allocation not in shared]
        for side in (first, second)
    ]
    if pairs and (pairs_suffice(len(pairs)) or not sides_suffice(len(alone[0]), len(alone[1]))):
        return _paired(first, second, pairs)
    return _unpaired(first, second, alone[0], alone[1], repeatable=repeatable)


def _paired(
    first: Sequence[Timing], second: Sequence[Timing], pairs: Sequence[tuple[_Unit, _Unit]]
) -> Comparison:
    differences = [a.log_speed - b.log_speed for a, b in pairs]
    count = len(pairs)
    gain = None
    if count > 1:
        _, variance_a = mean_and_variance([a.log_speed for a, _ in pairs])
        _, variance_b = mean_and_variance([b.log_speed for _, b in pairs])
        _, together = mean_and_variance(differences)
        gain = (variance_a + variance_b) / together if together else None
    interval = paired_interval(differences)
    verdict = _verdict(interval)
    more, least = (None, False) if verdict is not Verdict.CANNOT_TELL else more_pairs(differences)
    used = [sum(pair[side].runs for pair in pairs) for side in (0, 1)]
    return Comparison(
        runs=(len(first), len(second)),
        left_out=(len(first) - used[0], len(second) - used[1]),
        paired=True,
        units=(count, count),
        allocations=len({a.allocation for a, _ in pairs}),
        balanced=sum(a.place is not None and a.place == b.place for a, b in pairs),
        ratio=math.exp(math.fsum(differences) / count),
        low=None if interval is None else math.exp(interval[0]),
        high=None if interval is None else math.exp(interval[1]),
        verdict=verdict,
        more=more,
        least=least,
        gain=gain,
    )


def _unpaired(
    first: Sequence[Timing],
    second: Sequence[Timing],
    units: Sequence[_Unit],
    others: Sequence[_Unit],
    *,
    repeatable: bool,
) -> Comparison:
    logs, other_logs = ([unit.log_speed for unit in side] for side in (units, others))
    interval = unpaired_interval(logs, other_logs)
    verdict = _verdict(interval)
    more, least = None, False
    if verdict is Verdict.CANNOT_TELL:
        more, least = more_units(logs, other_logs, repeatable=repeatable)
    allocations = {unit.allocation for unit in (*units, *others)} - {None}
    unknown = sum(unit.allocation is None for unit in (*units, *others))
    return Comparison(
        runs=(len(first), len(second)),
        left_out=(
            len(first) - sum(unit.runs for unit in units),
            len(second) - sum(unit.runs for unit in others),
        ),
        units=(len(units), len(others)),
        allocations=len(allocations) + unknown,
        ratio=math.exp(fmean(logs) - fmean(other_logs)) if logs and other_logs else None,
        low=None if interval is None else math.exp(interval[0]),
        high=None if interval is None else math.exp(interval[1]),
        verdict=verdict,
        more=more,
        least=least,
    )


def _verdict(interval: Interval | None) -> Verdict:
    if interval is not None and interval[0] > _ROUNDING:
        return Verdict.FASTER
    if interval is not None and interval[1] < -_ROUNDING:
        return Verdict.SLOWER
    return Verdict.CANNOT_TELL


def _grouped(timings: Sequence[Timing], *, by_block: bool) -> list[list[Timing]]:
    """Return the runs grouped by allocation or, with `by_block`, by block within an allocation.

    All runs of an allocation that are in no block form one group. A run whose allocation is not
    known forms its own group.
    """
    groups: dict[object, list[Timing]] = {}
    for index, timing in enumerate(timings):
        block = timing.block if by_block else None
        key = index if timing.allocation is None else (timing.allocation, block)
        groups.setdefault(key, []).append(timing)
    return list(groups.values())


def _unit(runs: Sequence[Timing]) -> _Unit:
    logs = [math.log(run.speed) for run in runs]
    places = [run.place for run in runs if run.place is not None]
    place = fmean(places) if len(places) == len(runs) else None
    return _Unit(runs[0].allocation, math.fsum(logs) / len(logs), place, len(runs))


def _pairs(first: Sequence[Timing], second: Sequence[Timing]) -> list[tuple[_Unit, _Unit]]:
    """Return a pair (A, B) for every block in which both A and B have runs.

    Each side of a pair is the mean of its runs. The runs of an allocation that are in no block
    count as one block. The speed that all runs of a block share cancels in the difference of the
    two means. In the order A B B A, a drift by d per place also cancels. It moves the mean of A
    by (0 + 3d)/2, and the mean of B by (d + 2d)/2. Both are 1.5d.
    """
    others = {
        (runs[0].allocation, runs[0].block): runs
        for runs in _grouped(second, by_block=True)
        if runs[0].allocation is not None
    }
    return [
        (_unit(runs), _unit(others[key]))
        for runs in _grouped(first, by_block=True)
        if (key := (runs[0].allocation, runs[0].block)) in others
    ]
