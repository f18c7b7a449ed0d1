"""Read the log of an attempt: its records, and its step reports after the warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.collect.restarts import last_start
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.store.records import Attempt
from parsers.records import Record, RunTotals, Step
from parsers.runs.reading import read
from parsers.runs.run import LogRun
from parsers.summary.launches import Configured, RunReports, run_reports
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """The records and step reports of an attempt, since Slurm last started its job.

    If the job trained several times, each time from the beginning, only the last training with
    measurements is kept. If a training continued from a checkpoint, all its launches are kept.
    """

    records: Sequence[Record]
    reports: RunReports


def read_attempt_log(
    attempt: Attempt | None,
    framework: str,
    configured: Configured,
    warmup: Warmup,
    *,
    complete: bool,
) -> AttemptLog:
    """Read the log of an attempt; without an attempt or a log, the result is empty.

    configured: the configured iterations and global batch size of the run. warmup: the warm-up
    that the step reports leave out. complete: whether all programs have finished writing to the
    log; if not, its last line may be incomplete. Raises OSError if the log cannot be read.
    """
    if attempt is None or not attempt.log.exists():
        return AttemptLog((), RunReports())
    # Steps before Slurm started the job again do not belong to the run that is measured.
    start = last_start(attempt.log) if attempt.job and attempt.job.restarts else 0
    formats = FRAMEWORKS[framework].log.formats
    # While a program writes, a last line without its newline may be half of one.
    runs = read(
        attempt.log, formats, start=start, complete=complete, count_lines=False, processes=1
    )
    run = next(filter(_has_measurements, reversed(runs)), runs[-1])
    return AttemptLog(run.records, run_reports(run, warmup, configured))


def _has_measurements(run: LogRun) -> bool:
    return any(isinstance(record, Step | RunTotals) for record in run.records)
