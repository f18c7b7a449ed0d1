"""Define what to search a log for, and what to return of the lines that match."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from parsers.scan.anchors import anchor_search
from parsers.steps.blocks import StepBlock


class Candidate(NamedTuple):
    r"""A line that contains anchors.

    offset: byte at which it starts. line: its bytes, without \n or \r\n. anchors: those in it.
    following: the bytes behind it, from its line end to that of the last line asked for; empty if
    none was. number: how many lines there are up to this one, if that was asked for.
    steps: where many lines were read at once, the step that each tells of; then offset and anchors
    are those of the first one, and there is no line.
    """

    offset: int
    line: bytes
    anchors: tuple[bytes, ...]
    following: bytes = b""
    number: int | None = None
    steps: StepBlock | None = None


ReadLines = Callable[[Sequence[int], bytes], StepBlock | None]
"""Takes the offsets of some lines and the lines, each with its newline; see `LogFormat`."""


class Wanted:
    """The anchors to search for, each with how many following lines are wanted with its line.

    They can be changed during a pass, and hold from the line after the last one given.
    """

    def __init__(
        self,
        anchors: Mapping[bytes, int],
        read_lines: Callable[[tuple[bytes, ...]], ReadLines | None] = lambda _: None,
        only: Mapping[bytes, re.Pattern[bytes]] | None = None,
    ) -> None:
        """Prepare the search.

        read_lines: takes the anchors that lines hold; returns what reads many of them at once.
        only: what a line must hold, too, for an anchor to count.
        """
        self._read_lines, self._only = read_lines, only or {}
        self.change(anchors)

    def change(self, anchors: Mapping[bytes, int]) -> None:
        """Search for these from now on."""
        only = ((anchor, one) for anchor, one in self._only.items() if anchor in anchors)
        self.search = anchor_search(tuple(anchors), tuple(only))
        self._following = dict(anchors)
        self._known: dict[tuple[bytes, ...], int] = {}
        self._known_readers: dict[tuple[bytes, ...], ReadLines | None] = {}

    def read_lines(self, anchors: tuple[bytes, ...]) -> ReadLines | None:
        """Return what reads many lines at once that hold these, if anything does."""
        if anchors not in self._known_readers:
            self._known_readers[anchors] = self._read_lines(anchors)
        return self._known_readers[anchors]

    def following(self, anchors: tuple[bytes, ...]) -> int:
        """Return how many following lines are wanted with a line that holds these."""
        if (lines := self._known.get(anchors)) is None:
            lines = self._known[anchors] = max(self._following[anchor] for anchor in anchors)
        return lines
