"""Compute step times and their statistics, and find reports with a skipped update.

An iteration whose gradients overflowed skips its update. It does less work than other iterations,
so its time is not the time of a step.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def skipped_updates(so_far: Iterable[int | None], since: Iterable[int | None]) -> list[bool]:
    """Return for each report of a launch, in order, whether it includes a skipped update.

    so_far: how many updates the launch had skipped up to each report (DeepSpeed). since: how many
    it skipped since the previous report (Megatron). None if a report does not contain the number.
    """
    skips = []
    before = 0
    for total, count in zip(so_far, since, strict=True):
        now = before if total is None else total
        skips.append(now > before or bool(count))
        before = now
    return skips


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
        return cls(
            n=len(seconds),
            mean=mean_of(seconds),
            median=statistics.median(seconds),
            std=statistics.stdev(seconds) if len(seconds) > 1 else None,
            min=min(seconds),
            max=max(seconds),
            first=seconds[0],
        )


def is_sound(value: float) -> bool:
    """Return whether a number can be used: it is not nan, inf, or extremely large or small."""
    return value == 0 or 1 / _MAGNITUDE < abs(value) < _MAGNITUDE


def step_seconds(
    reported: float | None, batch: int | None, samples_per_second: float | None
) -> float | None:
    """Return the seconds of a step: as reported, or else computed from the samples per second.

    The computed time is the global batch divided by the samples per second. Returns None if neither
    time is known, or if the time is negative, nan, inf, or extremely large or small.
    """
    seconds = reported
    if seconds is None and batch and samples_per_second:
        seconds = batch / samples_per_second
    return seconds if seconds is not None and seconds >= 0 and is_sound(seconds) else None


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of one or more values, never below the lowest or above the highest.

    So the mean of equal values is exactly this value, without a rounding error.
    """
    return min(max(statistics.fmean(values), min(values)), max(values))
