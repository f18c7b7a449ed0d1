"""Check that the fast search for lines with anchors gives the same lines as a slow search."""

import io
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.scan.candidates import Pass
from parsers.scan.sources import open_source
from parsers.scan.wanted import Candidate, Wanted
from parsers.scan.window import Bounds

# The number of further lines wanted after a line that contains the anchor.
WANTED = {b"one": 0, b"two": 2, b"many": 9}

fragments = st.sampled_from(
    [b"one", b"tw", b"o", b"two", b"many", b"\n", b"\n", b"\r\n", b"\0", b"\xff", b"-"]
)
texts = st.lists(fragments, max_size=50).map(b"".join)
bounds = st.builds(
    Bounds,
    chunk_bytes=st.integers(1, 60),
    line_limit=st.integers(1, 30),
    lookahead_bytes=st.integers(0, 40),
    complete=st.booleans(),
)


def slow_pass(data: bytes, wanted: Mapping[bytes, int], bounds: Bounds) -> list[Candidate]:
    """Return the lines of a log that contain an anchor, found by a slow search line by line.

    Each line is returned with the lines after it that its format needs.
    wanted: for each anchor, how many lines after it are needed.
    """
    *lines, last = data.split(b"\n")
    if bounds.complete and last:
        lines.append(last)
    ends = [sum(len(line) + 1 for line in lines[: number + 1]) - 1 for number in range(len(lines))]
    collected = []
    for number, (line, end) in enumerate(zip(lines, ends, strict=True)):
        anchors = tuple(anchor for anchor in wanted if anchor in line)
        if not anchors or len(line) > bounds.line_limit:
            continue
        last_end = end
        for further in range(number + 1, number + 1 + max(wanted[anchor] for anchor in anchors)):
            too_far = further >= len(lines) or ends[further] > end + bounds.lookahead_bytes
            if too_far or len(lines[further]) > bounds.line_limit:
                break
            last_end = ends[further]
        text = line.removesuffix(b"\r")
        following = data[end - len(line) + len(text) : last_end] if last_end > end else b""
        collected.append(Candidate(end - len(line), text, anchors, following, number + 1))
    return collected


@given(data=texts, bounds=bounds)
def test_chunks_change_nothing(data: bytes, bounds: Bounds) -> None:
    """The lines found with anchors do not depend on how the reader divides a log into chunks."""
    with open_source(io.BytesIO(data)) as source:
        reading = Pass(source, Wanted(WANTED), bounds, count_lines=True)
        assert list(reading) == slow_pass(data, WANTED, bounds)
        half_written = len(data) - data.rfind(b"\n") - 1
        assert reading.within_line == (half_written > bounds.line_limit)
        used = bounds.complete or reading.within_line
        assert reading.position == len(data) - (0 if used else half_written)


@given(data=texts, bounds=bounds, part_bytes=st.integers(1, 40))
def test_parts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, bounds: Bounds, part_bytes: int
) -> None:
    """If a log is read in parts, no line is lost or doubled, and line numbers continue."""
    log = tmp_path_factory.getbasetemp() / "parts.log"
    log.write_bytes(data)
    collected: list[Candidate] = []
    lines = 0
    begins = range(0, max(len(data), 1), part_bytes)
    with open_source(log) as source:
        for start, stop in pairwise([*begins, None]):
            assert start is not None
            part = Pass(
                source,
                Wanted(WANTED),
                bounds,
                begin=start - (start > 0),
                within_line=start > 0,
                stop=stop,
                lines=lines,
                count_lines=True,
            )
            collected += part
            lines += part.newlines
    assert collected == slow_pass(data, WANTED, bounds)


@given(data=texts, bounds=bounds, changes=st.integers(0, 3))
def test_changed_anchors_apply_from_the_next_line(
    data: bytes, bounds: Bounds, changes: int
) -> None:
    """If the anchors change, the change applies from the next line on.

    This holds even if that line was already searched for the old anchors.
    """
    more = {b"-": 0, b"\0": 1}
    expected, after = [], 0
    for number, wanted in enumerate([WANTED, *([WANTED | more, WANTED] * 2)]):
        rest = [
            candidate for candidate in slow_pass(data, wanted, bounds) if candidate.offset >= after
        ]
        if not rest or number == changes:
            expected += rest
            break
        expected.append(rest[0])
        after = rest[0].offset + 1
    with open_source(io.BytesIO(data)) as source:
        wanted = Wanted(WANTED)
        collected = []
        for candidate in Pass(source, wanted, bounds, count_lines=True):
            collected.append(candidate)
            if len(collected) <= changes:
                wanted.change(WANTED | more if len(collected) % 2 else WANTED)
    assert collected == expected


@given(data=texts, cut=st.integers(0, 200))
def test_lines_held_back_come_whole_after_the_log_has_grown(data: bytes, cut: int) -> None:
    """While a log grows, an incomplete line is returned only later, when it is complete.

    The same holds for a line whose following lines are incomplete.
    """
    growing = Bounds(complete=False)
    with open_source(io.BytesIO(data[:cut])) as source:
        first = Pass(source, Wanted(WANTED), growing, hold=True)
        candidates = list(first)
    with open_source(io.BytesIO(data)) as source:
        rest = Pass(source, Wanted(WANTED), growing, begin=first.position)
        candidates += rest
    assert candidates == [
        candidate._replace(number=None) for candidate in slow_pass(data, WANTED, growing)
    ]


def test_the_process_stays_small_on_a_gigabyte_without_newline(tmp_path: Path) -> None:
    """A process that reads a gigabyte without newline, with all formats, needs little memory."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(2**30)
    # Not by getrusage, because a new process inherits the peak of its parent.
    code = (
        "import re, sys; from parsers.runs.reading import read; peak = lambda:"
        " int(re.search(r'VmHWM:\\s*([0-9]+)', open('/proc/self/status').read())[1]);"
        "before = peak(); read(sys.argv[1]); print(peak() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)], stdout=subprocess.PIPE, check=True, timeout=60
    )
    assert int(done.stdout) < 64 * 2**10  # KiB


def test_memory_stays_bounded_if_every_line_matches(tmp_path: Path) -> None:
    """If very many lines match, only a few of them are in memory at the same time."""
    log = tmp_path / "log"
    log.write_bytes(b"one and some more words on a line of a log\n" * 2**16)
    with open_source(log) as source:
        small = Bounds(chunk_bytes=2**16, line_limit=2**16)
        candidates = Pass(source, Wanted(WANTED), small)
        tracemalloc.start()
        count = sum(1 for _ in candidates)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 2**16
    assert peak < 5 * 2**20
