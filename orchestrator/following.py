"""Showing a log while it grows."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_SECONDS = 0.5
# A log that has not grown for so long may be that of a run that has ended: somebody is asked.
QUIET_SECONDS = 3.0
_CHUNK = 1 << 16


def follow(log: Path, ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yield what is in a log and what is added to it, until `ended` and nothing more comes.

    The log need not be there yet. One that became shorter is read from its beginning.
    """
    offset = 0
    quiet_since = time.monotonic()
    last_look = False
    while True:
        size = log.stat().st_size if log.exists() else 0
        if size < offset:
            offset = 0
        if size > offset:
            for chunk in read_from(log, offset):
                offset += len(chunk)
                yield chunk
            quiet_since = time.monotonic()
        elif last_look:
            return
        if time.monotonic() - quiet_since > QUIET_SECONDS:
            last_look = ended()
            quiet_since = time.monotonic()
        if not last_look:
            time.sleep(POLL_SECONDS)


def read_from(log: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield what is in a log from a byte on."""
    with log.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(_CHUNK):
            yield chunk
