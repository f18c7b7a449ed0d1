"""Check that `line_diff` of two pages with equal numbers of lines gives the output of `diff -u`."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.markdown.document.line_diff import line_diff

LINES = [b"%d" % number for number in range(40)]


def changed(*numbers: int, end: bytes = b"\n") -> bytes:
    """Return a document of 40 lines, some of which are changed.

    numbers: the indices of the changed lines, from 0. end: the bytes after the last line.
    """
    lines = [b"new" if number in numbers else line for number, line in enumerate(LINES)]
    return b"\n".join(lines) + end


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n"])
@pytest.mark.parametrize(
    "numbers", [(), (0,), (39,), (5,), (5, 6), (5, 12), (5, 13), (1, 20, 21, 38), tuple(range(40))]
)
def test_it_is_what_diff_prints(numbers: tuple[int, ...], end: bytes, tmp_path: Path) -> None:
    """Hunks, context lines and the note about a missing last newline are those of `diff -u`."""
    old, new = changed(end=end), changed(*numbers, end=end)
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    command = ["diff", "-u", "--label", "page", "--label", "page", "old", "new"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert b"".join(line_diff(old, new, "page")) == done.stdout
