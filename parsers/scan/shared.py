"""Read one large file in several processes, because parsing keeps a core busy.

Each process reads parts of the file, one after the other. It sends back the content of the lines
that begin in its parts, and the calling process puts the contents in order. The header line of a
table changes the anchors to search for. From such a line on, the calling process reads the rest
of the file alone.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import current_process, get_context
from multiprocessing.context import BaseContext
from typing import NamedTuple

from parsers.records import Record
from parsers.scan.candidates import Pass
from parsers.scan.reader import AnyFormat, LineReader, ReadLine
from parsers.scan.sources import Source, open_source
from parsers.scan.wanted import Candidate, LineBatch
from parsers.scan.window import Bounds

PART_BYTES = 2**22
# Below this, starting processes takes longer than reading.
WORTH_SHARING_BYTES = 2**24


class _Packed(NamedTuple):
    """A `ReadLine` in the form in which one process sends it to another.

    lines: the number of lines if many lines were read together, otherwise 0.
    numbered: for each format, its index in the list of formats, and its records.
    """

    candidate: Candidate
    lines: int
    numbered: list[tuple[int, Sequence[Record]]]


class _Part(NamedTuple):
    """The content of a part of the file.

    lines: the lines with their records.
    changed: the first line with the header of a table, or None. The lines after it were not
    read.
    newlines: how many newlines the part has, if lines are counted.
    position: the offset at which the search ended.

    If `changed` is a line, `newlines` and `position` are 0.
    """

    lines: list[_Packed]
    changed: Candidate | None
    newlines: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFile:
    """A file, and how to read it.

    path: the path of the file. formats, more_anchors: as in `LineReader`.
    bounds, begin, count_lines: as in `Pass`.
    """

    path: str
    formats: Sequence[AnyFormat]
    more_anchors: Mapping[bytes, int]
    bounds: Bounds
    begin: int = 0
    count_lines: bool = False

    def reader(self) -> LineReader:
        """Return a new reader of lines, which has read nothing yet."""
        return LineReader(self.formats, self.more_anchors)


class PartReader:
    """Reads parts of a file."""

    def __init__(self, file: SharedFile) -> None:
        """Prepare to read any part of the file."""
        self._file = file
        self._numbers = {log_format.name: number for number, log_format in enumerate(file.formats)}
        self._reader = file.reader()

    def read(self, start: int, stop: int | None) -> _Part:
        """Read the lines that begin at the offset `start` or later, and before `stop`.

        Raises OSError.
        """
        search = self._reader.wanted.search
        lines: list[_Packed] = []
        with open_source(self._file.path) as source:
            part = _pass(self._file, source, self._reader, start, stop)
            for line in self._reader.read(iter(part)):
                if self._reader.wanted.search is not search:
                    self._reader = self._file.reader()
                    return _Part(lines, line.candidate, 0, 0)
                lines.append(self._packed(line))
        return _Part(lines, None, part.newlines, part.position)

    def _packed(self, line: ReadLine) -> _Packed:
        candidate, readings = line
        lines = candidate.batch.lines if candidate.batch else 0
        numbered = [(self._numbers[log_format.name], records) for log_format, records in readings]
        return _Packed(candidate._replace(batch=None), lines, numbered)


class SharedPass:
    """One pass over a large file; iterate over it to get the content of its lines, in order.

    position: after the pass, the offset at which reading ended. Iterating raises OSError if the
    file cannot be read.
    """

    def __init__(
        self,
        file: SharedFile,
        size: int,
        pool: Executor,
        *,
        most_pending: int = 4,
        part_bytes: int = PART_BYTES,
        tell: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Prepare a pass over a file from the offset `file.begin` to the end.

        size: the current size of the file in bytes, by which the file is divided into
        parts. Bytes that are added later are read with the last part.
        pool: processes in which `prepare` was called with the file.
        most_pending: how many parts are read ahead.
        tell: called again and again, with the number of bytes that were read since its last
        call.
        """
        self._file, self._size, self._pool, self._tell = file, size, pool, tell
        self._most_pending, self._part_bytes = most_pending, part_bytes
        self.position = file.begin

    def __iter__(self) -> Iterator[ReadLine]:
        begins = range(self._file.begin, self._size, self._part_bytes)
        spans = pairwise([*begins, None])
        pending: deque[Future[_Part]] = deque()
        lines = 0
        try:
            while True:
                while len(pending) < self._most_pending and (span := next(spans, None)):
                    pending.append(self._pool.submit(read_part, *span))
                if not pending:
                    return
                part = pending.popleft().result()
                for packed in part.lines:
                    yield self._unpacked(packed, lines)
                if part.changed is not None:
                    yield from self._alone(part.changed, lines)
                    return
                lines += part.newlines
                self._tell(part.position - self.position)
                self.position = part.position
        finally:
            for future in pending:
                future.cancel()

    def _unpacked(self, packed: _Packed, lines: int) -> ReadLine:
        candidate, count, numbered = packed
        readings = [(self._file.formats[number], records) for number, records in numbered]
        if count:
            return ReadLine(candidate._replace(batch=LineBatch(readings, count)), readings)
        if candidate.number is not None:
            candidate = candidate._replace(number=lines + candidate.number)
        return ReadLine(candidate, readings)

    def _alone(self, first: Candidate, lines: int) -> Iterator[ReadLine]:
        """Yield the content of all lines from the line `first` on, read in the calling process.

        lines: the number of lines before the part that contains `first`.
        """
        reader = self._file.reader()
        before = lines + first.number - 1 if first.number else 0
        with open_source(self._file.path) as source:
            rest = Pass(
                source,
                reader.wanted,
                self._file.bounds,
                begin=first.offset,
                lines=before,
                count_lines=self._file.count_lines,
                tell=self._tell,
            )
            yield from reader.read(iter(rest))
        self.position = rest.position


def _pass(
    file: SharedFile, source: Source, reader: LineReader, start: int, stop: int | None
) -> Pass:
    # The byte before `start` shows whether a line begins there.
    within = start > file.begin
    return Pass(
        source,
        reader.wanted,
        file.bounds,
        begin=start - within,
        stop=stop,
        within_line=within,
        count_lines=file.count_lines,
    )


_prepared: list[PartReader] = []


def prepare(file: SharedFile) -> None:
    """Set the file that `read_part` reads in this process."""
    _prepared[:] = [PartReader(file)]


def read_part(start: int, stop: int | None) -> _Part:
    """Read a part of the file that was given to `prepare`. Raises OSError.

    start, stop: as in `PartReader.read`.
    """
    return _prepared[0].read(start, stop)


def is_worth_sharing(source: Source, begin: int, processes: int) -> bool:
    """Return whether several processes should share the reading of a log, because it is faster.

    Sharing is faster if more than WORTH_SHARING_BYTES must be read from a plain file, i.e. a
    regular file that is not compressed. A daemon process always reads alone, because it may not
    start processes.
    """
    size = source.size
    return (
        processes > 1
        and size is not None
        and size - begin > WORTH_SHARING_BYTES
        and not current_process().daemon
    )


def process_context() -> BaseContext:
    """Return the multiprocessing context in which to start processes: fork or forkserver.

    fork is faster, but is not safe while other threads run. forkserver is used in this
    case.
    """
    # A copy of this process is there at once, but must not be made while other threads run.
    return get_context("fork" if threading.active_count() == 1 else "forkserver")


def shared_pool(file: SharedFile, processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes that are prepared to read a file."""
    return ProcessPoolExecutor(
        processes, mp_context=process_context(), initializer=prepare, initargs=(file,)
    )
