"""Define what to search a log for, and what to return of the matching lines."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from parsers.records import Record
from parsers.scan.anchors import anchor_search
from parsers.steps.blocks import StepBlock


class LineBatch(NamedTuple):
    """The records of some consecutive lines that were read together, but each parsed on its own.

    readings: the records, with their formats, in the order of the lines. lines: the number
    of lines.
    """

    readings: Sequence[tuple[Any, Sequence[Record]]]
    lines: int


class Candidate(NamedTuple):
    """A line that contains anchors, or many consecutive lines that were read together.

    offset: the byte of the log at which the line starts.
    line: its bytes, without the newline; empty for many lines.
    anchors: the anchors in the line.
    following: the bytes of the requested following lines, from the end of this line on;
    empty if no following lines were requested.
    number: the line's number, if requested.
    steps: for many step reports that were parsed with one pattern, their steps as columns.
    batch: for many lines that were each parsed on their own, their records.

    For many lines, the offset and the anchors are those of the first line.
    """

    offset: int
    line: bytes
    anchors: tuple[bytes, ...]
    following: bytes = b""
    number: int | None = None
    steps: StepBlock | None = None
    batch: LineBatch | None = None


ReadColumns = Callable[[Sequence[int], bytes], StepBlock | None]
"""Takes the offsets of some lines and the lines, each with its newline; see `LogFormat`."""
ReadBatch = Callable[[Sequence[tuple[int, tuple[bytes, ...]]], bytes], LineBatch]
"""Takes the offset and the anchors of each of some lines, and the lines; reads the first ones."""


class ReadLines(NamedTuple):
    """Functions that read many lines at once.

    columns: for lines that report steps and differ only in numbers. batch: for any lines.
    """

    columns: ReadColumns | None
    batch: ReadBatch


class Wanted:
    """The anchors to search for, each with the number of following lines to return.

    The anchors can be changed during a pass. A change applies to the lines after the last candidate
    that the pass has returned.
    """

    def __init__(
        self,
        anchors: Mapping[bytes, int],
        read_lines: Callable[[tuple[bytes, ...]], ReadLines | None] = lambda _: None,
        only: Mapping[bytes, re.Pattern[bytes]] | None = None,
    ) -> None:
        """Prepare the search for `anchors`, each with its number of following lines.

        read_lines: takes the anchors on a line. Returns functions that read many lines with these
        anchors at once; None if such lines are read one by one.
        only: for some anchors, a pattern. Such an anchor counts only on a line that matches.
        """
        self._read_lines, self._only = read_lines, only or {}
        self.change(anchors)

    def change(self, anchors: Mapping[bytes, int]) -> None:
        """Search for these anchors from now on."""
        only = ((anchor, pattern) for anchor, pattern in self._only.items() if anchor in anchors)
        self.search = anchor_search(tuple(anchors), tuple(only))
        self._following = dict(anchors)
        self._known: dict[tuple[bytes, ...], int] = {}
        self._known_readers: dict[tuple[bytes, ...], ReadLines | None] = {}

    def read_lines(self, anchors: tuple[bytes, ...]) -> ReadLines | None:
        """Return functions that read many lines with these anchors at once.

        Returns None if such lines are read one by one.
        """
        if anchors not in self._known_readers:
            self._known_readers[anchors] = self._read_lines(anchors)
        return self._known_readers[anchors]

    def following(self, anchors: tuple[bytes, ...]) -> int:
        """Return how many following lines belong to a line with these anchors."""
        if (lines := self._known.get(anchors)) is None:
            lines = self._known[anchors] = max(self._following[anchor] for anchor in anchors)
        return lines
