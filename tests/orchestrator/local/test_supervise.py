"""Supervise one attempt in a separate process: record how it ends, and end its processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from orchestrator.local.processes import marked
from orchestrator.store.folders import read_attempt
from orchestrator.store.records import Attempt

SUPERVISOR = """\
import sys
from pathlib import Path
from orchestrator.local.supervise import Order, supervise
attempt = Path(sys.argv[1])
order = Order(
    script=attempt.parent / "job.sh",
    attempt=attempt,
    time_limit_seconds=int(sys.argv[2]),
    devices=("3", "5"),
    environment={"CUDA_VISIBLE_DEVICES": "3,5"},
)
supervise(order)
"""


@dataclass
class Supervised:
    """A supervisor, i.e. the process that starts an attempt, and the attempt's folder."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def attempt(self) -> Attempt:
        """Return the record of the attempt."""
        return read_attempt(self.folder)

    def wait(self) -> Attempt:
        """Wait for the end of the supervisor, and return the record of the attempt."""
        assert self.process.wait(timeout=60) == 0
        return self.attempt()

    def wait_for(self, line: str) -> None:
        """Wait until the job has printed a line."""
        log, deadline = self.folder / "output.log", time.monotonic() + 60
        while not log.exists() or line not in log.read_text().splitlines():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def left(self) -> list[psutil.Process]:
        """Return the processes of the attempt that still run."""
        started = self.attempt().started
        assert started is not None
        return list(marked(started.token))


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    """Return a function that starts a bash script as a job under a supervisor.

    The function takes the text of the script, and the time limit in seconds.
    """
    started: list[Supervised] = []

    def start(job: str, time_limit_seconds: int = 600) -> Supervised:
        folder = tmp_path / "attempt-1"
        folder.mkdir()
        (tmp_path / "job.sh").write_text(job)
        command = [sys.executable, "-c", SUPERVISOR, str(folder), str(time_limit_seconds)]
        started.append(Supervised(subprocess.Popen(command, stdin=subprocess.PIPE), folder))
        return started[-1]

    yield start
    for supervised_job in started:
        supervised_job.process.kill()
        supervised_job.process.communicate()
        if supervised_job.attempt().started is not None:
            for process in supervised_job.left():
                process.kill()


@pytest.mark.parametrize(
    ("job", "state", "exit_code", "signal_name"),
    [
        ("exit 0", "COMPLETED", 0, None),
        ("exit 3", "FAILED", 3, None),
        ("kill -KILL $$", "FAILED", None, "SIGKILL"),
    ],
)
def test_the_end_of_a_job_is_recorded(
    supervised: Callable[..., Supervised],
    job: str,
    state: str,
    exit_code: int | None,
    signal_name: str | None,
) -> None:
    """The record of an attempt has the exit code of its job, or the signal that ended the job."""
    ended = supervised(job).wait().ended
    assert ended is not None
    assert (ended.state, ended.exit_code, ended.signal) == (state, exit_code, signal_name)
    assert ended.seconds is not None
    assert ended.seconds > 0


def test_the_supervisor_of_a_running_attempt_is_recorded(
    supervised: Callable[..., Supervised],
) -> None:
    """The record of a running attempt has the supervisor's process id and the devices in use.

    The job runs in the attempt's folder. Its environment has the devices and the mark.
    """
    job = supervised('echo "$CUDA_VISIBLE_DEVICES" "$TERALOG_ATTEMPT"; pwd; echo x >&2; sleep 600')
    job.wait_for("x")
    attempt = job.attempt()
    assert attempt.ended is None
    assert attempt.started is not None
    assert (attempt.started.pid, attempt.started.devices) == (job.process.pid, ("3", "5"))
    assert attempt.log.read_text() == f"3,5 {attempt.started.token}\n{job.folder}\nx\n"
    assert job.left() != []


def end_by_signal(job: Supervised) -> None:
    """Send SIGTERM to the supervisor."""
    job.process.send_signal(signal.SIGTERM)


def end_by_interrupt(job: Supervised) -> None:
    """Send SIGINT to the supervisor."""
    job.process.send_signal(signal.SIGINT)


def end_by_leaving(job: Supervised) -> None:
    """Close the supervisor's standard input, as happens if `submit` is killed."""
    assert job.process.stdin is not None
    job.process.stdin.close()


@pytest.mark.parametrize(
    ("stop", "limit", "state"),
    [
        (end_by_signal, 600, "CANCELLED"),
        (end_by_interrupt, 600, "INTERRUPTED"),
        (end_by_leaving, 600, "INTERRUPTED"),
        (lambda job: None, 1, "TIMEOUT"),
    ],
)
def test_a_stopped_job_is_recorded_with_its_state(
    supervised: Callable[..., Supervised],
    stop: Callable[[Supervised], None],
    limit: int,
    state: str,
) -> None:
    """A job that is stopped is recorded as CANCELLED, INTERRUPTED or TIMEOUT.

    None of its processes is left, not even in another session.
    """
    job = supervised("setsid sleep 600 & echo here; wait", limit)
    job.wait_for("here")
    stop(job)
    ended = job.wait().ended
    assert ended is not None
    assert (ended.state, ended.exit_code, ended.signal) == (state, None, None)
    assert job.left() == []


def test_processes_left_by_a_job_are_ended(supervised: Callable[..., Supervised]) -> None:
    """An attempt ends when its script ends, so processes left by the script are killed."""
    job = supervised("setsid sleep 600 & echo here")
    ended = job.wait().ended
    assert ended is not None
    assert ended.state == "COMPLETED"
    assert job.left() == []


def test_no_job_is_started_for_a_submit_that_was_killed(
    supervised: Callable[..., Supervised],
) -> None:
    """If `submit` is killed before its supervisor starts the job, no job starts."""
    job = supervised("echo here")
    end_by_leaving(job)
    attempt = job.wait()
    assert (attempt.started, attempt.ended) == (None, None)
    assert list(job.folder.iterdir()) == []
