"""Read logs: `read("slurm-123.out")` returns all that a log contains, run by run."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from parsers.formats.table import ALL_FORMATS
from parsers.runs.run import LogRun
from parsers.runs.splitting import MARKS, RunSplitter
from parsers.scan.candidates import Pass
from parsers.scan.reader import AnyFormat, LineReader
from parsers.scan.shared import SharedFile, SharedPass, is_worth_sharing, shared_pool
from parsers.scan.sources import LogPath, Source, open_source
from parsers.scan.window import Bounds

EMPTY = "is empty"
"""The note about a log without any bytes."""

_TAR_AT = 257
# How files begin that nothing is read of.
_STRANGERS = {
    b"PK\3\4": "is packed with zip: unpack it",
    b"\xff\xfe": "is text in UTF-16: convert it to UTF-8",
    b"\xfe\xff": "is text in UTF-16: convert it to UTF-8",
}


def read(
    logs: LogPath | Sequence[LogPath],
    formats: Sequence[AnyFormat] = ALL_FORMATS,
    *,
    start: int = 0,
    complete: bool = True,
    count_lines: bool = True,
    processes: int | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> list[LogRun]:
    """Return the runs in logs, in the order of the logs.

    A log is a path, a slice of a file, `-` for standard input, or a binary stream. It may be
    compressed with gzip, Zstandard, xz or bzip2. A log without any run gives one run whose outcome
    is UNKNOWN. Raises OSError.
    complete: pass False while a program still writes a log.
    start: the offset of the line at which reading begins.
    count_lines: whether to include the number of the line with the outcome.
    processes: how many processes read a large file together; by default one per processor, but at
    most four.
    tell: called after each part of a log was read, with the number of bytes that were read from
    the file. For a stream or a log in an archive, it is the number of bytes after decompression.
    """
    single = isinstance(logs, str) or not isinstance(logs, Sequence)
    bounds = Bounds(complete=complete)
    runs: list[LogRun] = []
    for log in cast("Sequence[LogPath]", (logs,) if single else logs):
        with open_source(log) as source, _collector_paused():
            runs += _read(
                source,
                formats,
                bounds,
                start=start,
                count_lines=count_lines,
                processes=processes or sharing_processes(),
                tell=tell,
            )
    return runs


def sharing_processes() -> int:
    """Return how many processes read a large file together: one per processor, at most four.

    More than four do not make reading faster.
    """
    return min(4, len(os.sched_getaffinity(0)))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector during a `with` block that reads a log.

    The collector makes reading a fifth slower and would free nothing, because reading
    creates no reference cycles.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read(
    source: Source,
    formats: Sequence[AnyFormat],
    bounds: Bounds,
    *,
    start: int,
    count_lines: bool,
    processes: int,
    tell: Callable[[int], None],
) -> list[LogRun]:
    splitter = RunSplitter(start)
    if is_worth_sharing(source, start, processes):
        file = SharedFile(
            path=source.name,
            formats=formats,
            more_anchors=MARKS,
            bounds=bounds,
            begin=start,
            count_lines=count_lines,
        )
        with shared_pool(file, processes) as pool:
            shared = SharedPass(file, source.size or 0, pool, tell=tell)
            for line in shared:
                splitter.read(line)
        end = shared.position
    else:
        reader = LineReader(formats, more_anchors=MARKS)
        lines = Pass(
            source,
            reader.wanted,
            bounds,
            begin=start,
            count_lines=count_lines,
            tell=in_bytes_of_file(source, tell),
        )
        for line in reader.read(iter(lines)):
            splitter.read(line)
        end = lines.position
    notes = [*source.notes, *_oddities(source, end)]
    return splitter.runs(source.name, end, complete=bounds.complete, notes=notes)


def in_bytes_of_file(source: Source, tell: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that calls `tell` with bytes of a compressed file as it is on the disk.

    The argument of this function is ignored: it is a number of bytes after decompression. If the
    source is not a compressed file, returns `tell` unchanged.
    """
    if source.descriptor is not None:
        return tell
    try:
        descriptor = source.file
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:  # a stream, a pipe, or a part of a file
        return tell
    told = 0

    def tell_position(count: int) -> None:
        nonlocal told
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        tell(position - told)
        told = position

    return tell_position


def _oddities(source: Source, end: int) -> list[str]:
    """Return the problems of a log that ends at byte `end`, e.g. `is empty`.

    Each problem is a sentence without its subject, which is the name of the log.
    """
    if end == 0:
        return [] if source.notes else [EMPTY]
    head = source.head
    for beginning, oddity in _STRANGERS.items():
        if head.startswith(beginning):
            return [oddity]
    if head[_TAR_AT:].startswith(b"ustar"):
        return ["is a tar archive: give it as a file whose name ends in .tar, .tar.gz or similar"]
    return ["contains NUL bytes: it may not be text"] if b"\0" in head else []
