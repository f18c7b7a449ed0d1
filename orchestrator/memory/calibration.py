"""Correct memory forecasts with the peaks in the logs of finished runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from orchestrator.memory.forecast import MemoryForecast, Part

_LEAST_RUNS = 3
# The corrected ends get this margin, because a few runs do not show how far peaks can differ.
_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """The forecast of a finished run, and the memory peak in its log in GiB.

    whole_process: what the peak measures. True: the memory of the whole process, in a run
    without GPUs. False: the memory that torch allocated for tensors.
    """

    framework: str
    forecast: MemoryForecast
    peak_gib: float
    whole_process: bool

    @property
    def ratio(self) -> float:
        """The logged peak divided by the middle of the forecast, which is the mean of its two ends.

        If the peak measures only the memory that torch allocated for tensors, the forecast of this
        memory is used.
        """
        expected = self.forecast if self.whole_process else self.forecast.tensors
        return self.peak_gib / expected.middle_gib


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far the logged peaks of finished runs were from their forecasts.

    runs: the number of finished runs.
    lowest, highest: the lowest and the highest ratio of a run's logged peak to the middle of
    its forecast.
    whole_process: what the peaks measure. True: the memory of whole processes, in runs without
    GPUs. False: the memory that torch allocated for tensors.
    """

    runs: int
    lowest: float
    highest: float
    whole_process: bool

    def apply(self, forecast: MemoryForecast) -> MemoryForecast:
        """Return the forecast with corrected low and high ends, and with a part `calibration`.

        If `whole_process` is true, the new low end is the forecast's middle times the lowest ratio,
        minus 5 %. The new high end is the middle times the highest ratio, plus 5 %.

        If `whole_process` is false, the new ends of `forecast.tensors`, the memory for tensors, are
        computed in this way. Each end of the whole forecast then changes by as many GiB as the same
        end of `forecast.tensors`.
        """
        expected = forecast if self.whole_process else forecast.tensors
        low = expected.middle_gib * self.lowest * (1 - _MARGIN) - expected.low_gib
        high = expected.middle_gib * self.highest * (1 + _MARGIN) - expected.high_gib
        why = (
            f"peaks of {self.runs} finished runs: {self.lowest:.2f} to {self.highest:.2f} times "
            "the middle of their forecasts"
        )
        return replace(
            forecast,
            parts=(*forecast.parts, Part("calibration", low, high, why)),
            low_gib=forecast.low_gib + low,
            high_gib=forecast.high_gib + high,
        )


Calibrations = Mapping[str, Calibration]
"""The calibration for each framework, by the framework's name."""


def calibrations(measured: Iterable[Measured]) -> Mapping[str, Calibration]:
    """Return a calibration for each framework, by name, from the finished runs of this framework.

    A framework with fewer than three finished runs has no calibration.
    """
    runs: dict[str, list[Measured]] = {}
    for run in measured:
        runs.setdefault(run.framework, []).append(run)
    return {
        framework: Calibration(
            len(group),
            min(run.ratio for run in group),
            max(run.ratio for run in group),
            group[0].whole_process,
        )
        for framework, group in runs.items()
        if len(group) >= _LEAST_RUNS
    }
