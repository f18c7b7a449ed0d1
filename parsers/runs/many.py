"""Read many logs at once, in several processes, because parsing keeps a core busy.

A process receives some logs at a time and reads them. It returns only what the caller needs of
each log: to send all records back would take as long as to read them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from parsers.formats.table import ALL_FORMATS
from parsers.runs.pairs import read_pair
from parsers.runs.reading import read, sharing_processes
from parsers.runs.run import LogRun
from parsers.runs.streams import is_stream, with_stream
from parsers.scan.reader import AnyFormat
from parsers.scan.shared import process_context
from parsers.scan.sources import LogSlice

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

T = TypeVar("T")
Digest = Callable[[list[LogRun]], T]
LogFile = Path | str | LogSlice
LogPaths = LogFile | tuple[LogFile, ...]
"""A log, or those of one run: its output, its errors if they are a log, and streams of metrics."""
Read = tuple[LogPaths, T | OSError]
Tell = Callable[[int], None]
"""Is called with numbers of bytes, as they have been read."""
_ReadOne = Callable[[LogPaths, int, Tell], T]
"""Reads a log with this number of processes, and returns what a digest makes of its runs."""

_BATCH_BYTES = 2**23
_BATCH_LOGS = 64
# Below this, starting processes takes longer than reading.
_WORTH_PROCESSES_BYTES = 2**24
_WAIT_SECONDS = 0.1


def read_each(
    logs: Iterable[LogPaths],
    digest: Digest[T],
    *,
    formats: Sequence[AnyFormat] = ALL_FORMATS,
    count_lines: bool = True,
    processes: int | None = None,
    tell: Tell = lambda count: None,
) -> Iterator[Read[T]]:
    """Yield each log with the result of `digest` for its runs, in the order of the logs.

    If a log cannot be read, yields the log with the OSError instead of a result.
    logs: paths, or tuples of paths. A tuple has the logs of one run: its output, then its
    error log and its metrics streams, if it has any.
    digest: takes the runs of a log. It may be called in other processes, so it must be a
    function of a module (no lambda), and its result must be picklable.
    processes: how many processes read the logs, by default one per processor.
    tell: called again and again while logs are read, with the number of bytes since the
    last call. These numbers add up to the size of the logs on disk, also for compressed
    logs.
    """
    read_one = partial(_read_one, digest=digest, formats=formats, count_lines=count_lines)
    paths = list(logs)
    sizes = [_size(path) for path in paths]
    processes = processes or len(os.sched_getaffinity(0))
    largest = max(sizes, default=0)
    if processes < 2 or sum(sizes) < _WORTH_PROCESSES_BYTES or largest > sum(sizes) / 2:
        # Several processes share one large log instead.
        for path, size in zip(paths, sizes, strict=True):
            left = _Left(size, size > 0, tell)
            result = _attempt(read_one, path, sharing_processes(), left)
            left(left.size)
            yield path, result
        return
    context = process_context()
    count = context.Value("q", 0)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_share, initargs=(count,))
    progress = _Progress(count, tell)
    pending: deque[Future[list[Read[T]]]] = deque()
    try:
        for batch in _batches(paths, sizes):
            pending.append(pool.submit(_read_batch, read_one, batch))
            # Finished batches wait for their turn, so not too many are submitted at once.
            if len(pending) > 4 * processes:
                yield from progress.result(pending.popleft())
        while pending:
            yield from progress.result(pending.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


_counts: list["Synchronized[int]"] = []
"""In a process that reads logs for another one: how many bytes all such processes have read."""


def _share(count: "Synchronized[int]") -> None:
    _counts[:] = [count]


@dataclass(slots=True)
class _Progress:
    """Passes on how many bytes several processes have read, while it waits for their results.

    count: the number of bytes so far, which the processes increase. told: how many of them were
    passed to `tell`.
    """

    count: "Synchronized[int]"
    tell: Tell
    told: int = 0

    def result(self, future: Future[T]) -> T:
        """Wait for a result and return it; call `tell` again and again meanwhile."""
        done = False
        while not done:
            done = bool(wait([future], _WAIT_SECONDS).done)
            before, self.told = self.told, self.count.value
            self.tell(self.told - before)
        return future.result()


@dataclass(slots=True)
class _Left:
    """A callback that passes the numbers of bytes read from one log on to `tell`.

    In total it reports at most the size of the log. Without this limit, it would report more for a
    compressed log in an archive, because the numbers count decompressed bytes.
    size: how many bytes may still be reported. limited: False for a log without a size, e.g. a
    pipe or standard input; then all bytes are reported.
    """

    size: int
    limited: bool
    tell: Tell

    def __call__(self, count: int) -> None:
        if self.limited:
            count = min(count, self.size)
            self.size -= count
        self.tell(count)


def _read_batch(read_one: _ReadOne[T], batch: Sequence[LogPaths]) -> list[Read[T]]:
    results: list[Read[T]] = []
    for path in batch:
        left = _Left(_size(path), limited=True, tell=_add)
        results.append((path, _attempt(read_one, path, 1, left)))
        left(left.size)
    return results


def _add(count: int) -> None:
    (read_bytes,) = _counts
    with read_bytes.get_lock():
        read_bytes.value += count


def _attempt(read_one: _ReadOne[T], path: LogPaths, processes: int, tell: Tell) -> T | OSError:
    try:
        return read_one(path, processes, tell)
    except OSError as error:
        return error


def _read_one(
    path: LogPaths,
    processes: int,
    tell: Tell,
    *,
    digest: Digest[T],
    formats: Sequence[AnyFormat],
    count_lines: bool,
) -> T:
    read_alone = partial(read, formats=formats, count_lines=count_lines, tell=tell)
    if not isinstance(path, tuple):
        return digest(read_alone(path, processes=processes))
    output, *others = path
    streams = [other for other in others if is_stream(str(other))]
    errors = [other for other in others if other not in streams]
    runs = (
        read_pair(
            output, errors[0], formats, count_lines=count_lines, processes=processes, tell=tell
        )
        if errors
        else read_alone(output, processes=processes)
    )
    for stream in streams:
        runs = with_stream(runs, read_alone(stream, processes=processes))
    return digest(runs)


def _batches(paths: Sequence[LogPaths], sizes: Sequence[int]) -> Iterator[list[LogPaths]]:
    batch: list[LogPaths] = []
    filled = 0
    for path, size in zip(paths, sizes, strict=True):
        if batch and (filled + size > _BATCH_BYTES or len(batch) == _BATCH_LOGS):
            yield batch
            batch, filled = [], 0
        batch.append(path)
        filled += size
    if batch:
        yield batch


def _size(path: LogPaths) -> int:
    if isinstance(path, tuple):
        return sum(map(_size, path))
    if isinstance(path, LogSlice):
        return path.size
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # reading it will tell what is wrong
