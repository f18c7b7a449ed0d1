"""Lock files with `flock`.

When all processes that hold a lock have ended, the operating system releases the lock, even if
the processes were killed.
"""

import errno
import fcntl
import os
from pathlib import Path

from orchestrator.common.errors import UserError


def acquire(path: Path) -> int | None:
    """Return a file descriptor that holds the lock at `path`, or None if the lock is taken.

    The lock lasts until this descriptor and all its copies are closed; child processes inherit
    copies. When the last process with a copy ends or is killed, the lock is free. Raises OSError,
    and UserError if `path` is a symbolic link.
    """
    return _flock(path, fcntl.LOCK_EX)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock at `path`.

    Raises OSError, and UserError if `path` is a symbolic link.
    """
    if not path.is_symlink() and not path.exists():
        return False
    descriptor = _flock(path, fcntl.LOCK_SH)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _flock(path: Path, mode: int) -> int | None:
    flags = os.O_RDONLY if mode == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT
    # Through a link, another user could make this process create or lock a file elsewhere.
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(
            f"{path}: is a symbolic link, but a lock must be a file; remove the link"
        ) from None
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
