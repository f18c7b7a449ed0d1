"""List the logs in a tar archive, compressed or not, without writing them under their names."""

import os
import re
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from parsers.scan.sources import LogSlice, open_source

_TAR = re.compile(r"\.(?:tar(?:\.(?:gz|zst|xz|bz2))?|tgz|tzst|txz|tbz2?)$", re.IGNORECASE)
_COPIED_BYTES = 2**20


def is_tar(path: Path) -> bool:
    """Return whether a file is called as a tar archive."""
    return _TAR.search(path.name) is not None


def tar_members(
    path: Path, unpack_into: Path, is_log: Callable[[str], bool]
) -> tuple[list[LogSlice], str | None]:
    """Return the logs in an archive by their names, and a sentence if it cannot be read to its end.

    A compressed archive is decompressed into a file of `unpack_into`, of which its members are
    slices; a plain one stays as it is. A member that comes twice counts as its last one does.
    """
    try:
        plain, notes = _plain(path, unpack_into)
    except OSError as error:
        return [], f"{path}: cannot be read: {error.strerror or error}"
    members: dict[str, LogSlice] = {}
    problem = "; ".join(notes)
    try:
        with tarfile.open(plain, mode="r:") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                hidden = any(part.startswith(".") for part in name.parts if part != ".")
                if member.isreg() and not member.issparse() and not hidden and is_log(name.name):
                    log = LogSlice(f"{path}:{name}", plain, member.offset_data, member.size)
                    members[log.name] = log
    except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
        problem = problem or f"is cut off, damaged, or no tar archive: {error}"
    size = plain.stat().st_size
    cut = [one.name for one in members.values() if one.begin + one.size > size]
    if cut and not problem:
        problem = "is cut off: its last log stops before its end"
    return list(members.values()), f"{path}: {problem}" if problem else None


def _plain(path: Path, unpack_into: Path) -> tuple[Path, list[str]]:
    """Return the file with an archive's plain bytes, and what was wrong with compressed ones."""
    with open_source(path) as source:
        if source.descriptor is not None:
            return path, []
        descriptor, name = tempfile.mkstemp(dir=unpack_into, suffix=".tar")
        buffer = memoryview(bytearray(_COPIED_BYTES))
        with os.fdopen(descriptor, "wb") as file:
            while count := source.read(buffer):
                file.write(buffer[:count])
        return Path(name), source.notes
