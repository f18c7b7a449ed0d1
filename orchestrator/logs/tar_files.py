"""Find the logs in a tar archive, compressed or not, without writing a file for each log."""

import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.common.text import named
from parsers.runs.reading import in_bytes_of_file
from parsers.scan.sources import LogSlice, Read, open_source

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TAR = re.compile(r"\.(?:tar(?:\.(?:gz|zst|xz|bz2))?|tgz|tzst|txz|tbz2?)$", re.IGNORECASE)
_COPIED_BYTES = 2**20
_DAMAGED = (tarfile.TarError, ValueError, OverflowError)
_NOT_WHOLE = "is cut off, damaged, or not a tar archive"


def is_tar(path: PurePath) -> bool:
    """Return whether a file has the name of a tar archive."""
    return _TAR.search(path.name) is not None


def tar_members(
    path: Path,
    unpack_into: Path,
    is_log: Callable[[str], bool],
    tell: Callable[[int], None] = lambda count: None,
) -> tuple[list[LogSlice], str | None]:
    """Return an archive's logs, and a sentence if it cannot be read completely, else None.

    The sentence also names files in the archive that may contain logs and are not read.

    A log is returned as a slice of the archive: a file, an offset and a size. The logs of a
    compressed archive are first written into one file in `unpack_into`, and are slices of that
    file. If several files in the archive have the same name, only the last one is returned.
    tell: called after each read from a compressed archive, with the number of bytes of the archive
    that were read.
    """
    logs: dict[str, LogSlice] = {}
    notes: list[str] = []
    try:
        with open_source(path) as source:
            if source.descriptor is not None:
                logs, notes = _members(path, is_log)
            else:
                read = _telling(source.read, in_bytes_of_file(source, tell))
                logs, problems = _unpacked(path, read, unpack_into, is_log)
                # The damage of the compressed bytes is the cause of the other problems.
                notes = source.notes or problems
    except OSError as error:
        notes = [f"cannot be read: {error.strerror or error}"]
    return list(logs.values()), f"{path}: {'; '.join(notes)}" if notes else None


def _telling(read: Read, tell: Callable[[int], None]) -> Read:
    """Return `read`, but call `tell` with the number of bytes after each read."""

    def telling(view: memoryview) -> int:
        count = read(view)
        tell(count)
        return count

    return telling


def _members(path: Path, is_log: Callable[[str], bool]) -> tuple[dict[str, LogSlice], list[str]]:
    """Return the logs in an uncompressed archive by name, and the archive's problems.

    Each problem is a phrase that follows the archive's name in a message, e.g. "is cut off".
    """
    logs: dict[str, LogSlice] = {}
    not_read: list[str] = []
    try:
        with tarfile.open(path, mode="r:") as archive:
            for member in archive:
                not_read += _not_read(member, is_log)
                if (name := _log_name(path, member, is_log)) is not None:
                    logs[name] = LogSlice(name, path, member.offset_data, member.size)
    except _DAMAGED as error:
        return logs, [f"{_NOT_WHOLE}: {error}"]
    size = path.stat().st_size
    if any(part.begin + part.size > size for part in logs.values()):
        return logs, ["is cut off: its last log stops before its end"]
    return logs, _notes(not_read)


def _unpacked(
    path: Path, read: Read, unpack_into: Path, is_log: Callable[[str], bool]
) -> tuple[dict[str, LogSlice], list[str]]:
    """Write the logs of a compressed archive into one file in the folder `unpack_into`.

    Returns the logs by name, and the archive's problems. Each problem is a phrase that follows
    the archive's name in a message. Raises OSError if the archive cannot be read.

    read: writes the next decompressed bytes into a buffer, and returns their number.
    is_log: returns whether a file name is the name of a log.
    """
    logs: dict[str, LogSlice] = {}
    not_read: list[str] = []
    stream = io.BufferedReader(_Stream(read))
    descriptor, name = tempfile.mkstemp(dir=unpack_into)
    # Without a buffer, or what did not fit would be written again when the file is closed.
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    not_read += _not_read(member, is_log)
                    if (log := _log_name(path, member, is_log)) is None:
                        continue
                    begin = file.tell()
                    # Not extractfile(): of a log that is cut off, it loses the end.
                    if archive.fileobj is not None:
                        _copy(archive.fileobj.read, file, member.size)
                    logs[log] = LogSlice(log, Path(name), begin, file.tell() - begin)
            # The checksum of compressed data comes last, behind the archive.
            while stream.read(_COPIED_BYTES):
                pass
        except _DAMAGED as error:
            return logs, [f"{_NOT_WHOLE}: {error}"]
        except _NoRoomError as error:
            where = f"its logs do not fit into {unpack_into.parent}"
            return logs, [f"{where}: {error}; set TMPDIR to another folder"]
    return logs, _notes(not_read)


def _log_name(path: Path, member: tarfile.TarInfo, is_log: Callable[[str], bool]) -> str | None:
    """Return the name of a log in an archive, in the form `archive:member`.

    Returns None if the member (a file in the archive) is not a log: if it is hidden, is not a
    regular file, is stored as a sparse file, or does not have a log's name.
    """
    name = PurePosixPath(member.name)
    if _is_hidden(name) or not member.isreg() or member.issparse() or not is_log(name.name):
        return None
    return f"{path}:{name}"


def _not_read(member: tarfile.TarInfo, is_log: Callable[[str], bool]) -> list[str]:
    """Return the name of a file in an archive, and what it is, if it may contain logs.

    The list is empty for a log that is read, and for other files.
    """
    name, target = PurePosixPath(member.name), PurePosixPath(member.linkname)
    kinds = (
        ("an archive", member.isreg() and (is_tar(name) or name.suffix.lower() == ".zip")),
        # The target is in the same archive.
        (
            "a hard link",
            member.islnk()
            and is_log(name.name)
            and (_is_hidden(target) or not is_log(target.name)),
        ),
        ("a sparse file", member.issparse() and is_log(name.name)),
    )
    return [f"{name} ({kind})" for kind, matches in kinds if matches and not _is_hidden(name)]


def _is_hidden(name: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in name.parts if part not in {".", ".."})


def _notes(not_read: Sequence[str]) -> list[str]:
    """Return a problem of an archive with files that are not read; their names are `not_read`."""
    if not not_read:
        return []
    names = named(not_read, "more file")
    return [f"teralog does not read {names} in it; unpack it, and give the folder"]


def _copy(read: Callable[[int], bytes], file: io.FileIO, count: int) -> None:
    """Copy the next `count` bytes to `file`, or fewer bytes if `read` returns no more.

    Raises _NoRoomError if the bytes cannot be written.
    """
    while count and (piece := read(min(count, _COPIED_BYTES))):
        count -= len(piece)
        while piece:
            try:
                piece = piece[file.write(piece) :]
            except OSError as error:
                raise _NoRoomError(error.strerror) from error


class _NoRoomError(Exception):
    """Raised if a log cannot be written, e.g. because the disk is full."""


class _Stream(io.RawIOBase):
    """A readable binary stream for tarfile; it contains the decompressed bytes of an archive."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        return self._read(memoryview(buffer))
