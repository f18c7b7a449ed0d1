"""Find the lines of a log that contain an anchor, in one pass over its bytes."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from parsers.scan.anchors import AnchoredLine
from parsers.scan.sources import Source
from parsers.scan.wanted import Candidate, ReadColumns, Wanted
from parsers.scan.window import Bounds, Window
from parsers.steps.blocks import StepBlock

# Fewer lines in a row are not worth it to be read at once.
_FEWEST_AT_ONCE = 4
_FIRST_AT_ONCE, _MOST_AT_ONCE = 256, 4096
# How many lines are read one by one before trying again to read some at once.
_LINES_ALONE = 16


_Several = dict[str, Any]
"""The contents of many lines: `steps` or `batch` of a candidate."""


class Pass:
    """One pass over a log; iterate over the pass to get the candidate lines in order.

    Iterating raises OSError if the log cannot be read.

    position: after the pass, the offset at which a later pass can continue.
    within_line: whether `position` is within a line that is too long to be returned.
    newlines: after the pass, how many newlines it has read; 0 if lines are not counted.
    """

    def __init__(
        self,
        source: Source,
        wanted: Wanted,
        bounds: Bounds,
        *,
        begin: int = 0,
        within_line: bool = False,
        stop: int | None = None,
        lines: int = 0,
        hold: bool = False,
        count_lines: bool = False,
        tell: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Prepare a pass that begins at the offset `begin`.

        within_line: whether `begin` is within a line; the rest of this line is then left
        out. If False, a line starts at `begin`.
        stop: lines that begin at this offset or later are left out.
        lines: the number of lines before `begin`.
        hold: True leaves a line for a later pass if the log ends before all its following
        lines. False returns this line with the following lines that exist.
        count_lines: whether candidates get line numbers.
        tell: called with the number of bytes that were searched since its last call.
        """
        self._tell = tell
        self._source, self._wanted, self._bounds = source, wanted, bounds
        self._stop, self._lines = stop, lines
        self._hold, self._count_lines = hold, count_lines
        self.position, self.within_line, self.newlines = begin, within_line, 0

    def __iter__(self) -> Iterator[Candidate]:
        begin, within_line = self.position, self.within_line
        window = Window(
            self._source.read_from(begin),
            self._bounds,
            begin=begin,
            stop=self._stop,
            within_line=within_line,
        )
        yield from self._search(window)
        if self._count_lines:
            self.newlines = window.newlines_before(window.next_line - window.offset)
        self.position, self.within_line = window.next_line, window.within_line

    def _search(self, window: Window) -> Iterator[Candidate]:
        """Move a window over the log, and yield the candidates in each part of the log."""
        while window.advance():
            begin = window.offset
            place: int | None = window.begin
            while place is not None:
                place = yield from self._search_lines(window, place)
            if self._count_lines:
                window.newlines_before(window.next_line - window.offset)
            self._tell(window.next_line - begin)

    def _search_lines(self, window: Window, place: int) -> Generator[Candidate, None, int | None]:
        """Yield the candidates in the window's buffer, from the position `place` on.

        If the anchors to search for change, the search stops. Returns the position in the
        buffer from which to search for the new anchors; None if the window must move on.
        """
        search = self._wanted.search
        lines = search.lines(window.buffer, window.view, place, window.end)
        read_lines = self._wanted.read_lines
        for together, group in groupby(lines, key=lambda line: read_lines(line[2]) is not None):
            for several, (begin, end, anchors) in (
                self._read_at_once(window, [*group]) if together else _alone(group)
            ):
                if several is not None:
                    yield Candidate(window.offset + begin, b"", anchors, **several)
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
                number = (
                    self._lines + window.newlines_before(begin) + 1 if self._count_lines else None
                )
                yield Candidate(window.offset + begin, line, anchors, following, number)
                if self._wanted.search is not search:
                    return min(end + 1, window.end)
        return None

    def _read_at_once(
        self, window: Window, lines: Sequence[AnchoredLine]
    ) -> Iterator[tuple[_Several | None, AnchoredLine]]:
        """Read lines in groups; yield the contents of each group, with the group's first line.

        For a line that must be read alone, yields None and this line.
        """
        for columns, group in self._like_ones(lines):
            at = alone = 0
            most = _FIRST_AT_ONCE
            while at < len(group):
                read = 0
                if columns and at >= alone and len(group) - at >= _FEWEST_AT_ONCE:
                    block = self._block(window, group[at : at + most], columns)
                    read = 0 if block is None else len(block)
                    most = min(2 * most, _MOST_AT_ONCE) if read == most else _LINES_ALONE
                    alone = at + (1 if read >= _FEWEST_AT_ONCE else _LINES_ALONE)
                    if block is not None:
                        yield from self._steps(window, block, group[at : at + read])
                if not read:
                    end = alone if columns and alone > at else at + _MOST_AT_ONCE
                    read = yield from self._batch(window, group[at:end])
                at += read

    def _like_ones(
        self, lines: Sequence[AnchoredLine]
    ) -> Iterator[tuple[ReadColumns | None, Sequence[AnchoredLine]]]:
        """Yield groups of consecutive lines, each with a function that reads the group as columns.

        The function is None if the lines of the group cannot be read as columns, or are too
        few.
        """
        others: list[AnchoredLine] = []
        for columns, group in groupby(lines, key=self._columns):
            like = [*group]
            if columns is None or len(like) < _FEWEST_AT_ONCE:
                others += like
                continue
            if others:
                yield None, others
                others = []
            yield columns, like
        if others:
            yield None, others

    def _columns(self, line: AnchoredLine) -> ReadColumns | None:
        reader = self._wanted.read_lines(line[2])
        return reader and reader.columns

    def _steps(
        self, window: Window, block: StepBlock, lines: Sequence[AnchoredLine]
    ) -> Iterator[tuple[_Several | None, AnchoredLine]]:
        """Split a block of steps where a launch may begin or end, and yield the pieces.

        Each piece is yielded with its first line. The line of a step at which a launch may end
        is read by `_batch` instead.
        """
        ends = {*block.possible_ends}
        cuts = {0, *block.falls, *ends, *(at + 1 for at in ends), len(block)}
        for begin, end in pairwise(sorted(cuts)):
            if begin in ends:
                yield from self._batch(window, lines[begin:end])
            else:
                yield {"steps": block.part(begin, end)}, lines[begin]

    def _batch(
        self, window: Window, lines: Sequence[AnchoredLine]
    ) -> Generator[tuple[_Several | None, AnchoredLine], None, int]:
        """Parse lines together, from the first one on; yield their records and the first line.

        Parsing stops before a line that must be read alone. Returns how many lines were
        parsed. If the first line must be read alone, yields None and this line, and returns
        1.
        """
        reader = self._wanted.read_lines(lines[0][2])
        if reader and (text := self._text(window, lines)):
            offsets_and_anchors = [(window.offset + begin, anchors) for begin, _, anchors in lines]
            batch = reader.batch(offsets_and_anchors, text)
            if batch.lines:
                yield {"batch": batch}, lines[0]
                return batch.lines
        yield None, lines[0]
        return 1

    def _block(
        self, window: Window, lines: Sequence[AnchoredLine], read: ReadColumns
    ) -> StepBlock | None:
        """Read lines as columns, from the first one on; return their steps.

        Returns None if the first line cannot be read in this way.
        """
        text = self._text(window, lines)
        return read([window.offset + begin for begin, _, _ in lines], text) if text else None

    def _text(self, window: Window, lines: Sequence[AnchoredLine]) -> bytes | None:
        """Return the text of some lines, each with a newline; None if one of them is too long."""
        texts = [window.buffer[begin:end] for begin, end, _ in lines]
        if max(map(len, texts)) > self._bounds.line_limit:
            return None
        return b"\n".join([*texts, b""])


def _alone(lines: Iterable[AnchoredLine]) -> Iterator[tuple[None, AnchoredLine]]:
    return ((None, line) for line in lines)
