"""Read a log while it grows: each call reads the bytes that were appended since the last call.

The state between two calls is a small value that can be written as JSON. It shows whether the log
was replaced, i.e. moved away and begun again (rotated), or cut short.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parsers.records import Record
from parsers.scan.candidates import Pass
from parsers.scan.reader import AnyFormat, LineReader
from parsers.scan.sources import Source, open_source
from parsers.scan.window import Bounds

_HEAD_BYTES = 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """The position in a log, and the data that identifies the log.

    device, inode, size: those of the log's file at the last call.
    offset: the byte after the last line that was read.
    within_line: whether the next bytes are the rest of a line that is too long to be read.
    head_sha256: the checksum of the log's first bytes.
    head_bytes: how many bytes this checksum covers, at most 1024.
    headers: the name and the header text of each table whose rows are being read.
    """

    device: int
    inode: int
    size: int
    offset: int
    head_bytes: int
    head_sha256: str
    within_line: bool
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The records that were added to a log since the last call.

    state: the value to pass to the next call.
    restarted: why the log was read from its beginning again, e.g. "has become shorter; ..."; with
    the log's name in front, it is a sentence. None if reading continued where the last call had
    stopped, or if this was the first call.
    """

    records: tuple[Record, ...]
    state: ReadState
    restarted: str | None = None


def read_appended(
    path: Path | str,
    formats: Sequence[AnyFormat],
    state: ReadState | None = None,
    *,
    complete: bool = False,
) -> Appended:
    """Return the records that were added to a log since the call that returned `state`.

    Without `state`, the whole log is read. formats: the formats to read. A last line without
    newline, or without some of the lines that belong to it, is left to the next call. complete:
    pass True if no program writes to the log any more; then the last line is read. A compressed log
    is read from its beginning each time that it has changed. Raises OSError.
    """
    with open_source(Path(path)) as source:
        file_status = os.fstat(source.file)
        restarted = state and _reason_to_restart(state, file_status, source)
        begin = state.offset if state and not restarted else 0
        reader = LineReader(formats, headers=dict(state.headers) if state and begin else None)
        lines = Pass(
            source,
            reader.wanted,
            Bounds(complete=complete),
            begin=begin,
            within_line=state is not None and not restarted and state.within_line,
            hold=not complete,
        )
        records = tuple(
            record
            for _, parts in reader.read(iter(lines))
            for _, line_records in parts
            for record in line_records
        )
        head = os.pread(source.file, min(_HEAD_BYTES, file_status.st_size), 0)
        return Appended(
            records=records,
            state=ReadState(
                device=file_status.st_dev,
                inode=file_status.st_ino,
                size=file_status.st_size,
                offset=lines.position,
                within_line=lines.within_line,
                head_bytes=len(head),
                head_sha256=hashlib.sha256(head).hexdigest(),
                headers=tuple(reader.headers.items()),
            ),
            restarted=restarted or None,
        )


def _reason_to_restart(state: ReadState, file_status: os.stat_result, source: Source) -> str | None:
    """Return why a log must be read from its beginning again; None if reading can continue."""
    if (file_status.st_dev, file_status.st_ino) != (state.device, state.inode):
        return "is another file than before; reading it from the beginning"
    plain = source.descriptor is not None
    if file_status.st_size < (state.offset if plain else state.size):
        return "has become shorter; reading it from the beginning"
    head = os.pread(source.file, state.head_bytes, 0)
    if hashlib.sha256(head).hexdigest() != state.head_sha256:
        return "begins differently than before; reading it from the beginning"
    if not plain and file_status.st_size != state.size:
        return "is compressed and has changed; reading it from the beginning"
    if (
        plain
        and state.offset
        and not state.within_line
        and os.pread(source.file, 1, state.offset - 1) != b"\n"
    ):
        return "has changed in the part already read; reading it from the beginning"
    return None
