"""Locks of files: a process holds a lock, and the lock is free when its last holder is dead."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.common import locks
from orchestrator.common.errors import UserError

# Takes a lock if it can, reports it, and stays until it is killed. It may have a child that
# inherited the lock.
HOLDER = """\
import subprocess, sys
from pathlib import Path
from orchestrator.common import locks
from orchestrator.common.errors import UserError
lock, family = sys.argv[1:]
sys.stdin.readline()
descriptor = locks.acquire(Path(lock))
child = 0
if family != "alone":
    given = [descriptor] if family == "heir" else []
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, pass_fds=given).pid
print(descriptor is not None, child, flush=True)
sys.stdin.read()
"""

# Checks all the time whether a lock is held, until it is killed.
CHECKER = """\
import sys
from pathlib import Path
from orchestrator.common import locks
print(flush=True)
while True:
    locks.is_held(Path(sys.argv[1]))
"""


@dataclass
class Holder:
    """A process that takes the lock when the test asks it to."""

    process: "subprocess.Popen[str]"
    child: int = 0

    def go(self) -> None:
        """Let the process take the lock."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def has_it(self) -> bool:
        """Return whether the process has got the lock."""
        assert self.process.stdout is not None
        answer, child = self.process.stdout.readline().split()
        self.child = int(child)
        return answer == "True"

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Return the path of a lock; the file does not exist yet."""
    return tmp_path / "run.lock"


@pytest.fixture
def holder(lock: Path) -> Iterator[Callable[..., Holder]]:
    """Return a function that starts a process which takes the lock when the test asks it to.

    The function's argument is "alone", "child" or "heir". A "child" or "heir" process also starts a
    child; only an heir gets the lock. All processes are killed at the end of the test.
    """
    started: list[Holder] = []

    def start(family: str = "alone") -> Holder:
        command = [sys.executable, "-c", HOLDER, str(lock), family]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(Holder(subprocess.Popen(command, text=True, **pipes)))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        if process.child:
            os.kill(process.child, signal.SIGKILL)


def free_at_last(lock: Path) -> bool:
    """Wait until the lock is free; return whether it is.

    The system needs a moment to close a killed process's files.
    """
    deadline = time.monotonic() + 60
    while locks.is_held(lock) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not locks.is_held(lock)


def test_of_many_processes_at_once_one_gets_the_lock(
    lock: Path, holder: Callable[..., Holder]
) -> None:
    """If many processes try to take the lock at once, exactly one gets it."""
    holders = [holder() for _ in range(6)]
    for process in holders:
        process.go()
    assert sorted(process.has_it() for process in holders) == [False] * 5 + [True]
    assert locks.is_held(lock)
    assert locks.acquire(lock) is None


def test_a_lock_dies_with_its_holder(lock: Path, holder: Callable[..., Holder]) -> None:
    """The lock of a process that is killed with kill -9 is free again."""
    first = holder()
    first.go()
    assert first.has_it()
    first.kill()
    assert free_at_last(lock)
    second = holder()
    second.go()
    assert second.has_it()


def test_a_child_that_was_given_the_lock_keeps_it(
    lock: Path, holder: Callable[..., Holder]
) -> None:
    """If a process passes its lock to a child, the lock is free only when both are dead."""
    parent = holder("heir")
    parent.go()
    assert parent.has_it()
    parent.kill()
    assert locks.acquire(lock) is None
    os.kill(parent.child, signal.SIGKILL)
    assert free_at_last(lock)
    parent.child = 0


def test_a_child_that_was_not_given_the_lock_does_not_keep_it(
    lock: Path, holder: Callable[..., Holder]
) -> None:
    """If a lock's holder is killed, the lock is free, even if a child of the holder still runs.

    The child does not have the lock's file descriptor.
    """
    parent = holder("child")
    parent.go()
    assert parent.has_it()
    parent.kill()
    assert free_at_last(lock)
    os.kill(parent.child, 0)


def test_looking_at_a_lock_does_not_take_it(lock: Path) -> None:
    """A check whether a lock is held neither takes the lock nor creates its file."""
    assert not locks.is_held(lock)
    assert not lock.exists()
    descriptor = locks.acquire(lock)
    assert descriptor is not None
    assert locks.is_held(lock)
    os.close(descriptor)
    assert not locks.is_held(lock)
    again = locks.acquire(lock)
    assert again is not None
    os.close(again)


def test_checks_by_other_processes_do_not_prevent_taking_the_lock(lock: Path) -> None:
    """A process gets a free lock, even while other processes check whether the lock is held."""
    lock.touch()
    command = [sys.executable, "-c", CHECKER, str(lock)]
    checkers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for checker in checkers:
            assert checker.stdout is not None
            checker.stdout.readline()
        for _ in range(300):
            descriptor = locks.acquire(lock)
            assert descriptor is not None
            os.close(descriptor)
            # Without this pause, the checkers might not run between two attempts.
            time.sleep(0.001)
    finally:
        for checker in checkers:
            checker.kill()
            checker.communicate()


def test_a_check_that_does_not_end_is_not_waited_for(lock: Path) -> None:
    """If the process that checks a lock is stopped, `acquire` returns None after a while."""
    lock.touch()
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert locks.acquire(lock) is None
    descriptor = locks.acquire(lock)
    assert descriptor is not None
    os.close(descriptor)


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A lock that cannot be created raises an error, and does not count as held."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        locks.acquire(tmp_path / "file" / "run.lock")


@pytest.mark.parametrize("use", [locks.acquire, locks.is_held])
@pytest.mark.parametrize("exists", [False, True], ids=["dangling", "to a file"])
def test_a_lock_is_not_looked_for_behind_a_link(
    tmp_path: Path, use: Callable[[Path], object], *, exists: bool
) -> None:
    """A lock whose path is a symbolic link is refused, and the link's target is not created."""
    target, link = tmp_path / "target", tmp_path / "lock"
    if exists:
        target.touch()
    link.symlink_to(target)
    with pytest.raises(
        UserError, match="lock: is a symbolic link, but a lock must be a file; remove the link"
    ):
        use(link)
    assert target.exists() == exists
