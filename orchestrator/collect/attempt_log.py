"""Read the log of an attempt: its records, and its step reports after the warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.collect.restarts import last_start
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.store.records import Attempt
from parsers.records import Record
from parsers.scan.reader import read_records
from parsers.steps.merge import merged_steps
from parsers.summary.launches import Configured, LaunchReports, launch_reports
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """What the log of an attempt contains since its job's last start."""

    records: Sequence[Record]
    reports: LaunchReports


def read_attempt_log(
    attempt: Attempt | None,
    framework: str,
    configured: Configured,
    warmup: Warmup,
    *,
    complete: bool,
) -> AttemptLog:
    """Return what the log of an attempt contains; nothing if there is no log.

    configured: what its run was configured to do. complete: no program writes to the log any more.
    Raises OSError.
    """
    records: list[Record] = []
    if attempt is not None and attempt.log.exists():
        # Steps before Slurm started the job again do not belong to the run that is measured.
        start = last_start(attempt.log) if attempt.job and attempt.job.restarts else 0
        formats = FRAMEWORKS[framework].log.formats
        # While a program writes, a last line without its newline may be half of one.
        records += read_records(attempt.log, formats, start=start, complete=complete)
    return AttemptLog(records, launch_reports(merged_steps(records), warmup, configured))
