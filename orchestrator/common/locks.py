"""Lock files with `flock`: a lock ends when the process that holds it ends."""

import fcntl
import os
from pathlib import Path


def acquire(path: Path) -> int | None:
    """Return a descriptor that holds the lock at `path`, or None where somebody else holds it.

    The lock lasts until the descriptor, and every copy of it that a child inherited, is closed:
    when the last holder is killed the lock is free, whatever the holder had been doing.
    """
    return _flock(path, fcntl.LOCK_EX)


def is_held(path: Path) -> bool:
    """Return whether somebody holds the lock at `path`."""
    if not path.exists():
        return False
    descriptor = _flock(path, fcntl.LOCK_SH)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _flock(path: Path, mode: int) -> int | None:
    flags = os.O_RDONLY if mode == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
