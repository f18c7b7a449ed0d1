"""Read from Slurm's output how long an allocation lasts, and why it ended."""

from pathlib import Path

import pytest

from orchestrator.slurm.allocation_end import Standing, interrupted_by_end, standing
from orchestrator.slurm.commands import SilenceError, patience

LINE = "JobId=7 JobName=a UserId=me(1) {}"
# Fields that scontrol prints, and the state of the allocation.
STANDINGS = {
    "goes on": (
        "JobState=RUNNING RunTime=00:01:30 TimeLimit=00:10:00",
        Standing(seconds_left=510),
    ),
    "days": ("JobState=RUNNING RunTime=1-00:00:00 TimeLimit=2-00:00:01", Standing(None, 86401)),
    "over its limit": (
        "JobState=RUNNING RunTime=00:01:30 TimeLimit=00:01:00",
        Standing(seconds_left=0),
    ),
    "no limit": ("JobState=RUNNING RunTime=00:01:30 TimeLimit=UNLIMITED", Standing()),
    "suspended": ("JobState=SUSPENDED RunTime=00:00:00 TimeLimit=00:01:00", Standing(None, 60)),
    "cancelled": ("JobState=CANCELLED RunTime=00:01:30 TimeLimit=00:10:00", Standing("CANCELLED")),
    # The last task of an array has the array's id; with it scontrol prints all other tasks too.
    "last task of an array": (
        "JobState=RUNNING RunTime=00:00:30 TimeLimit=00:01:00\nJobId=6 JobState=COMPLETED",
        Standing(seconds_left=30),
    ),
    "ending": ("JobState=COMPLETING RunTime=00:01:30", Standing("COMPLETING")),
}
SRUN = "srun: error: Unable to create step for job 7: Job/step already completing or completed\n"
ENDS = {
    "RUNNING": None,
    "SUSPENDED": None,
    "CANCELLED": "INTERRUPTED",
    "TIMEOUT": "INTERRUPTED",
    "COMPLETED": "INTERRUPTED",
    "FAILED": "INTERRUPTED",
    "NODE_FAIL": "NODE_FAIL",
    "BOOT_FAIL": "NODE_FAIL",
    "PREEMPTED": "PREEMPTED",
}


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for scontrol on the PATH, and return its path."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    patience.begin(5)
    return tmp_path / "scontrol"


def answers(scontrol: Path, text: str, code: int = 0) -> None:
    """Let the stand-in for scontrol print a text and exit with a code.

    It prints to stderr if the code is not 0.
    """
    scontrol.write_text(f"#!/bin/sh\necho '{text}' >&{2 if code else 1}\nexit {code}\n")
    scontrol.chmod(0o755)


@pytest.mark.parametrize(("fields", "expected"), STANDINGS.values(), ids=STANDINGS)
def test_the_state_of_an_allocation_is_that_of_scontrol(
    scontrol: Path, fields: str, expected: Standing
) -> None:
    """The time that an allocation has left is its time limit minus the time that it has run.

    Both are in scontrol's output.
    """
    answers(scontrol, LINE.format(fields))
    assert standing("7") == expected


def test_an_allocation_that_slurm_has_forgotten_is_gone(scontrol: Path) -> None:
    """An allocation that Slurm no longer knows, after MinJobAge, has ended."""
    answers(scontrol, "slurm_load_jobs error: Invalid job id specified", code=1)
    assert standing("7") == Standing("gone")
    assert interrupted_by_end("7", "") == "INTERRUPTED"


@pytest.mark.parametrize(("state", "expected"), ENDS.items())
def test_the_end_of_an_allocation_is_that_of_its_runs(
    scontrol: Path, state: str, expected: str | None
) -> None:
    """If a failed node or a preemption ends an allocation, its runs are NODE_FAIL or PREEMPTED.

    If the allocation ends for another reason, its runs are INTERRUPTED. If it is still active, the
    result is None.
    """
    answers(scontrol, LINE.format(f"JobState={state}"))
    assert interrupted_by_end("7", "Traceback\n") == expected


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (SRUN, "INTERRUPTED"),
        ("srun: error: Slurm job has expired\n", "INTERRUPTED"),
        (
            "*** STEP 7.0 ON a CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n",
            "INTERRUPTED",
        ),
        ("srun: error: Unable to create step for job 7: Invalid feature specification\n", None),
        ("ValueError: out of range\n", None),
        ("", None),
    ],
)
def test_if_slurm_is_silent_the_log_shows_the_end(
    scontrol: Path, log: str, expected: str | None
) -> None:
    """If scontrol does not answer, messages of srun or slurmstepd show that the allocation ended.

    teralog looks for such a message in the run's log. If there is one, the result is INTERRUPTED,
    otherwise None.
    """
    answers(scontrol, "Unable to contact slurm controller", code=1)
    with pytest.raises(SilenceError):
        standing("7")
    assert interrupted_by_end("7", log) == expected


@pytest.mark.parametrize(
    ("run_time", "log", "expected"),
    [
        ("00:01:00", SRUN, "INTERRUPTED"),
        ("00:01:20", SRUN, "INTERRUPTED"),
        ("00:01:00", "ValueError: out of range\n", None),
        ("00:00:30", SRUN, None),
    ],
)
def test_at_its_time_limit_an_allocation_ends_before_slurm_reports_it(
    scontrol: Path, run_time: str, log: str, expected: str | None
) -> None:
    """A run is INTERRUPTED if srun cannot start its step because the allocation's time is over.

    At that moment, Slurm still shows the allocation's job as RUNNING.
    """
    answers(scontrol, LINE.format(f"JobState=RUNNING RunTime={run_time} TimeLimit=00:01:00"))
    assert interrupted_by_end("7", log) == expected
