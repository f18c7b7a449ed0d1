"""Lock files with `flock`.

When all processes that hold a lock have ended, the operating system releases the lock, even if
the processes were killed.
"""

import errno
import fcntl
import os
import time
from pathlib import Path

from orchestrator.common.errors import UserError

# `acquire` waits at most this long for other processes that only check the lock. A check takes
# microseconds, but the system may pause the process in the middle of it.
_CHECK_SECONDS = 1.0
_RETRY_SECONDS = 0.001


def acquire(path: Path) -> int | None:
    """Return a file descriptor that holds the lock at `path`, or None if the lock is taken.

    The lock lasts until this descriptor and all its copies are closed; child processes inherit
    copies. When the last process with a copy ends or is killed, the lock is free. Raises OSError,
    and UserError if `path` is a symbolic link.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + _CHECK_SECONDS
    while not _flock(descriptor, fcntl.LOCK_EX):
        # `is_held` takes a shared lock for a moment. There is no better check: `flock` cannot test
        # a lock without taking it, and /proc/locks lacks the locks of other machines. If this
        # process can take a shared lock, too, the lock was only checked, and another try is useful.
        # Otherwise, another process holds the lock. Then the result is None at once, because some
        # callers try many locks in turn.
        if not _flock(descriptor, fcntl.LOCK_SH) or time.monotonic() > deadline:
            os.close(descriptor)
            return None
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_RETRY_SECONDS)
    return descriptor


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock at `path`.

    Raises OSError, and UserError if `path` is a symbolic link.
    """
    if not path.is_symlink() and not path.exists():
        return False
    descriptor = _open(path, os.O_RDONLY)
    try:
        return not _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    # Through a link, another user could make this process create or lock a file elsewhere.
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(
            f"{path}: is a symbolic link, but a lock must be a file; remove the link"
        ) from None


def _flock(descriptor: int, mode: int) -> bool:
    """Lock an open file if that is possible at once; return whether it was possible."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
