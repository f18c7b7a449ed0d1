"""Search for anchors: find which lines of a buffer contain which byte strings.

The search uses Teddy, a vectorised search of the Rust crate aho-corasick, which lets other threads
run meanwhile. Teddy accepts up to 64 strings and is fastest with fewer. It uses their first three
bytes, so a single shorter string would slow down the search for all others. So there is one pass
for the shorter anchors, and one for each group of up to 60 other anchors. Teddy distinguishes
strings by the lower four bits of these bytes, and tests a place if it may be one of them. So
anchors in a group are similar in these bits: with other groups, the search takes twice as long.

An anchor that contains another anchor is not searched for, and Teddy's matches do not overlap. So a
match of one anchor may hide another anchor. The anchors that each match can hide are computed in
advance. After a match, its line is searched again, but only for these anchors.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_MOST_AT_ONCE = 60
_SHORT = 3


_AnchorSet = tuple[tuple[bytes, ...], tuple[tuple[int, re.Pattern[bytes]], ...]]
"""Some anchors; and the bit and the pattern of each of them that has a pattern."""

AnchoredLine = tuple[int, int, tuple[bytes, ...]]
"""Where a line begins and ends in a buffer, its newline not included, and the anchors on it."""


class AnchorSearch:
    """A search for some anchors, to be used on any number of buffers, by several threads."""

    def __init__(
        self, anchors: Iterable[bytes], only: Mapping[bytes, re.Pattern[bytes]] | None = None
    ) -> None:
        """Prepare the search. An anchor is a non-empty byte string without a newline.

        only: for anchors that are common words, a pattern. Such an anchor counts only on a line
        that also matches its pattern.
        """
        self.anchors = tuple(dict.fromkeys(anchors))
        self._only = {
            1 << number: only[anchor]
            for number, anchor in enumerate(self.anchors)
            if only and anchor in only
        }
        # A string that contains another one need not be searched for: the other one finds it.
        containing = _containing(self.anchors)
        found_by_others = set(chain.from_iterable(containing))
        searched = [number for number in range(len(self.anchors)) if number not in found_by_others]
        short = [number for number in searched if len(self.anchors[number]) < _SHORT]
        long = [number for number in searched if len(self.anchors[number]) >= _SHORT]
        long.sort(key=lambda number: _low_bits(self.anchors[number]))
        count = -(-len(long) // _MOST_AT_ONCE)
        groups = (
            long[len(long) * at // count : len(long) * (at + 1) // count] for at in range(count)
        )
        self._groups = [
            (numbers, BytesAhoCorasick([self.anchors[number] for number in numbers], _LEFTMOST))
            for numbers in (short, *groups)
            if numbers
        ]
        self._lengths = [len(anchor) for anchor in self.anchors]
        self._hidden = _hidden(self.anchors, containing)
        self._known: dict[int, _AnchorSet] = {}

    def lines(
        self, buffer: bytes | bytearray, view: memoryview, begin: int, end: int
    ) -> Iterator[AnchoredLine]:
        r"""Yield the lines of `buffer[begin:end]` that contain an anchor, in order, each once.

        Of each line, yields its beginning and its end in the buffer, and its anchors.
        begin: the beginning of a line; a line ends at \n. view: a memoryview of the buffer.
        """
        line_begin = line_end = begin
        bits = hidden = 0
        for number, position in self._matches(view[begin:end]):
            at = begin + position
            if at >= line_end:
                if bits and (line := self._line(buffer, line_begin, line_end, bits, hidden)):
                    yield line
                line_begin = buffer.rfind(b"\n", line_end, at) + 1 or line_end
                line_end = buffer.find(b"\n", at, end)
                if line_end < 0:
                    line_end = end
                bits = hidden = 0
            bits |= 1 << number
            place = at + self._lengths[number]
            anywhere, by_next = self._hidden[number]
            hidden |= anywhere
            if place < end and (others := by_next.get(buffer[place])):
                hidden |= others
        if bits and (line := self._line(buffer, line_begin, line_end, bits, hidden)):
            yield line

    def _matches(self, view: memoryview) -> list[tuple[int, int]]:
        groups = []
        for numbers, search in self._groups:
            if matches := search.find_matches_as_indexes(view):
                groups.append([(numbers[index], begin) for index, begin, _ in matches])
        return groups[0] if len(groups) == 1 else sorted(chain.from_iterable(groups), key=_position)

    def _line(
        self, buffer: bytes | bytearray, begin: int, end: int, bits: int, hidden: int
    ) -> AnchoredLine | None:
        """Return a line's beginning, its end and its anchors; None if no anchor counts on the line.

        bits: the anchors that the search has found on the line. hidden: the anchors that may also
        be on the line, because the found anchors can hide them. Each anchor is one bit.
        """
        if hidden := hidden & ~bits:
            for number in _numbers(hidden):
                if buffer.find(self.anchors[number], begin, end) >= 0:
                    bits |= 1 << number
        anchors, doubtful = self._known.get(bits) or self._anchor_set(bits)
        if doubtful:
            for bit, pattern in doubtful:
                if not pattern.search(buffer, begin, end):
                    bits ^= bit
            if not bits:
                return None
            anchors, _ = self._known.get(bits) or self._anchor_set(bits)
        return begin, end, anchors

    def _anchor_set(self, bits: int) -> _AnchorSet:
        """Return the anchors in a set, and those with a pattern; remember both."""
        found = self._known[bits] = (
            tuple(self.anchors[number] for number in _numbers(bits)),
            tuple((bit, pattern) for bit, pattern in self._only.items() if bits & bit),
        )
        return found


@lru_cache(maxsize=4096)
def _numbers(bits: int) -> tuple[int, ...]:
    return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


def _low_bits(anchor: bytes) -> tuple[int, ...]:
    return tuple(byte & 15 for byte in anchor[:_SHORT])


_LEFTMOST = MatchKind.LeftmostFirst
_position = itemgetter(1)


@lru_cache(maxsize=32)
def anchor_search(
    anchors: tuple[bytes, ...], only: tuple[tuple[bytes, re.Pattern[bytes]], ...] = ()
) -> AnchorSearch:
    """Return a search for these anchors, from a cache if it was prepared before.

    To prepare a search takes longer than to search a small log.
    """
    return AnchorSearch(anchors, dict(only))


def _containing(anchors: tuple[bytes, ...]) -> list[list[int]]:
    """Return for each anchor the indices of the other anchors that contain it."""
    joined = b"\n".join(anchors)
    return [
        [other for other, text in enumerate(anchors) if anchor in text and text != anchor]
        if joined.count(anchor) > 1
        else []
        for anchor in anchors
    ]


def _hidden(
    anchors: tuple[bytes, ...], containing: list[list[int]]
) -> list[tuple[int, dict[int, int]]]:
    """Return for each anchor the other anchors that its match may hide on the same line.

    The search does not look for anchors that contain another anchor, and its matches do not
    overlap. So an anchor that overlaps with a match may not be found; it is hidden. It overlaps
    in one of two ways:

    * It contains the match, or the match contains it. E.g. a match of `loss` may hide
      `lm loss`.
    * It begins with the match's last bytes. E.g. a match of `lm loss` may hide `loss:`, but
      only if the byte after the match is `:`.

    Returns one pair per anchor. The first item is the set of anchors that may be hidden in
    the first way. The second item is a dictionary for the second way: for each byte that
    may follow the match, the set of anchors that may then be hidden. A set is an integer
    with one bit per anchor.

    containing: for each anchor, the indices of the other anchors that contain it.
    """
    nested = [0] * len(anchors)
    for number, others in enumerate(containing):
        for other in others:
            nested[other] |= 1 << number
            nested[number] |= 1 << other
    beginning: dict[bytes, set[int]] = {}
    for number, anchor in enumerate(anchors):
        for length in range(1, len(anchor) + 1):
            beginning.setdefault(anchor[:length], set()).add(number)
    hidden = []
    for number, match in enumerate(anchors):
        by_next = dict[int, int]()
        for at in range(len(match)):
            for other in beginning.get(match[at:], ()):
                for following in anchors[other][len(match) - at :][:1]:
                    by_next[following] = by_next.get(following, 0) | 1 << other
        hidden.append((nested[number], by_next))
    return hidden
