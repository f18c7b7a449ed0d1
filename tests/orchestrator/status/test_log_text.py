"""Read the last lines of logs, and make them safe for a terminal."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.status.log_text import last_lines, log_tail, terminal_text

LOGS: dict[str, tuple[bytes, tuple[str, ...], bool]] = {
    "empty": (b"", (), True),
    "short": (b"one\ntwo\n", ("one", "two"), True),
    "without a last newline": (b"one\ntwo", ("one", "two"), True),
    "long": (b"0\n1\n2\n3\n4\n", ("2", "3", "4"), False),
    "windows": (b"one\r\ntwo\r\n", ("one", "two"), True),
    "progress bar": (b"10%\r50%\r100%\ndone\n", ("100%", "done"), True),
    "colours": (b"\x1b[31mred\x1b[0m\n", ("red",), True),
    "tabs and bells": (b"a\tb\x07\n", ("a       b\N{REPLACEMENT CHARACTER}",), True),
    "no UTF-8": (b"\xff\n", ("\N{REPLACEMENT CHARACTER}",), True),
    "a line without end": (b"x" * 100_000, ("x" * 999 + "…",), False),
    "long lines": (b"a" * 60_000 + b"\n" + b"b" * 10_000 + b"\n", ("b" * 999 + "…",), False),
}


@pytest.mark.parametrize(("log", "lines", "whole"), LOGS.values(), ids=LOGS)
def test_a_log_s_end_is_its_last_lines_as_they_are_read(
    tmp_path: Path, log: bytes, lines: tuple[str, ...], whole: bool
):
    """`log_tail` returns the last lines of a log, and its size in bytes.

    Its member `whole` is true if these lines are the whole log.
    """
    path = tmp_path / "output.log"
    path.write_bytes(log)
    tail = log_tail(path, 3, "run/output.log")
    assert (tail.path, tail.bytes) == ("run/output.log", len(log))
    assert tail.lines == lines
    assert tail.whole == whole


@given(st.lists(st.sampled_from([b"", b"a", b"bb\r", b"\xff"]), max_size=9), st.integers(1, 12))
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_lines_are_those_of_splitting_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, end: bytes, lines: list[bytes], number: int
):
    """`last_lines` finds the last lines as if the whole log were split at its newlines.

    The log may or may not end with a newline. It may be longer than the block that `last_lines`
    reads at once.
    """
    path = tmp_path_factory.getbasetemp() / "output.log"
    for filler in (b"", b"x" * 70_000 + b"\n"):
        log = filler + b"\n".join(lines) + end
        path.write_bytes(log)
        ended = log.endswith(b"\n")
        expected = b"\n".join(log.removesuffix(b"\n").split(b"\n")[-number:]) + b"\n" * ended
        assert log[last_lines(path, number) :] == expected


ESCAPES: dict[str, tuple[bytes, str]] = {
    "plain": (b"a b\tc\nd\n", "a b\tc\nd\n"),
    "colours": (b"\x1b[1;31mred\x1b[0m\x1b[m\n", "red\n"),
    "title": (b"\x1b]0;pwned\x07\n", "\ufffd]0;pwned\ufffd\n"),
    "cursor": (b"\x1b[2J\x1b[H", "\ufffd[2J\ufffd[H"),
    "8-bit escape": (b"\xc2\x9b2J", "\ufffd2J"),
    "bidi override": ("a\u202eb".encode(), "a\ufffdb"),
    "progress bar": (b"10%\r50%\r100%\r\n", "10%\n50%\n100%\n"),
    "no UTF-8": (b"\xff\xe2\x82", "\ufffd\ufffd"),
    "the beginning of an escape": (b"a\x1b[3", "a\ufffd[3"),
    "UTF-8": ("Größe 3 µs\n".encode(), "Größe 3 µs\n"),
}


@pytest.mark.parametrize(("log", "text"), ESCAPES.values(), ids=ESCAPES)
def test_a_terminal_is_shown_a_log_and_not_controlled_by_it(log: bytes, text: str):
    """Control codes are removed from a log, even if the log is read byte by byte."""
    assert "".join(terminal_text([log])) == text
    assert "".join(terminal_text(log[place : place + 1] for place in range(len(log)))) == text


@given(st.lists(st.binary(max_size=40)))
def test_no_log_controls_a_terminal(parts: list[bytes]):
    """Of all control characters in a log, only tabs and newlines are left."""
    assert all(mark.isprintable() or mark in "\n\t" for mark in "".join(terminal_text(parts)))
