"""Read the progress of a run from its log; each call reads only the appended bytes."""

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.collect.restarts import STARTS_AGAIN, since_last_start
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.measure.summary import record_reports
from orchestrator.run.flops import hardware_flops, tflops_per_gpu
from orchestrator.run.model import Run
from orchestrator.status.slow_runs import StepTimes
from parsers.records import Record
from parsers.scan.resume import ReadState, read_appended
from parsers.summary.launches import RunReports
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come since its job's last start, and its speed; unknown values are None.

    iteration: the last reported iteration. iterations: how many iterations the run will have.
    step_seconds: the median step time after the warm-up.
    tflops_per_gpu: hardware TFLOPs at this median step time, computed as in the campaign's report.
    times: the median and the median absolute deviation of the step times; needed to compare runs.
    report_seconds: the usual time between two step reports.
    overflowed: whether each report after the warm-up includes a skipped update. In this case, no
    step time is known.
    """

    iteration: int | None = None
    iterations: int | None = None
    step_seconds: float | None = None
    tflops_per_gpu: float | None = None
    times: StepTimes | None = None
    report_seconds: float | None = None
    overflowed: bool = False

    @property
    def seconds_left(self) -> float | None:
        """The remaining time in seconds: the remaining iterations times the median step time.

        None if one of the two is not known.
        """
        if self.iteration is None or self.iterations is None or self.step_seconds is None:
            return None
        return (self.iterations - self.iteration) * self.step_seconds


def run_progress(run: Run, records: Sequence[Record], warmup: Warmup) -> Progress:
    """Return the progress of a run according to the records of its log."""
    reports = record_reports(run, records, warmup)
    iterations = reports.iterations_told or run.training.train_iters
    if not reports:
        return Progress(iterations=iterations)
    iteration = reports.steps[-1].iteration
    seconds = reports.seconds
    median = statistics.median(seconds) if seconds else None
    return Progress(
        iteration=iteration,
        # A user's own script may run more iterations than the campaign requests.
        iterations=iterations if iteration <= iterations else None,
        step_seconds=median,
        tflops_per_gpu=tflops_per_gpu(hardware_flops(run), median, run.world_size),
        times=StepTimes.of(seconds),
        report_seconds=report_seconds(reports),
        overflowed=reports.overflowed,
    )


def report_seconds(reports: RunReports) -> float | None:
    """Return the usual time between two step reports of the last launch.

    This is the median step time, multiplied by the number of steps from one report to the next.
    Warm-up steps are used only while there are no other steps. Returns None if the last launch has
    reported no time.
    """
    if not reports.launches:
        return None
    launch = reports.launches[-1]
    counted = [time for time in launch.column("step_seconds") if time is not None]
    seconds = counted or [time for time in launch.step_seconds if time is not None]
    iterations: list[int] = list(launch.steps.column("iteration"))
    if not seconds or not iterations:
        return None
    apart = [later - earlier for earlier, later in pairwise(iterations) if later > earlier]
    with suppress(OverflowError):  # if a number in the log is damaged
        # A single report covers at most as many steps as its iteration number.
        steps: float = statistics.median(apart) if apart else iterations[0]
        usual: float = statistics.median(seconds) * max(steps, 1)
        return usual
    return None


@dataclass(frozen=True, slots=True)
class LogSoFar:
    """The part of a growing log that was read: the records since its job's last start.

    state: where the next call of `read_on` continues to read.
    """

    records: tuple[Record, ...] = ()
    state: ReadState | None = None


def read_on(log: Path, planned: PlannedRun, before: LogSoFar, *, complete: bool) -> LogSoFar:
    """Return the records of a run's log; read only the bytes that were appended since `before`.

    The records are those since the last start of the run's job. If the log was cut short or
    replaced, it is read again from the start. Raises OSError if it cannot be read.

    before: the result of the previous call; `LogSoFar()` for the first call.
    complete: whether no process writes to the log any more.
    """
    formats = (*FRAMEWORKS[planned.run.framework].log.formats, STARTS_AGAIN)
    appended = read_appended(log, formats, before.state, complete=complete)
    if not appended.records and not appended.restarted:
        return LogSoFar(before.records, appended.state)
    kept = () if appended.restarted else before.records
    return LogSoFar(tuple(since_last_start((*kept, *appended.records))), appended.state)
