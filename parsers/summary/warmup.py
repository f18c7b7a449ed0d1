"""Find the warm-up of a launch: the first iterations, which its numbers leave out.

A warm-up can be given in four ways:

* a number, e.g. `5`: the first 5 iterations of the launch;
* a percentage, e.g. `10%`: that part of the iterations that the launch will do;
* `first`: all iterations up to the first report, which includes compilation, allocation and the
  set-up of communication;
* `auto`: the iterations before the steady state, which the rule MSER-5 finds in the step times.

MSER, the marginal standard error rule, leaves out the first d of n observations. It chooses the d
with the smallest squared standard error of the mean of the other observations, computed as if these
were independent: the sum of their (x - mean)², divided by (n - d)² (K. P. White Jr., An effective
truncation heuristic for bias reduction in simulation output, Simulation 69(6), 1997). MSER-5 uses
the means of five observations each, which is more stable (K. P. White Jr., M. J. Cobb, S. C.
Spratt, A comparison of five steady-state truncation heuristics for simulation, Winter Simulation
Conference 2000). If the smallest value is in the second half, no steady state has been reached.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_NUMBER = re.compile(r"[0-9]{1,18}")
_PERCENT = re.compile(r"(?P<percent>[0-9]{1,2})%")

_BATCH = 5
# With fewer batches there is nothing to choose from; single observations are taken instead.
_FEWEST_BATCHES = 10
# The last few always look steady; a single one has no variance at all.
_KEPT_AT_LEAST = 5


@dataclass(frozen=True, slots=True)
class WarmupEnd:
    """The end of a warm-up.

    iteration: the last iteration of the warm-up. steady: whether a steady state follows.
    """

    iteration: int
    steady: bool = True


@dataclass(frozen=True, slots=True)
class Warmup:
    """The length of a warm-up: a number of iterations, a percentage of them, or a rule's name.

    With the rule `first`, `iterations` is the number of reports to leave out, if it is not 1.
    """

    iterations: int = 0
    percent: int = 0
    rule: Literal["first", "auto"] | None = None

    @classmethod
    def parse(cls, value: int | str) -> "Warmup":
        """Read a number of iterations, a percentage, `first` or `auto`; `none` is 0.

        Raises ValueError for any other text.
        """
        match str(value).strip().lower():
            case "none":
                return cls()
            case "first" | "auto" as rule:
                return cls(rule=rule)
            case number if _NUMBER.fullmatch(number):
                return cls(iterations=int(number))
            case text if match := _PERCENT.fullmatch(text):
                return cls(percent=int(match["percent"]))
        raise ValueError(
            f"{value!r} is not a valid warm-up: give a number of iterations (5), "
            "a percentage below 100 (10%), `first` or `auto`"
        )

    @property
    def written(self) -> int | str:
        """The warm-up as it is written in a campaign file."""
        return self.iterations or self.rule or (f"{self.percent}%" if self.percent else 0)

    def least_iterations(self, train_iters: int) -> int:
        """Return how many iterations a warm-up leaves out at least, whatever the log contains.

        train_iters: how many iterations the launch will do.
        """
        if self.rule == "first":
            return max(self.iterations, 1)
        return max(self.iterations, self.percent * train_iters // 100)

    def end(
        self,
        iterations: Sequence[int],
        step_seconds: Sequence[float | None],
        *,
        train_iters: int | None = None,
        resumed_from: int = 0,
    ) -> WarmupEnd:
        """Return the end of the warm-up of a launch.

        iterations: the iterations of the launch's reports, in order. A program may count
        from 0.
        step_seconds: one per report; None if the report has no time. `auto` ignores such
        reports.
        train_iters: the last iteration of the run; by default, the iteration of the last
        report.
        resumed_from: the iteration of the checkpoint from which the launch continued.
        """
        from_zero = 1 if iterations and not iterations[0] else 0
        before = resumed_from - from_zero
        if self.rule is not None:
            first = max(self.iterations, 1), True
            reports, steady = first if self.rule == "first" else _steady_state(step_seconds)
            reported = iterations[:reports]
            return WarmupEnd(reported[-1] if reported else before, steady)
        if train_iters is None:
            train_iters = iterations[-1] + from_zero if iterations else 0
        return WarmupEnd(before + self.least_iterations(max(train_iters - resumed_from, 0)))

    def __str__(self) -> str:
        if self.rule == "first":
            return f"the first {self.iterations} reports" if self.iterations else "the first report"
        if self.rule == "auto":
            return "the reports before the steady state (MSER-5)"
        if self.percent:
            return f"the first {self.percent}% of the iterations"
        if self.iterations == 1:
            return "the first iteration"
        return f"the first {self.iterations} iterations" if self.iterations else "none"


def _steady_state(step_seconds: Sequence[float | None]) -> tuple[int, bool]:
    """Return how many reports MSER-5 counts as warm-up, and whether the rest is steady.

    step_seconds: the step time of each report. Reports without a time (None) are ignored by the
    rule.
    """
    timed = [(at, time) for at, time in enumerate(step_seconds) if time is not None]
    times, steady = steady_state([time for _, time in timed])
    return timed[times - 1][0] + 1 if times else 0, steady


def steady_state(observations: Sequence[float]) -> tuple[int, bool]:
    """Return how many observations MSER-5 leaves out at the start; whether the rest is steady.

    At most half of the observations are left out. If there are fewer than 50, single observations
    are used (MSER) and not means of five (MSER-5).
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
        return best * size, True
    return half * size, False


def _squared_standard_errors(observations: Sequence[float]) -> list[float]:
    """Return a list: item d is the squared standard error of the mean of `observations[d:]`."""
    errors = []
    mean, squares = 0.0, 0.0
    for count, observation in enumerate(reversed(observations), start=1):
        away = observation - mean
        mean += away / count
        squares += away * (observation - mean)
        errors.append(squares / count**2)
    return errors[::-1]
