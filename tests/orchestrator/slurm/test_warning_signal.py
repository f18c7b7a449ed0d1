"""A run is out of time if its requested signal ended it shortly before its time limit."""

import signal

import pytest

from orchestrator.slurm.warning_signal import ended_by_warning_signal
from orchestrator.store.job_state import JobState

SCRIPT = "#!/bin/bash\n#SBATCH --signal={signal}\n#SBATCH --time=0:10:00\n\necho\n"
USR1, USR2, TERM = signal.SIGUSR1.value, signal.SIGUSR2.value, signal.SIGTERM.value


@pytest.mark.parametrize(
    ("asked", "exit_code", "number", "seconds", "is_so"),
    [
        ("USR2@90", 128 + USR2, None, 510.0, True),
        ("USR2@90", 0, USR2, 510.0, True),
        ("SIGUSR2@90", 128 + USR2, None, 590.0, True),
        (f"{USR2}@90", 128 + USR2, None, 510.0, True),
        ("B:TERM@30", 128 + TERM, None, 570.0, True),
        # Slurm may be a minute early, and sends the signal a minute ahead if no time is given.
        ("USR2@90", 128 + USR2, None, 451.0, True),
        ("USR2", 128 + USR2, None, 481.0, True),
        # The job ended long before its time limit.
        ("USR2@90", 128 + USR2, None, 300.0, False),
        # Another signal, or none: the program failed by itself.
        ("USR2@90", 128 + USR1, None, 590.0, False),
        ("USR2@90", 1, None, 590.0, False),
        ("USR2@90", 128 + USR2, None, None, False),
        ("NOSUCH@90", 128 + USR2, None, 590.0, False),
    ],
)
def test_a_job_ended_by_the_signal_has_run_out_of_time(
    asked: str, exit_code: int, number: int | None, seconds: float | None, *, is_so: bool
) -> None:
    """A job counts as out of time if the requested signal ended it shortly before its limit."""
    state = JobState("7", "FAILED", "sacct", exit_code=exit_code, signal=number)
    assert ended_by_warning_signal(SCRIPT.format(signal=asked), state, seconds) is is_so


@pytest.mark.parametrize("line", ["#SBATCH --signal=USR2@90\n", "#SBATCH --time=0:10:00\n"])
def test_a_job_that_asked_for_no_signal_has_failed(line: str) -> None:
    """If a signal ended a job that requested no signal or has no time limit, the job has failed."""
    state = JobState("7", "FAILED", "sacct", exit_code=128 + USR2)
    script = SCRIPT.format(signal="USR2@90").replace(line, "")
    assert not ended_by_warning_signal(script, state, 590.0)
