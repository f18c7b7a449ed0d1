"""Compute how many more runs a verdict needs, from the runs measured so far."""

import math
from collections.abc import Callable, Iterator, Sequence

from orchestrator.compare.intervals import (
    QUANTILE,
    mean_and_variance,
    pairs_suffice,
    sides_suffice,
    student_quantile,
    welch_degrees,
)

# The probability with which the planned number of runs must find an existing difference.
POWER = 0.8
# Nobody can start more runs than this, so a larger number is not returned.
MOST_RUNS = 10**6


def more_pairs(differences: Sequence[float]) -> tuple[int | None, bool]:
    """Return how many more pairs give a verdict, and whether this number is the minimum.

    differences: the difference of each pair measured so far. Any verdict needs at least 6
    pairs, so the minimum is the number of pairs that are missing until there are 6. The
    function returns the minimum if the measured difference needs no more pairs than that. It
    also returns the minimum if there are fewer than two pairs, or if the mean difference is
    within one standard error of zero.

    The number is None if it exceeds `MOST_RUNS`. It is also None if the mean difference is
    within one standard error of zero and there are at least 6 pairs.
    """
    count = len(differences)
    least = next(more for more in range(MOST_RUNS) if pairs_suffice(count + more))
    if count < 2:
        return least, True
    mean, variance = mean_and_variance(differences)

    def would_tell(more: int) -> bool:
        return _would_tell(mean, variance / (count + more), count + more - 1)

    return _planned(least, would_tell if mean**2 > variance / count else None)


def more_units(
    logs: Sequence[float], other_logs: Sequence[float], *, repeatable: bool
) -> tuple[int | None, bool]:
    """Return how many more units of each side give a verdict, and whether this is the minimum.

    logs, other_logs: the logarithm of the speed of each unit of A and of B. A unit is an
    allocation, or a run whose allocation is not known. repeatable: whether B can have more
    runs; if not, only A gets more units.

    The minimum is how many more units any verdict needs; it is 0 if there are already enough.
    Only the minimum can be computed if A or B has fewer than two units. The same is true if the
    difference is within one standard error of zero. In these cases, the function returns the
    minimum, or None if the minimum is 0, because 0 more units give no verdict. The number is
    also None if it exceeds `MOST_RUNS`, or if no number of units gives a verdict.
    """
    sizes = len(logs), len(other_logs)

    def grown(more: int) -> tuple[int, int]:
        return sizes[0] + more, sizes[1] + more * repeatable

    least = next((more for more in range(MOST_RUNS) if sides_suffice(*grown(more))), None)
    if least is None or min(sizes) < 2:
        return least or None, bool(least)
    (mean, variance), (other_mean, other_variance) = map(mean_and_variance, (logs, other_logs))
    difference = mean - other_mean

    def would_tell(more: int) -> bool:
        now = grown(more)
        parts = variance / now[0], other_variance / now[1]
        return _would_tell(difference, sum(parts), welch_degrees(*parts, now))

    seen = difference**2 > variance / sizes[0] + other_variance / sizes[1]
    return _planned(least, would_tell if seen else None)


def blocks_to_find(part: float, spread: float) -> int:
    """Return how many blocks A B B A are needed to find a difference in speed.

    part: the difference as a part of the speed, e.g. 0.05 for 5 %. spread: the standard deviation s
    of the logarithms of step times within an allocation. In each block, the mean of two runs of A
    is compared with the mean of two runs of B. The difference of these means also has the standard
    deviation s, because s²/2 + s²/2 = s².
    """
    difference = math.log1p(part)
    return next(
        count
        for count in _counts()
        if pairs_suffice(count) and _would_tell(difference, spread**2 / count, count - 1)
    )


def runs_to_find(part: float, spread: float) -> int:
    """Return how many runs per side are needed to find a difference in speed.

    Each run is in a separate allocation. part: the difference as a part of the speed, e.g. 0.05 for
    5 %. spread: the standard deviation of the logarithms of step times over all allocations.
    """
    difference = math.log1p(part)
    return next(
        count
        for count in _counts()
        if sides_suffice(count, count)
        and _would_tell(difference, 2 * spread**2 / count, 2 * count - 2)
    )


def _counts() -> Iterator[int]:
    """Yield the numbers of runs or blocks to try: 2, 3 and so on, without end.

    Above 100, some integers are skipped to save time. There, each number is at most 2 % larger than
    the one before it.
    """
    count = 2
    while True:
        yield count
        count += 1 + count // 100


def _would_tell(difference: float, variance: float, degrees: int) -> bool:
    """Return whether a test at the level 4 % finds a difference with a probability of 80 % or more.

    difference: the assumed true difference. variance: the variance of its measurement. degrees: the
    degrees of freedom of that variance. The condition is that the difference is at least
    (t(0.98) + t(0.8)) times its standard error. Here t is the quantile of Student's distribution
    (Cochran and Cox 1957, section 2.21).
    """
    wanted = student_quantile(QUANTILE, degrees) + student_quantile(POWER, degrees)
    return difference**2 >= wanted**2 * variance


def _planned(least: int, would_tell: Callable[[int], bool] | None) -> tuple[int | None, bool]:
    """Return how many more pairs or units give a verdict, and whether this number is the minimum.

    least: the minimum, i.e. how many more any verdict needs. would_tell: a function that
    returns whether a given number is enough; None if the measured difference is within one
    standard error of zero.

    If `would_tell` is None, the returned number is the minimum, or None if the minimum is 0.
    Otherwise it is the smallest number that is enough: at least the minimum, and at least 1. It
    is None if this number exceeds `MOST_RUNS`.
    """
    if would_tell is None:
        return (least, True) if least else (None, False)
    low = high = max(least, 1)
    while not would_tell(high):
        if high == MOST_RUNS:
            return None, False
        low, high = high + 1, min(high * 2, MOST_RUNS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if would_tell(middle) else (middle + 1, high)
    return high, high == least
