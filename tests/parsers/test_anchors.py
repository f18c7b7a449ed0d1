"""Check that a search for many anchors at once gives the same as one search per anchor.

An anchor is a string that the reader searches for; lines without one are not parsed.
"""

from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.table import ALL_FORMATS
from parsers.runs.splitting import MARKS
from parsers.scan.anchors import COMPARED, AnchorSearch
from parsers.scan.reader import LineReader
from parsers.scan.stems import STEMS

# With a small alphabet, anchors often overlap, contain or hide each other.
words = st.text(alphabet="ab:", min_size=1, max_size=4).map(str.encode)
long_words = st.text(alphabet="ab:", min_size=1, max_size=9).map(str.encode)
texts = st.text(alphabet="ab:\n", max_size=60).map(str.encode)


def slow_lines(data: bytes, anchors: list[bytes]) -> list[tuple[int, int, tuple[bytes, ...]]]:
    """Return the lines that contain an anchor, found by a search for each anchor in each line.

    Each line is given by the offsets of its begin and its end, and by the anchors in it.
    """
    matches, begin = [], 0
    for line in data.split(b"\n"):
        there = tuple(anchor for anchor in anchors if anchor in line)
        if there:
            matches.append((begin, begin + len(line), there))
        begin += len(line) + 1
    return matches


@given(data=texts, anchors=st.lists(words, min_size=1, max_size=8, unique=True))
def test_every_anchor_of_a_line_is_found(data: bytes, anchors: list[bytes]) -> None:
    """Anchors that overlap, or that are part of another anchor, are found too."""
    search = AnchorSearch(anchors)
    assert list(search.lines(data, memoryview(data), 0, len(data))) == slow_lines(data, anchors)


@given(
    data=texts,
    anchors=st.lists(long_words, min_size=1, max_size=8, unique=True),
    stems=st.lists(st.lists(words, min_size=1, max_size=5, unique=True), max_size=3),
    around=st.sampled_from([b"", b"ab:\nab"]),
)
def test_stems_find_the_same_lines(
    data: bytes, anchors: list[bytes], stems: list[list[bytes]], around: bytes
) -> None:
    """Stems may be shared by several anchors, hide each other, or be in no anchor.

    Text before and after the part of a buffer that is searched makes no difference.
    """
    search = AnchorSearch(anchors, stems=stems)
    buffer = around + b"\n" + data + b"\n" + around
    begin = len(around) + 1
    found = search.lines(buffer, memoryview(buffer), begin, begin + len(data))
    assert [(at - begin, end - begin, there) for at, end, there in found] == slow_lines(
        data, anchors
    )


def test_all_formats_and_signs_have_stems() -> None:
    """Anchors without a stem are found too, but a search needs one more pass for each 60."""
    wanted = LineReader(ALL_FORMATS, more_anchors=MARKS).wanted.search.anchors
    stems = [stem for strings in STEMS for stem in strings]
    without = [
        anchor
        for anchor in wanted
        if len(anchor) >= COMPARED and not any(stem in anchor for stem in stems)
    ]
    assert len(without) < 30, "run tools/choose_stems.py"
    unused = [stem for stem in stems if not any(stem in anchor for anchor in wanted)]
    assert len(unused) < 30, "run tools/choose_stems.py"
    assert max(map(len, STEMS)) <= 64, "Teddy accepts no more strings"
    assert min(map(len, stems)) >= COMPARED


@given(data=texts, offset=st.integers(0, 20))
def test_a_part_of_a_buffer_is_searched_alone(data: bytes, offset: int) -> None:
    """If only a part of a buffer is searched, matches before and after the part are not found.

    The positions of the matches still count from the buffer's start.
    """
    anchors = [b"ab", b"::"]
    before = b"ab" * offset + b"\n"
    buffer = before + data + b"\nab"
    matches = AnchorSearch(anchors).lines(
        buffer, memoryview(buffer), len(before), len(before) + len(data)
    )
    assert list(matches) == [
        (begin + len(before), end + len(before), there)
        for begin, end, there in slow_lines(data, anchors)
    ]


def test_there_may_be_more_anchors_than_are_searched_for_at_once() -> None:
    """If there are too many anchors for one pass, all matches are still found, in their order."""
    anchors = [b"anchor %03d;" % number for number in range(200)]
    lines = [b"x" * number + anchors[number * 7 % 200] for number in range(200)]
    data = b"\n".join(lines)
    search = AnchorSearch(anchors)
    matches = list(search.lines(data, memoryview(data), 0, len(data)))
    assert [data[begin:end] for begin, end, _ in matches] == lines
    assert [there for _, _, there in matches] == [(anchors[n * 7 % 200],) for n in range(200)]


def test_without_anchors_nothing_is_found() -> None:
    """The search accepts an empty list of anchors."""
    assert list(AnchorSearch([]).lines(b"a\nb", memoryview(b"a\nb"), 0, 3)) == []
