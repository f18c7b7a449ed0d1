"""The last lines of a log, for people to read."""

import os
from dataclasses import dataclass
from pathlib import Path

from orchestrator.printing import printable
from parsers.scan import decode

_BYTES = 1 << 16
_LINE = 1000


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a log, and how many bytes it has in all.

    whole: whether these are all its lines.
    """

    path: str
    bytes: int
    lines: tuple[str, ...]
    whole: bool


def log_tail(log: Path, lines: int, name: str) -> Tail:
    """Return at most so many `lines`, of the last 64 KiB; `name` is what the log is to be called.

    Colours and what speaks to a terminal are left out; of a line that was written over, as by a
    progress bar, the last text stays. Raises OSError.
    """
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = file.seek(max(size - _BYTES, 0))
        found = file.read(_BYTES).removesuffix(b"\n").split(b"\n")
    # The first one began before.
    found = found[1:] if begin and len(found) > 1 else found
    kept = found[-lines:]
    whole = not begin and len(kept) == len(found)
    return Tail(name, size, tuple(map(_shown, kept)) if size else (), whole)


def _shown(line: bytes) -> str:
    text = decode(line.rstrip(b"\r").rpartition(b"\r")[2]).expandtabs()
    text = printable(text)
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"
