"""The ends of logs."""

from pathlib import Path

import pytest

from orchestrator.status.log_text import log_tail

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
    """Whether there are more is known."""
    path = tmp_path / "output.log"
    path.write_bytes(log)
    tail = log_tail(path, 3, "run/output.log")
    assert (tail.path, tail.bytes) == ("run/output.log", len(log))
    assert tail.lines == lines
    assert tail.whole == whole
