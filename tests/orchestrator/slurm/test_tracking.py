"""Record what Slurm reports about a job that Slurm started more than once."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.slurm.tracking import record_job_state
from orchestrator.store.folders import RunFolder
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Intent

AGAIN = JobState("7", "RUNNING", "squeue", "batch", restarts=1, earlier_seconds=9.0)
END = JobState("7", "COMPLETED", "sacct", "batch", exit_code=0)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([AGAIN, END], (1, 9.0)),
        ([AGAIN, replace(END, restarts=1, earlier_seconds=8.0)], (1, 8.0)),
        ([AGAIN, replace(END, restarts=2, earlier_seconds=30.0)], (2, 30.0)),
        ([AGAIN, replace(AGAIN, restarts=0, earlier_seconds=0.0), END], (1, 9.0)),
        ([AGAIN, replace(END, by="job.json")], (1, 9.0)),
        ([replace(AGAIN, restarts=0, earlier_seconds=0.0), END], (0, 0.0)),
    ],
)
def test_a_start_that_accounting_forgot_stays_recorded(
    tmp_path: Path, answers: list[JobState], expected: tuple[int, float]
) -> None:
    """A job's earlier start stays recorded, even if accounting reports only the last start.

    This happens if the job is requeued before accounting has recorded its first start.
    """
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.claim(1, Intent("batch", "here", "2026-01-02T03:04:05+00:00"))
    for answer in answers:
        (attempt,) = folder.attempts()
        record_job_state(attempt, answer)
    (attempt,) = folder.attempts()
    assert attempt.job is not None
    assert (attempt.job.restarts, attempt.job.earlier_seconds) == expected
