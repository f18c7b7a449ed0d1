"""Find runs much slower than comparable runs.

How fast a model trains on a machine is unknown before it is measured. So a run is compared
with measurements of the same configuration. First, it is compared with its siblings: the
runs of its campaign that differ from it only in `repeat`. If it is not slow compared with
them, it is compared with its own earlier attempts. Last, it is compared with the same run in
earlier campaigns.

The rule. A run's time is the median of its step times after the warm-up. It needs at least
three step reports. A single slow step, e.g. one with a checkpoint, does not change the
median. The usual time is the median of the other runs' times, so a minority of slow runs
does not change it. A run is slow if its time is both

* more than 1.25 times the usual time. Repeats on sound nodes differ by a few percent. A GPU
  that throttles, a link at half its rate, or another job on the node costs more than a
  quarter;
* more than three standard deviations above the usual time. The standard deviation is
  estimated as 1.4826 times the median absolute deviation. For normally distributed times,
  both are equal, but a slow run among the others does not increase the estimate.

The median absolute deviation is computed in two ways, and the larger one is used. The first
is the deviation of the other runs' times from each other. The second is the usual deviation
of single steps within one of these runs. It is needed if the steps on a machine vary much:
two siblings may be equally fast by chance. Then a third sibling would look slow.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.common.tables import Style, shown
from orchestrator.common.text import printable
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run

LEAST_REPORTS = 3
FACTOR = 1.25
_DEVIATIONS = 3
# 1 / the third quartile of the standard normal distribution.
_STANDARD = 1.4826

_SHORT = Style(digits=2)
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The median and the median absolute deviation of an attempt's step times after the warm-up."""

    median_seconds: float
    deviation_seconds: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "StepTimes | None":
        """Return the median and the median absolute deviation of step times.

        Returns None for fewer than `LEAST_REPORTS` times, or if the median is 0.
        """
        if len(seconds) < LEAST_REPORTS or not (median := statistics.median(seconds)):
            return None
        return cls(median, deviation(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """A run, its nodes, and its step times.

    kind: a key that is equal for runs that differ only in `repeat`; such runs are compared.
    node_list: the nodes in Slurm's notation; the host's name for a local run.
    times: step times of the last attempt. earlier: step times of earlier attempts.
    elsewhere: step times of the same run in other campaigns.
    Unknown values are None, or are left out of lists.
    """

    label: str
    kind: str
    node_list: str | None = None
    times: StepTimes | None = None
    earlier: tuple[StepTimes, ...] = ()
    elsewhere: tuple[StepTimes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRun:
    """A slow run, compared with other runs or attempts.

    step_seconds: the run's median step time. usual_seconds: the median step time of the others.
    others: with what the run is compared: `siblings`, `earlier attempts`, or `earlier runs` of
    other campaigns. count: the number of these siblings, attempts or runs.
    """

    label: str
    node_list: str | None
    step_seconds: float
    usual_seconds: float
    others: str
    count: int

    @property
    def ratio(self) -> float:
        """The run's median step time divided by the usual step time."""
        return self.step_seconds / self.usual_seconds

    @property
    def slower(self) -> str:
        """The ratio as text, e.g. 1.4 and a multiplication sign."""
        return f"{shown(self.ratio, _SHORT)} {_TIMES}"

    def __str__(self) -> str:
        where = f" on {self.node_list}" if self.node_list else ""
        step, usual = (
            shown(seconds, _SHORT) for seconds in (self.step_seconds, self.usual_seconds)
        )
        several = self.count > 1
        whose = f"{self.count} {self.others}" if several else self.others.removesuffix("s")
        return printable(
            f"{self.label}{where}: slow: {step} s per step, {self.slower} the {usual} s of its "
            f"{whose}"
        )

    def record(self) -> dict[str, Any]:
        """Return the slow run as a JSON object."""
        return {
            "step_seconds": self.step_seconds,
            "usual_step_seconds": self.usual_seconds,
            "ratio": self.ratio,
            "compared_with": self.others,
            "compared": self.count,
        }


def kind_of(run: Run) -> str:
    """Return a key that is equal for runs that differ only in `repeat`."""
    return run_id(replace(run, repeat=1))


def deviation(values: Sequence[float]) -> float:
    """Return the median absolute deviation of values from their median.

    `values` must not be empty.
    """
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def stands_out(value: float, others: Sequence[float], least_deviation: float = 0.0) -> bool:
    """Return whether a value is far above other values.

    This is the case if it is more than 1.25 times their median, and more than three standard
    deviations above their median. The standard deviation is estimated as 1.4826 times the median
    absolute deviation of the other values.

    least_deviation: used in place of this median absolute deviation if it is larger.
    """
    usual = statistics.median(others)
    spread = _STANDARD * max(deviation(others), least_deviation)
    return value > FACTOR * usual and value > usual + _DEVIATIONS * spread


def siblings(runs: Mapping[str, TimedRun]) -> dict[str, list[StepTimes]]:
    """Return the known step times of each run's siblings, by the run's id.

    Siblings are runs that differ only in `repeat`.
    """
    kinds: dict[str, list[str]] = {}
    for identity, run in runs.items():
        kinds.setdefault(run.kind, []).append(identity)
    return {
        identity: [
            times
            for other in kinds[run.kind]
            if other != identity and (times := runs[other].times) is not None
        ]
        for identity, run in runs.items()
    }


def slow_runs(runs: Mapping[str, TimedRun]) -> dict[str, SlowRun]:
    """Return the slow runs of a campaign, by the runs' ids.

    A run is compared with its siblings. If it is not slow compared with them, it is compared with
    its own earlier attempts. Last, it is compared with the same run in earlier campaigns.
    """
    alike = siblings(runs)
    candidates = {
        identity: _slow(run, alike[identity], "siblings")
        or _slow(run, run.earlier, "earlier attempts")
        or _slow(run, run.elsewhere, "earlier runs")
        for identity, run in runs.items()
    }
    return {identity: slow for identity, slow in candidates.items() if slow is not None}


def _slow(run: TimedRun, others: Sequence[StepTimes], called: str) -> SlowRun | None:
    if run.times is None or not others:
        return None
    medians = [other.median_seconds for other in others]
    within = statistics.median(other.deviation_seconds for other in others)
    if not stands_out(run.times.median_seconds, medians, within):
        return None
    return SlowRun(
        label=run.label,
        node_list=run.node_list,
        step_seconds=run.times.median_seconds,
        usual_seconds=statistics.median(medians),
        others=called,
        count=len(medians),
    )


def slow_run_lines(slow: Iterable[SlowRun]) -> list[str]:
    """Return a line for each slow run, the slowest first."""
    return [str(run) for run in sorted(slow, key=lambda run: -run.ratio)]
