"""Show the last lines of a log, or the whole log while it grows."""

import codecs
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common.text import printable
from parsers.scan.reader import decode

_POLL_SECONDS = 0.5
# A log that has not grown for this long may belong to an ended run: check whether it has ended.
QUIET_SECONDS = 3.0
_CHUNK = 1 << 16


def follow_log(log: Path, ended: Callable[[], bool], offset: int = 0) -> Iterator[bytes]:
    """Yield the content of a log from byte `offset`, and all bytes that are appended later.

    Stops when `ended` returns True and no more bytes come. The log need not exist yet. A log that
    became shorter is read from its beginning.
    """
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
            time.sleep(_POLL_SECONDS)


def read_from(log: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield the content of a log from byte `offset` to the end."""
    with log.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(_CHUNK):
            yield chunk


def last_lines(log: Path, lines: int) -> int:
    """Return the offset in bytes at which the last `lines` lines of a log begin.

    Returns 0 if the log has fewer lines.
    """
    with log.open("rb") as file:
        # The last byte, usually a newline, ends the last line.
        end = file.seek(0, os.SEEK_END) - 1
        while end > 0:
            begin = max(end - _CHUNK, 0)
            file.seek(begin)
            place = end - begin
            chunk = file.read(place)
            while (place := chunk.rfind(b"\n", 0, place)) >= 0:
                lines -= 1
                if not lines:
                    return begin + place + 1
            end = begin
    return 0


_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# The start of a line end or of an escape sequence, which continues in the next part of the log.
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-9;:]{0,30})?)\Z")
_LINE_END = re.compile(r"\r\n?")


def terminal_text(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of a log without characters that control a terminal.

    Colours are left out. A carriage return becomes a new line, and any other control character
    becomes U+FFFD.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    unfinished = ""
    for part in parts:
        text = unfinished + decoder.decode(part)
        match = _UNFINISHED.search(text)
        unfinished = match[0] if match else ""
        yield _harmless(text.removesuffix(unfinished))
    yield _harmless(unfinished + decoder.decode(b"", final=True))


def _harmless(text: str) -> str:
    lines = _LINE_END.sub("\n", _COLOUR.sub("", text)).split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


_BYTES = 1 << 16
_LINE = 1000


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a log, and the size of the whole log in bytes.

    whole: whether these are all lines of the log.
    """

    path: str
    bytes: int
    lines: tuple[str, ...]
    whole: bool


def log_tail(log: Path, lines: int, name: str) -> Tail:
    """Return up to `lines` lines from the last 64 KiB of a log.

    Colours and terminal control codes are removed. If a line was overwritten, e.g. by a progress
    bar, only its last text is returned. name: the name of the log in the result. Raises OSError if
    the log cannot be read.
    """
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = file.seek(max(size - _BYTES, 0))
        last = file.read(_BYTES).removesuffix(b"\n").split(b"\n")
    # The first line is incomplete, because it begins before the last 64 KiB.
    last = last[1:] if begin and len(last) > 1 else last
    kept = last[-lines:]
    whole = not begin and len(kept) == len(last)
    return Tail(name, size, tuple(map(_shown, kept)) if size else (), whole)


def _shown(line: bytes) -> str:
    text = decode(line.rstrip(b"\r").rpartition(b"\r")[2]).expandtabs()
    text = printable(text)
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"
