"""Find the lines of a log that contain an anchor, in one pass over its bytes.

A large file is cut into segments, which several threads search at once: reading and searching let
other threads run. A line belongs to the segment in which it begins.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from parsers.scan.anchors import AnchoredLine
from parsers.scan.sources import Source, file_reader
from parsers.scan.wanted import Candidate, ReadLines, Wanted
from parsers.scan.window import Bounds, Window
from parsers.steps.blocks import StepBlock

if TYPE_CHECKING:
    from concurrent.futures import Future

SEGMENT_BYTES = 2**24
# Fewer lines in a row are not worth it to be read at once.
_FEWEST_AT_ONCE = 4
_FIRST_AT_ONCE, _MOST_AT_ONCE = 256, 4096
# How many lines are read one by one before trying again to read some at once.
_LINES_ALONE = 16


class _Segment(NamedTuple):
    """The search of a segment: its lines, its number of newlines, and where it has ended."""

    candidates: list[Candidate]
    newlines: int
    position: int
    within_line: bool


class Pass:
    """One pass over a log; iterating gives its candidates in order. Raises OSError.

    position: when the pass is over, the offset at which a later one can continue, after the last
    used line. within_line: a line that is being left out continues there.
    """

    def __init__(
        self,
        source: Source,
        wanted: Wanted,
        bounds: Bounds,
        *,
        begin: int = 0,
        within_line: bool = False,
        threads: int = 1,
        segment_bytes: int = SEGMENT_BYTES,
        hold: bool = False,
        count_lines: bool = False,
        tell: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Begin at `begin`, the offset of a line, or of a rest of one that is left out.

        hold: leave a last line that lacks some of its following lines for a later pass.
        count_lines: give the candidates their line numbers, counted from `begin`. tell: called with
        numbers of bytes, after they were searched.
        """
        self._tell = tell
        self._source, self._wanted, self._bounds = source, wanted, bounds
        self._threads, self._segment_bytes = threads, segment_bytes
        self._hold, self._count_lines = hold, count_lines
        self._begin = self.position = begin
        self.within_line = self._begins_within_line = within_line

    def __iter__(self) -> Iterator[Candidate]:
        size = self._source.size
        descriptor = self._source.descriptor
        if descriptor is None or size is None or self._threads < 2:
            return self._sequential()
        if size - self.position <= self._segment_bytes:
            return self._sequential()
        return self._segmented(descriptor, size)

    def _sequential(self, after: Candidate | None = None) -> Iterator[Candidate]:
        """Search from `position` on, or after a candidate, in this thread."""
        begin, within_line = self.position, self.within_line
        if after is not None:
            begin, within_line = after.offset, True
        read = self._source.read_from(begin)
        window = Window(read, self._bounds, begin=begin, within_line=within_line)
        lines = after.number - 1 if after is not None and after.number is not None else 0
        yield from self._search(window, lines, self._tell)
        self.position, self.within_line = window.next_line, window.within_line

    def _segmented(self, descriptor: int, size: int) -> Iterator[Candidate]:
        from concurrent.futures import ThreadPoolExecutor

        search = self._wanted.search
        # What the first lines are like helps to read the others, so they come alone.
        first = self.position + min(self._bounds.chunk_bytes, self._segment_bytes)
        begins = [self.position, *range(first, size, self._segment_bytes)]
        spans = zip_longest(begins, begins[1:])
        pending: deque[Future[_Segment]] = deque()
        most = 1
        lines = 0
        pool = ThreadPoolExecutor(self._threads)
        try:
            while True:
                # What they find stays in memory until its turn comes, so not too many at once.
                while len(pending) < most and (span := next(spans, None)):
                    pending.append(pool.submit(self._segment, descriptor, *span))
                most = self._threads + 1
                if not pending:
                    return
                segment = pending.popleft().result()
                for candidate in segment.candidates:
                    found = candidate
                    if candidate.number is not None:
                        found = candidate._replace(number=lines + candidate.number)
                    yield found
                    if self._wanted.search is not search:
                        yield from self._sequential(after=found)
                        return
                lines += segment.newlines
                self._tell(segment.position - self.position)
                self.position, self.within_line = segment.position, segment.within_line
        finally:
            pool.shutdown(cancel_futures=True)

    def _segment(self, descriptor: int, start: int, stop: int | None) -> _Segment:
        # The byte before `start` shows whether a line begins there.
        within_line = start > self._begin or self._begins_within_line
        begin = start - 1 if start > self._begin else start
        window = Window(
            file_reader(descriptor, begin),
            self._bounds,
            begin=begin,
            stop=stop,
            within_line=within_line,
        )
        candidates = list(self._search(window, 0))
        newlines = window.newlines_before(window.next_line - window.offset)
        return _Segment(candidates, newlines, window.next_line, window.within_line)

    def _search(
        self, window: Window, lines: int, tell: Callable[[int], None] = lambda count: None
    ) -> Iterator[Candidate]:
        """Yield the candidates of a window; `lines` is the number of lines before it."""
        while window.advance():
            begin = window.offset
            place: int | None = window.begin
            while place is not None:
                place = yield from self._search_lines(window, place, lines)
            if self._count_lines:
                window.newlines_before(window.next_line - window.offset)
            tell(window.next_line - begin)

    def _search_lines(
        self, window: Window, place: int, before: int
    ) -> Generator[Candidate, None, int | None]:
        """Yield candidates from a place on; return where to continue with changed anchors."""
        search = self._wanted.search
        found = search.lines(window.buffer, window.view, place, window.end)
        read_lines = self._wanted.read_lines
        for reader, group in groupby(found, key=lambda line: read_lines(line[2])):
            lines = tuple(group)
            for steps, (begin, end, anchors) in self._read_at_once(window, lines, reader):
                if steps:
                    yield Candidate(steps.offset, b"", anchors, steps=steps)
                    continue
                if end - begin > self._bounds.line_limit:
                    continue
                line = bytes(window.view[begin:end]).removesuffix(b"\r")
                following = b""
                if count := self._wanted.following(anchors):
                    last = window.end_of_following(end, count, hold=self._hold)
                    if last is None:
                        window.used = begin
                        return None
                    if last > end:
                        following = bytes(window.view[begin + len(line) : last])
                number = before + window.newlines_before(begin) + 1 if self._count_lines else None
                yield Candidate(window.offset + begin, line, anchors, following, number)
                if self._wanted.search is not search:
                    return min(end + 1, window.end)
        return None

    def _read_at_once(
        self, window: Window, lines: Sequence[AnchoredLine], read_lines: ReadLines | None
    ) -> Iterator[tuple[StepBlock | None, AnchoredLine]]:
        """Yield blocks of steps that continue the launch, with their first line; and other lines.

        Steps are read together if possible; a line or two that cannot be read so may be between.
        """
        at = alone = 0
        together = _FIRST_AT_ONCE
        while at < len(lines):
            block = None
            if at >= alone and read_lines and len(lines) - at >= _FEWEST_AT_ONCE:
                block = self._block(window, lines[at : at + together], read_lines)
                whole = block is not None and len(block) == together
                together = min(2 * together, _MOST_AT_ONCE) if whole else _LINES_ALONE
                alone = at + (1 if block and len(block) >= _FEWEST_AT_ONCE else _LINES_ALONE)
            begin = 0
            while block and begin < len(block):
                end = max(block.going_on(begin), begin + 1)
                if end - begin < _FEWEST_AT_ONCE:
                    yield from ((None, line) for line in lines[at + begin : at + end])
                else:
                    yield block.part(begin, end), lines[at + begin]
                begin = end
            if block:
                at += len(block)
            else:
                yield None, lines[at]
                at += 1

    def _block(
        self, window: Window, lines: Sequence[AnchoredLine], read_lines: ReadLines
    ) -> StepBlock | None:
        """Return the steps of the first lines, if they can be read at once."""
        texts = [window.buffer[begin:end] for begin, end, _ in lines]
        if max(map(len, texts)) > self._bounds.line_limit:
            return None
        offsets = [window.offset + begin for begin, _, _ in lines]
        return read_lines(offsets, b"\n".join([*texts, b""]))
