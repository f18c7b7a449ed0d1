"""Find and end every process of an attempt."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import psutil

MARK = "TERALOG_ATTEMPT"
GRACE_SECONDS = 5.0


def marked(token: str) -> Iterator[psutil.Process]:
    """Yield the running processes of an attempt, except zombies.

    token: the text by which teralog marks an attempt. All processes of the attempt have it in their
        environment, in the variable TERALOG_ATTEMPT.
    A search by process group would miss some processes, because torchrun starts each worker in a
    separate session.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == token and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def end_all(token: str, group: int | None = None, grace_seconds: float = GRACE_SECONDS) -> None:
    """End an attempt's processes: first by SIGTERM, and after a grace period by SIGKILL.

    Returns when no process of the attempt is left. token: the attempt's mark in the environment of
    its processes. group: the attempt's process group, which also contains processes that cleared
    their environment.
    """
    _signal(token, group, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    # A single look can miss a process that an ending process is just starting.
    empty_looks = 0
    while empty_looks < 2:
        empty_looks = 0 if any(True for _ in marked(token)) else empty_looks + 1
        if not empty_looks and time.monotonic() > deadline:
            _signal(token, group, signal.SIGKILL)
        time.sleep(0.05)
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _signal(token: str, group: int | None, number: signal.Signals) -> None:
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for process in marked(token):
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
