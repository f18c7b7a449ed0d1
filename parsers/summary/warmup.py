"""Which step reports at the beginning of a launch are left out of its numbers.

The policy is one of

* `none`: every report counts;
* `first`: the first report of a launch is left out, for it holds compilation, allocation and the
  set-up of communication;
* a number N: the first N reports are;
* `auto`: so many that the mean of the others is most certain, by the rule MSER-5.

MSER, the marginal standard error rule, leaves out the first d of n observations where the squared
standard error of the mean of the others is least, worked out as if they were independent: the sum
of (x - mean)² over those others, divided by (n - d)² (K. P. White Jr., An effective truncation
heuristic for bias reduction in simulation output, Simulation 69(6), 1997). MSER-5 does so with the
means of five observations each, which is steadier (K. P. White Jr., M. J. Cobb, S. C. Spratt, A
comparison of five steady-state truncation heuristics for simulation, Winter Simulation Conference
2000). Where the least is in the second half, no steady state has been reached.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

POLICIES = ("none", "first", "auto")

_BATCH = 5
# With fewer batches there is nothing to choose from; single observations are taken instead.
_FEWEST_BATCHES = 10
# The last few always look steady; a single one has no variance at all.
_KEPT_AT_LEAST = 5


@dataclass(frozen=True, slots=True)
class Truncation:
    """So many first reports are warm-up; `steady`: what follows them is a steady state."""

    reports: int
    steady: bool = True


@dataclass(frozen=True, slots=True)
class WarmupPolicy:
    """How many first reports of a launch are left out: a number, or None for `auto`."""

    reports: int | None = 1

    @classmethod
    def parse(cls, text: str) -> "WarmupPolicy":
        """Read `none`, `first`, `auto` or a number. Raises ValueError where it is none of them."""
        word = text.strip().lower()
        if word.isascii() and word.isdigit():
            return cls(int(word))
        if word not in POLICIES:
            raise ValueError(f"{text!r} is no warm-up: it is none, first, auto, or a number")
        return cls({"none": 0, "first": 1, "auto": None}[word])

    def truncation(self, step_seconds: Sequence[float | None]) -> Truncation:
        """Return how many of a launch's reports are left out.

        step_seconds: one a report; None where it says nothing of speed, which `auto` passes over.
        """
        if self.reports is not None:
            return Truncation(min(self.reports, len(step_seconds)))
        known = [(at, time) for at, time in enumerate(step_seconds) if time is not None]
        found = steady_state([time for _, time in known])
        if not found.reports:
            return found
        last, _ = known[found.reports - 1]
        return Truncation(last + 1, found.steady)

    def __str__(self) -> str:
        if self.reports is None:
            return "auto"
        return {0: "none", 1: "first"}.get(self.reports, str(self.reports))


def steady_state(observations: Sequence[float]) -> Truncation:
    """Return how many first observations are left out by MSER-5; at most half of them.

    Of fewer than 50 the rule is taken on single observations, as it was first published.
    """
    size = _BATCH if len(observations) >= _BATCH * _FEWEST_BATCHES else 1
    whole = len(observations) // size * size
    means = [
        statistics.fmean(observations[begin : begin + size]) for begin in range(0, whole, size)
    ]
    errors = _squared_standard_errors(means)
    half = len(means) // 2
    searched = errors[: max(len(means) - _KEPT_AT_LEAST, 0) + 1]
    best = min(range(len(searched)), key=searched.__getitem__, default=0)
    if best <= half:
        return Truncation(best * size)
    return Truncation(half * size, steady=False)


def _squared_standard_errors(observations: Sequence[float]) -> list[float]:
    """Return for each d the squared standard error of the mean without the first d."""
    errors = []
    mean, squares = 0.0, 0.0
    for count, observation in enumerate(reversed(observations), start=1):
        away = observation - mean
        mean += away / count
        squares += away * (observation - mean)
        errors.append(squares / count**2)
    return errors[::-1]
