"""Search for anchors: find which lines of a buffer contain which byte strings.

The search uses Teddy, a vectorised search of the Rust crate aho-corasick, which lets other threads
run meanwhile. Teddy accepts up to 64 strings, so there are several passes over a buffer. Teddy
looks for the first four bytes of each string, and compares the rest only if it finds them. If other
text often looks like these bytes, the pass takes up to four times as long. One shorter string slows
down the pass for all others.

So the search looks for stems instead of anchors: parts of anchors that are rare in logs. Many
anchors can share a stem, which saves passes. `parsers.scan.stems` lists the stems of each pass. An
anchor without a stem is searched for as it is. A line with a stem is searched again, but only for
longer anchors that contain the stem.

Teddy's matches do not overlap. So a match of one string may hide another one. The anchors that each
match can hide are computed in advance, and the line is searched for these anchors, too.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, chain, compress
from operator import itemgetter, or_
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from parsers.scan.stems import STEMS

_MOST_AT_ONCE = 60
COMPARED = 4
"""How many bytes of a string Teddy looks for before it compares the rest."""

_AnchorSet = tuple[tuple[bytes, ...], tuple[tuple[int, re.Pattern[bytes]], ...]]
"""Some anchors; and the bit and the pattern of each of them that has a pattern."""

AnchoredLine = tuple[int, int, tuple[bytes, ...]]
"""Where a line begins and ends in a buffer, its newline not included, and the anchors on it."""


class _Shown(NamedTuple):
    """What a match of a string that was searched for shows about its line.

    A set of anchors is an integer with one bit per anchor.
    length: the length of the string, in bytes.
    certain: the set with the string itself, if it is an anchor; otherwise empty.
    possible: the set of the anchors that the line may contain, too.
    by_next: other strings that may begin within the match, by the byte after the match. For each:
    how many of its bytes are in the match, the string, and the set of the anchors that contain it.
    """

    length: int
    certain: int
    possible: int
    by_next: dict[int, list[tuple[int, bytes, int]]]


class AnchorSearch:
    """A search for some anchors, to be used on any number of buffers, by several threads."""

    def __init__(
        self,
        anchors: Iterable[bytes],
        only: Mapping[bytes, re.Pattern[bytes]] | None = None,
        stems: Sequence[Sequence[bytes]] = (),
    ) -> None:
        """Prepare the search. An anchor is a non-empty byte string without a newline.

        only: for anchors that are common words, a pattern. Such an anchor counts only on a line
        that also matches its pattern.
        stems: the stems to search for in each pass, up to 64. A pass is left out if no anchor
        contains one of its stems.
        """
        self.anchors = tuple(dict.fromkeys(anchors))
        self._only = {
            1 << number: only[anchor]
            for number, anchor in enumerate(self.anchors)
            if only and anchor in only
        }
        passes = _passes(self.anchors, stems)
        self._searches = [BytesAhoCorasick(strings, _LEFTMOST) for strings in passes]
        self._shown = [_shown(strings, self.anchors) for strings in passes]
        self._known: dict[int, _AnchorSet] = {}
        self._tests: dict[int, list[tuple[bytes, int]]] = {}

    def lines(
        self, buffer: bytes | bytearray, view: memoryview, begin: int, end: int
    ) -> Iterator[AnchoredLine]:
        r"""Yield the lines of `buffer[begin:end]` that contain an anchor, in order, each once.

        Of each line, yields its beginning and its end in the buffer, and its anchors.
        begin: the beginning of a line; a line ends at \n. view: a memoryview of the buffer.
        """
        line_begin = line_end = begin
        bits = hidden = 0
        for position, (length, certain, possible, by_next) in self._matches(view[begin:end]):
            at = begin + position
            if at >= line_end:
                if (bits or hidden) and (
                    line := self._line(buffer, line_begin, line_end, bits, hidden)
                ):
                    yield line
                line_begin = buffer.rfind(b"\n", line_end, at) + 1 or line_end
                line_end = buffer.find(b"\n", at, end)
                if line_end < 0:
                    line_end = end
                bits = hidden = 0
            bits |= certain
            hidden |= possible
            place = at + length
            if place < end:
                for covered, string, others in by_next.get(buffer[place], ()):
                    if buffer.startswith(string, place - covered, end):
                        hidden |= others
        if (bits or hidden) and (line := self._line(buffer, line_begin, line_end, bits, hidden)):
            yield line

    def _matches(self, view: memoryview) -> list[tuple[int, _Shown]]:
        passes = []
        for search, shown in zip(self._searches, self._shown, strict=True):
            if matches := search.find_matches_as_indexes(view):
                passes.append([(begin, shown[index]) for index, begin, _ in matches])
        return passes[0] if len(passes) == 1 else sorted(chain.from_iterable(passes), key=_position)

    def _line(
        self, buffer: bytes | bytearray, begin: int, end: int, bits: int, hidden: int
    ) -> AnchoredLine | None:
        """Return a line's beginning, its end and its anchors; None if no anchor counts on the line.

        bits: the anchors that the search has found on the line. hidden: the anchors that may also
        be on the line. Each anchor is one bit.
        """
        if hidden := hidden & ~bits:
            for anchor, bit in self._tests.get(hidden) or self._tests_of(hidden):
                if buffer.find(anchor, begin, end) >= 0:
                    bits |= bit
            if not bits:
                return None
        anchors, doubtful = self._known.get(bits) or self._anchor_set(bits)
        if doubtful:
            for bit, pattern in doubtful:
                if not pattern.search(buffer, begin, end):
                    bits ^= bit
            if not bits:
                return None
            anchors, _ = self._known.get(bits) or self._anchor_set(bits)
        return begin, end, anchors

    def _tests_of(self, hidden: int) -> list[tuple[bytes, int]]:
        """Return the anchors in a set, each with its bit; remember them."""
        tests = self._tests[hidden] = [
            (self.anchors[number], 1 << number) for number in _numbers(hidden)
        ]
        return tests

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


_LEFTMOST = MatchKind.LeftmostFirst
_position = itemgetter(0)


@lru_cache(maxsize=32)
def anchor_search(
    anchors: tuple[bytes, ...], only: tuple[tuple[bytes, re.Pattern[bytes]], ...] = ()
) -> AnchorSearch:
    """Return a search for these anchors, from a cache if it was prepared before.

    To prepare a search takes longer than to search a small log. Few anchors are searched for
    without stems, because they need fewer passes than the stems of all formats.
    """
    return AnchorSearch(anchors, dict(only), STEMS if len(anchors) > 2 * _MOST_AT_ONCE else ())


def _passes(anchors: tuple[bytes, ...], stems: Sequence[Sequence[bytes]]) -> list[Sequence[bytes]]:
    """Return the strings to search for in each pass; each anchor contains one of them.

    In the passes for anchors without a stem, the anchors are grouped by the lower four bits of
    their first bytes. Teddy tests these bits before it compares a string, so a pass is faster if
    its strings have similar ones.
    """
    found = [reduce(or_, _containing(strings, anchors), 0) for strings in stems]
    passes = [*compress(stems, found)]
    rest = _without(anchors, reduce(or_, found, 0))
    # A string that contains another one need not be searched for: the other one finds it.
    by_others = (bits & ~(1 << number) for number, bits in enumerate(_containing(rest, rest)))
    rest = _without(rest, reduce(or_, by_others, 0))
    short = [anchor for anchor in rest if len(anchor) < COMPARED]
    long = sorted((anchor for anchor in rest if len(anchor) >= COMPARED), key=_low_bits)
    count = -(-len(long) // _MOST_AT_ONCE)
    groups = (long[len(long) * at // count : len(long) * (at + 1) // count] for at in range(count))
    return [strings for strings in (*passes, short, *groups) if strings]


def _without(anchors: Sequence[bytes], found: int) -> list[bytes]:
    """Return the anchors that are not in a set."""
    return [anchor for number, anchor in enumerate(anchors) if not found >> number & 1]


def _low_bits(anchor: bytes) -> tuple[int, ...]:
    return tuple(byte & 15 for byte in anchor[:COMPARED])


def _shown(strings: Sequence[bytes], anchors: tuple[bytes, ...]) -> list[_Shown]:
    """Return for each string of a pass what its match shows about the anchors on the line.

    The line may contain each anchor that contains the string. As matches do not overlap, the match
    may also hide another string of the pass, and each anchor that contains the other string:

    * The match contains the other string. E.g. a match of `lm loss` may hide `loss`.
    * The other string begins with the match's last bytes. E.g. a match of `lm loss` may hide
      `loss:`, but only if the byte after the match is `:`.
    """
    containing = _containing(strings, anchors)
    beginning: dict[bytes, list[int]] = {}
    for number, string in enumerate(strings):
        for length in range(1, len(string)):
            beginning.setdefault(string[:length], []).append(number)
    possible = [0] * len(strings)
    for others, matches in zip(containing, _containing(strings, strings), strict=True):
        for number in _numbers(matches):
            possible[number] |= others
    shown = []
    for number, match in enumerate(strings):
        by_next: dict[int, list[tuple[int, bytes, int]]] = {}
        for covered in range(1, len(match)):
            for other in beginning.get(match[-covered:], ()):
                string = strings[other]
                by_next.setdefault(string[covered], []).append((covered, string, containing[other]))
        certain = 1 << anchors.index(match) if match in anchors else 0
        shown.append(_Shown(len(match), certain, possible[number], by_next))
    return shown


def _containing(strings: Sequence[bytes], texts: Sequence[bytes]) -> list[int]:
    """Return for each string which texts contain it, one bit per text."""
    joined = b"\n".join(texts)
    ends = [*accumulate(len(text) + 1 for text in texts)]
    containing = []
    for string in strings:
        bits, at = 0, joined.find(string)
        while at >= 0:
            text = bisect_right(ends, at)
            bits |= 1 << text
            at = joined.find(string, ends[text])
        containing.append(bits)
    return containing
