"""Find and end the processes of an attempt by their mark: the variable TERALOG_ATTEMPT."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from orchestrator.local.processes import MARK, end_all, marked

HIDING = {
    "plain": "sleep 600",
    "in the background": "sleep 600 & exit",
    "in a session of its own": "setsid sleep 600",
    "forked twice": "( ( sleep 600 & ) & ); exit",
    "forked twice, in a session of its own": "( setsid --fork setsid --fork sleep 600 ); exit",
    "without its parent's variables": f'env -i {MARK}="${MARK}" sleep 600',
    "in another folder": "cd /; exec sleep 600",
    "another program": "exec -a innocent sleep 600",
}
# Each reports when it is ready. Bash handles a signal after its foreground child ended, hence the
# short naps.
STUBBORN = {
    "ignoring SIGTERM": 'trap "" TERM; echo; while :; do sleep 0.05; done',
    "ignoring SIGTERM, in a session of its own": (
        "setsid bash -c 'trap \"\" TERM; echo; while :; do sleep 0.05; done'"
    ),
    "starting others when told to end": (
        'trap "setsid --fork sleep 600" TERM; echo; while :; do sleep 0.05; done'
    ),
    "stopped": "echo; kill -STOP $$",
}


def with_mark(token: str) -> list[int]:
    """Return the ids of the processes that have this mark in their environment.

    A zombie does not count, because its environment is gone.
    """
    collected = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={token}".encode() in variables:
            collected.append(int(path.parent.name))
    return collected


def lives(process: psutil.Process) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def token() -> Iterator[str]:
    """Yield a mark that is unique to the test; no marked process outlives the test."""
    mark = uuid4().hex
    yield mark
    while left := with_mark(mark):
        for process in left:
            os.kill(process, signal.SIGKILL)


def start(token: str, shell: str) -> "subprocess.Popen[bytes]":
    """Start a shell in a new session, as teralog starts a job.

    token: the mark in the shell's environment. shell: the commands of the shell.
    """
    return subprocess.Popen(
        ["bash", "-c", shell],
        env={**os.environ, MARK: token},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for(token: str, name: str) -> None:
    """Wait until a process with this mark runs the program `name`."""
    deadline = time.monotonic() + 60
    while name not in [process.name() for process in marked(token)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("shell", HIDING.values(), ids=HIDING)
def test_a_process_is_found_by_its_mark_and_ended(token: str, shell: str) -> None:
    """A process with the attempt's mark is ended, even if its process group is unknown."""
    job = start(token, shell)
    wait_for(token, "sleep")
    end_all(token)
    assert with_mark(token) == []
    assert list(marked(token)) == []
    job.wait(timeout=60)


@pytest.mark.parametrize("shell", STUBBORN.values(), ids=STUBBORN)
def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(token: str, shell: str) -> None:
    """A process that ignores SIGTERM is killed after the grace period.

    Processes that it starts during the grace period are killed too.
    """
    job = start(token, shell)
    assert job.stdout is not None
    assert job.stdout.readline() == b"\n"
    end_all(token, group=job.pid, grace_seconds=0.3)
    assert with_mark(token) == []
    job.wait(timeout=60)


def test_a_process_is_asked_before_it_is_killed(token: str, tmp_path: Path) -> None:
    """A process gets SIGTERM first, and then has time to exit by itself."""
    last = tmp_path / "last words"
    leave = f"sleep 0.3; touch '{last}'; exit 7"
    job = start(token, f'trap "{leave}" TERM; echo; while :; do sleep 0.05; done')
    assert job.stdout is not None
    assert job.stdout.readline() == b"\n"
    end_all(token, group=job.pid, grace_seconds=60)
    assert job.wait(timeout=60) == 7
    assert last.exists()


def test_a_process_without_its_mark_ends_with_its_group(token: str) -> None:
    """A process without the mark is ended if it is in the job's process group.

    A program that clears its environment loses the mark.
    """
    job = start(token, "env -i sleep 600 & echo $!; wait")
    assert job.stdout is not None
    bare = psutil.Process(int(job.stdout.readline()))
    end_all(token, group=job.pid)
    job.wait(timeout=60)
    deadline = time.monotonic() + 60
    while lives(bare):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_is_just_being_started_is_not_missed(token: str) -> None:
    """Ending an attempt also ends a process that is started during the grace period.

    In this test, a program starts the process in a new session and exits at once.
    """
    relay = 'trap "setsid --fork setsid --fork sleep 600 & exit" TERM; echo; '
    for _ in range(6):
        job = start(token, f"{relay} while :; do sleep 0.001; done")
        assert job.stdout is not None
        assert job.stdout.readline() == b"\n"
        end_all(token, group=job.pid, grace_seconds=0.1)
        job.wait(timeout=60)
    assert with_mark(token) == []


def test_processes_of_another_attempt_live_on(token: str) -> None:
    """When an attempt is ended, processes with another mark live on.

    This holds even if the other mark begins with the mark of the attempt.
    """
    others = [start(f"{token}0", "exec sleep 600"), start("", "exec sleep 600")]
    wait_for(f"{token}0", "sleep")
    job = start(token, "exec sleep 600")
    wait_for(token, "sleep")
    end_all(token, group=job.pid)
    assert [other.poll() for other in others] == [None, None]
    for other in others:
        other.kill()
        other.wait()
    job.wait(timeout=60)


def test_ending_processes_works_if_none_is_left(token: str) -> None:
    """If the job and its process group are gone, there is nothing to end."""
    job = start(token, "true")
    job.wait(timeout=60)
    end_all(token, group=job.pid)
    assert with_mark(token) == []
