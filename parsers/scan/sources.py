"""Open a log: a file, a compressed file, standard input or another stream.

Whether it is compressed is decided by its first bytes, never by its name. Offsets count bytes after
decompression. So it is with the files in which Docker keeps the output of a container: each line is
a JSON object, and only its text is read.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from parsers.scan.compression import MAGIC_BYTES, compression, decompressed


@dataclass(frozen=True, slots=True)
class LogSlice:
    """A log that is a part of a file, e.g. a member of a tar archive.

    name: the log's name. file: the file that contains it. begin: the offset of its first byte in
    the file. size: its number of bytes.
    """

    name: str
    file: Path
    begin: int
    size: int

    def __str__(self) -> str:
        """Return the name."""
        return self.name


LogPath = Path | str | LogSlice | BinaryIO
Read = Callable[[memoryview], int]
"""Fills a buffer as far as something is there, and returns how far; 0 at the end."""

STANDARD_INPUT = "-"
_HEAD_BYTES = 2**12
# Docker's driver `json-file`: {"log":"step 1\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}
_DOCKER = b'{"log":"'
_FIRST_BYTES = max(MAGIC_BYTES, len(_DOCKER))
_LONGEST_OF_DOCKER = 2**20


class Source:
    """The bytes of one log, to be read from the beginning to the end.

    name: the log's name.
    descriptor: for a plain file, i.e. a regular file that is not compressed, its file
    descriptor; it can be read at any position. None for any other source.
    notes: the problems found in the bytes, e.g. "is cut off: ..."; with the log's name in
    front, each is a sentence. The list is complete after all bytes were read.
    """

    def __init__(
        self, name: str, read: Read, *, file: int | None = None, descriptor: int | None = None
    ) -> None:
        """Store the properties of the source."""
        self.name = name
        self.read = read
        self._file = file
        self.descriptor = descriptor
        self.notes: list[str] = []
        self._head = bytearray()

    @property
    def file(self) -> int:
        """The descriptor of the file on the disk. Raises OSError for a stream or a `LogSlice`."""
        if self._file is None:
            raise UnsupportedOperation(f"{self.name} is not a file")
        return self._file

    @property
    def head(self) -> bytes:
        """The first bytes of the log, at most 4 KiB.

        If the log is not a plain file, only bytes that were read already are returned.
        """
        if self.descriptor is not None:
            return os.pread(self.descriptor, _HEAD_BYTES, 0)
        return bytes(self._head)

    def remember_head(self) -> None:
        """Keep the first bytes that are read from now on, for `head`."""
        read = self.read

        def remembering(view: memoryview) -> int:
            count = read(view)
            if len(self._head) < _HEAD_BYTES:
                self._head += view[: min(count, _HEAD_BYTES - len(self._head))]
            return count

        self.read = remembering

    @property
    def size(self) -> int | None:
        """The current number of bytes of a plain file; None for any other source."""
        return None if self.descriptor is None else os.fstat(self.descriptor).st_size

    def read_from(self, offset: int) -> Read:
        """Return a function that reads the log from the byte `offset` on.

        Several such functions can be used at the same time only if the source is a plain file.
        """
        if self.descriptor is not None:
            return file_reader(self.descriptor, offset)
        room = memoryview(bytearray(min(offset, 2**20)))
        while offset > 0 and (count := self.read(room[:offset])):
            offset -= count
        return self.read


def file_reader(descriptor: int, offset: int) -> Read:
    """Return a function that reads a plain file from `offset` on, whatever other readers do."""

    def read(view: memoryview) -> int:
        nonlocal offset
        count = os.preadv(descriptor, [view], offset)
        offset += count
        return count

    return read


def name_of(path: LogPath) -> str:
    """Return the name of a log."""
    if isinstance(path, Path | str | LogSlice):
        return str(path)
    return str(getattr(path, "name", STANDARD_INPUT))


@contextmanager
def open_source(path: LogPath) -> Iterator[Source]:
    """Open a log for a `with` block: a path, a slice, `-` for standard input, or a binary stream.

    A binary stream stays open after the block. Raises OSError.
    """
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed", STANDARD_INPUT)
        yield _stream(STANDARD_INPUT, sys.stdin.buffer)
        return
    if isinstance(path, LogSlice):
        with path.file.open("rb", buffering=0) as file:
            yield _source(path.name, _slice_reader(file.fileno(), path), file=None)
        return
    if not isinstance(path, Path | str):
        yield _stream(name_of(path), path)
        return
    with Path(path).open("rb", buffering=0) as file:
        descriptor = file.fileno()
        is_file = S_ISREG(os.fstat(descriptor).st_mode)
        first = os.pread(descriptor, _FIRST_BYTES, 0) if is_file else b""
        if is_file and compression(first) is None and not first.startswith(_DOCKER):
            read = file_reader(descriptor, 0)
            yield Source(str(path), read, file=descriptor, descriptor=descriptor)
        else:
            yield _stream(str(path), file, descriptor)


def _stream(name: str, stream: object, file: int | None = None) -> Source:
    """Return the source of a stream; its first bytes are read to detect a compression."""
    # `readinto` of a buffered stream waits until the buffer is full, `readinto1` does not.
    readinto = getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]

    def read(view: memoryview) -> int:
        return int(readinto(view) or 0)

    return _source(name, read, file)


def _slice_reader(descriptor: int, part: LogSlice) -> Read:
    """Return a function that reads the part of a plain file that a slice describes."""
    read_file, left = file_reader(descriptor, part.begin), part.size

    def read(view: memoryview) -> int:
        nonlocal left
        count = read_file(view[:left]) if left else 0
        left -= count
        return count

    return read


def _source(name: str, read: Read, file: int | None) -> Source:
    """Return the source of the bytes from `read`, decompressed if necessary."""
    head = bytearray(_FIRST_BYTES)
    filled = 0
    while filled < _FIRST_BYTES and (count := read(memoryview(head)[filled:])):
        filled += count
    first = bytes(head[:filled])
    source = Source(name, _chained(iter([first]), read), file=file)
    if member := compression(first):
        source.read = _chained(decompressed(member, source.read, source.notes))
    elif first.startswith(_DOCKER):
        source.read = _chained(_texts_of_docker(source.read))
    source.remember_head()
    return source


def _texts_of_docker(read: Read) -> Iterator[bytes]:
    """Yield the texts in the lines of a file that Docker has written."""
    room = memoryview(bytearray(2**16))
    rest = b""
    while count := read(room):
        *lines, rest = (rest + room[:count]).split(b"\n")
        yield b"".join(map(_text_of_docker, lines))
        if len(rest) > _LONGEST_OF_DOCKER:
            yield rest
            rest = b""
    if rest:
        yield _text_of_docker(rest)


def _text_of_docker(line: bytes) -> bytes:
    """Return the text in one line, with the newline that the program printed; else the line."""
    try:
        text = json.loads(line)["log"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    return text.encode(errors="replace") if isinstance(text, str) else line + b"\n"


def _chained(pieces: Iterator[bytes], then: Read | None = None) -> Read:
    """Return a function that reads the bytes of `pieces`, and after these the bytes from `then`.

    Without `then`, the end of `pieces` is the end of the bytes.
    """
    piece = memoryview(b"")

    def read(view: memoryview) -> int:
        nonlocal piece
        while not piece:
            following = next(pieces, None)
            if following is None:
                return then(view) if then else 0
            piece = memoryview(following)
        count = min(len(view), len(piece))
        view[:count] = piece[:count]
        piece = piece[count:]
        return count

    return read
