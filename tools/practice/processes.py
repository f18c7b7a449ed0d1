"""End all descendants of this process, including daemons and leftovers of jobs."""

import contextlib
import ctypes
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the new parent of each descendant whose parent ends, e.g. of a daemon."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_ends(number: signal.Signals) -> None:
    """Make the kernel send this process a signal when its parent ends or is killed."""
    _prctl(_PR_SET_PDEATHSIG, number)


def reap() -> None:
    """Collect children that have ended, so that they do not remain as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_descendants() -> None:
    """Kill all descendants of this process, and return when none is left.

    Call `adopt_orphans` before; without it, descendants whose parents have ended are not found.
    """
    while pids := _descendants():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(0.01)


def _descendants() -> list[int]:
    """Return the pids of this process's descendants, including zombies."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # The fields are: pid (name) state ppid …; the name may contain any character.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    pids: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pids += (below := children[waiting.pop()])
        waiting += below
    return pids


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")
