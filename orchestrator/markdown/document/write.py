"""A file's bytes exchanged for others, with what the file is kept: its mode, and links to it.

The unified diff of two documents whose lines correspond, for no line was added or taken.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.common.files import replacing


def overwrite(path: Path, data: bytes) -> None:
    """Put `data` in the place of what a file holds, whole or not at all.

    Who reads the file sees the old bytes or the new. A symbolic link stays one; mode and, where we
    may set it, owner stay. Raises OSError; whatever stops it, the old bytes are there, and nothing
    else is.
    """
    real = path.resolve(strict=True)
    before = real.stat()
    # Nobody may read meanwhile what only the owner may read; Path.open takes no opener.
    with replacing(real) as temporary, open(temporary, "xb", opener=_open_private) as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(PermissionError):
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        os.fsync(file.fileno())


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


CONTEXT = 3


def line_diff(old: bytes, new: bytes, name: str) -> Iterator[bytes]:
    """Yield the lines of a unified diff, none where the documents are the same.

    Both have as many lines, so it is found in one pass, however large they are.
    """
    before, after = _lines(old), _lines(new)
    changed = [
        number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]
    ]
    if changed:
        title = name.encode("utf-8", "surrogateescape")
        yield from (b"--- " + title + b"\n", b"+++ " + title + b"\n")
    for begin, end in _hunks(changed, len(before)):
        yield b"@@ -%d,%d +%d,%d @@\n" % (begin + 1, end - begin, begin + 1, end - begin)
        number = begin
        while number < end:
            run = number
            while run < end and before[run] != after[run]:
                run += 1
            yield from (b"-" + line for line in before[number:run])
            yield from (b"+" + line for line in after[number:run])
            if run < end:
                yield b" " + before[run]
            number = run + 1


def _lines(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()
    return lines if last == b"\n" else [*lines, last + b"\\ No newline at end of file\n"]


def _hunks(changed: Sequence[int], lines: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of lines that hold the changed ones and those around them."""
    begin = end = -1
    for number in changed:
        if end < 0:
            begin = max(number - CONTEXT, 0)
        elif number - CONTEXT > end:
            yield begin, end
            begin = number - CONTEXT
        end = min(number + CONTEXT + 1, lines)
    if end >= 0:
        yield begin, end
