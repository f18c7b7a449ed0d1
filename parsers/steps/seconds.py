"""Compute step times and their statistics, and find reports with a skipped update.

An iteration whose gradients overflowed skips its update. It does less work than other iterations,
so its time is not the time of a step.
"""

import math
import statistics
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def skipped_updates(
    iterations: Sequence[int], so_far: Sequence[int | None], since: Iterable[int | None]
) -> list[bool]:
    """Return for each report of a launch, in order, whether it includes a skipped update.

    iterations: the iteration of each report.
    so_far: how many updates had been skipped up to each report (DeepSpeed). since: how many were
    skipped since the previous report (Megatron). None if a report does not contain the number.

    The first number in `so_far` counts from the start of the training. So it may be about updates
    that were skipped long before its report. It shows a skipped update only if two conditions hold:
    it is in the first report, and this report's iteration is at most the distance between the first
    two reports.
    """
    first = next((at for at, total in enumerate(so_far) if total is not None), 0)
    cut = len(iterations) > 1 and 2 * iterations[0] > iterations[1]
    before = (so_far[first] if so_far and (first or cut) else None) or 0
    skips = []
    for total, count in zip(so_far, since, strict=True):
        now = before if total is None else total
        skips.append(now > before or bool(count))
        before = now
    return skips


def overflowed_updates(
    iterations: Sequence[int], offsets: Sequence[int], overflows: Sequence[int]
) -> list[bool]:
    """Return for each report of a launch, in order, whether gradients overflowed in its iteration.

    A line about an overflow contains no iteration. It belongs to the next report if that report is
    about one iteration only, i.e. if the report before is about the iteration before.

    iterations, offsets: the iteration and the offset of each report. overflows: the offsets of the
    lines about overflows, in ascending order.
    """
    befores = zip((0, *iterations), (-1, *offsets), strict=False)
    return [
        iteration == before + 1 and bisect(overflows, start) < bisect(overflows, offset)
        for iteration, offset, (before, start) in zip(iterations, offsets, befores, strict=False)
    ]


# A number that is larger, or closer to zero, is mangled: sums and quotients would overflow.
_MAGNITUDE = 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """Statistics of step times, in seconds; absent values are None.

    n: the number of step times. std: the sample standard deviation, i.e. with n - 1 as divisor.
    first: the first step time.
    """

    n: int = 0
    mean: float | None = None
    median: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    first: float | None = None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "StepSeconds":
        """Return the statistics of step times, in the order of the log."""
        if not seconds:
            return cls()
        mean = mean_of(seconds)
        return cls(
            n=len(seconds),
            mean=mean,
            median=statistics.median(seconds),
            std=_deviation(seconds, mean) if len(seconds) > 1 else None,
            min=min(seconds),
            max=max(seconds),
            first=seconds[0],
        )


def _deviation(values: Sequence[float], mean: float) -> float:
    """Return the sample standard deviation of two or more values with this mean.

    `statistics.stdev` uses fractions, which takes up to ten times as long for the same digits.
    """
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def is_sound(value: float) -> bool:
    """Return whether a number can be used: it is not nan, inf, or extremely large or small."""
    return value == 0 or 1 / _MAGNITUDE < abs(value) < _MAGNITUDE


def step_seconds(
    reported: float | None, work: float | None, work_per_second: float | None
) -> float | None:
    """Return the seconds of a step: as reported, or else its work divided by the work per second.

    work: the samples or the tokens of the step. Returns None if neither time is known, or if the
    time is negative, nan, inf, or extremely large or small.
    """
    seconds = reported
    if seconds is None and work and work_per_second:
        seconds = work / work_per_second
    return seconds if seconds is not None and seconds >= 0 and is_sound(seconds) else None


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of one or more values, never below the lowest or above the highest.

    So the mean of equal values is exactly this value, without a rounding error.
    """
    return min(max(statistics.fmean(values), min(values)), max(values))
