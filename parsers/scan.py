"""The fast reader: finds the few lines of a log that can hold a record.

A literal search costs little next to reading the file, a regular expression on every line does
not; so a log is searched for anchors, byte strings that a record's line must contain, and only
lines with an anchor are cut out, decoded and parsed. stringzilla's search is some ten times as
fast as `bytes.find`, and chunks of 1 MiB stay in the processor's cache while each anchor's turn
comes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import stringzilla

from parsers.records import Record

CHUNK_BYTES = 2**20
LINE_LIMIT = 4 * 2**20

_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A kind of line, and how to read it.

    name: for people.
    anchors: byte strings without newline; each line of this kind contains at least one.
    parse: takes the offset of a line with an anchor and its text (see `decode`), yields what the
        line says. It never raises: a malformed line is no record.
    following: how many further lines belong to a line with an anchor; `parse` is given them too,
        joined by newlines, as far as the log has them.
    """

    name: str
    anchors: tuple[bytes, ...]
    parse: Callable[[int, str], Iterator[Record]]
    following: int = 0


@dataclass(frozen=True, slots=True)
class TableFormat:
    """Rows that mean nothing without the line above them all, as those of a CSV file.

    name: for people.
    header: a byte string that the header line contains, and no row.
    anchors: byte strings of which each row contains at least one; they may be as common as a
        comma, for rows are looked for only once a header has been seen.
    row: takes the text of a header line; returns what parses a row, as `LogFormat.parse` does,
        or None where the line is no header after all. A later header replaces an earlier one.
    """

    name: str
    header: bytes
    anchors: tuple[bytes, ...]
    row: Callable[[str], Callable[[int, str], Iterator[Record]] | None]


class Candidate(NamedTuple):
    """A line that contains anchors: byte at which it starts, its bytes, the anchors in it."""

    offset: int
    line: bytes
    anchors: tuple[bytes, ...]


def candidate_lines(
    data: bytes | bytearray | memoryview,
    anchors: Iterable[bytes],
    *,
    complete: bool = True,
    line_limit: int = LINE_LIMIT,
) -> Iterator[Candidate]:
    r"""Yield the lines of `data` that contain an anchor: in order, each line once.

    A line ends at \n, and is given without it and without a \r before it; other carriage returns
    stay in. A last line without \n may be half written: it counts only if the data is `complete`.
    Lines of more than `line_limit` bytes are left out. Each anchor is searched for once.
    """
    view = memoryview(data)
    text = stringzilla.Str(view)
    end = len(view) if complete else text.rfind(b"\n") + 1
    position = 0
    following = {anchor: text.find(anchor, 0, end) for anchor in anchors}
    while following := {anchor: hit for anchor, hit in following.items() if hit >= 0}:
        hit = min(following.values())
        start = text.rfind(b"\n", position, hit) + 1 or position
        newline = text.find(b"\n", hit, end)
        position = end if newline < 0 else newline
        found = tuple(anchor for anchor, hit in following.items() if hit < position)
        if position - start <= line_limit:
            yield Candidate(start, bytes(view[start:position]).removesuffix(b"\r"), found)
        for anchor in found:
            following[anchor] = text.find(anchor, position, end)


def read_candidates(
    path: Path,
    anchors: Iterable[bytes],
    *,
    start: int = 0,
    complete: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
    line_limit: int = LINE_LIMIT,
) -> Iterator[Candidate]:
    """Yield the lines of a file that contain an anchor, with their offsets in the file.

    Reading begins at `start`, the offset of some line: with that of the last line seen, it goes on
    where it stopped, giving that line once more. Takes `chunk_bytes` + `line_limit` bytes of
    memory whatever the file's size. `complete` and `line_limit` are as in `candidate_lines`.
    Raises OSError.
    """
    anchors = tuple(anchors)
    for offset, block in _whole_lines(path, start, complete, chunk_bytes, line_limit):
        for candidate in candidate_lines(block, anchors, line_limit=line_limit):
            yield candidate._replace(offset=offset + candidate.offset)


def read_records(
    path: Path,
    formats: Sequence[LogFormat],
    *,
    start: int = 0,
    complete: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Record]:
    """Yield what a log says in any of `formats`, in the order of its lines.

    The parameters are those of `read_candidates`; pass `complete=False` while the log is still
    being written. Two runs in one log come one after the other. Raises OSError.
    """
    anchors = dict.fromkeys(anchor for log_format in formats for anchor in log_format.anchors)
    candidates = read_candidates(
        path, anchors, start=start, complete=complete, chunk_bytes=chunk_bytes
    )
    for offset, line, found in candidates:
        text = decode(line)
        for log_format in formats:
            if any(anchor in found for anchor in log_format.anchors):
                yield from log_format.parse(offset, text)


def decode(line: bytes) -> str:
    """Return a line as text: bytes that are no UTF-8 replaced, the terminal's colours left out."""
    return _TERMINAL_CODE.sub("", line.decode("utf-8", errors="replace"))


def _whole_lines(
    path: Path, start: int, complete: bool, chunk_bytes: int, line_limit: int
) -> Iterator[tuple[int, memoryview]]:
    """Yield a file in blocks of whole lines, each with its offset and valid until the next one.

    What follows a chunk's last newline is carried over in front of the next chunk. If that grows
    beyond `line_limit`, the line is dropped up to its newline.
    """
    buffer = bytearray(line_limit + chunk_bytes)
    view = memoryview(buffer)
    carried = 0
    dropping = False
    with path.open("rb", buffering=0) as log:
        offset = log.seek(start)  # of the buffer's first byte
        while count := log.readinto(view[carried : carried + chunk_bytes]):
            filled = carried + count
            begin = 0
            if dropping:
                begin = buffer.find(b"\n", 0, filled) + 1 or filled
                dropping = buffer[begin - 1] != ord("\n")
            end = buffer.rfind(b"\n", begin, filled) + 1 or begin
            yield offset + begin, view[begin:end]
            carried = filled - end
            if carried > line_limit:
                dropping, end, carried = True, filled, 0
            view[:carried] = view[end:filled]
            offset += end
    if complete:
        yield offset, view[:carried]
