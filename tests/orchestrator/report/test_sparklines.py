"""Draw step times as block characters: equal times are flat, and an outlier is always visible."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.terminal import sparkline

LINES: dict[str, tuple[list[float], str | None]] = {
    "none": ([], None),
    "none that is a number": ([math.nan, math.inf], None),
    "one": ([1.0], "▁"),
    "all the same": ([2.0, 2.0, 2.0], "▁▁▁"),
    "nearly the same": ([1.0, 1.01, 0.99], "▁▂▁"),
    "from the fastest to the slowest": ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
    "an outlier": ([1.0, 9.0, 1.0], "▁█▁"),
    "one that is not known": ([1.0, math.nan, 2.0], "▁█"),
    "an outlier among many": ([1.0] * 100 + [9.0] + [1.0] * 59, "▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁"),
    "no time at all": ([0.0, 0.0], "▁▁"),
}


@pytest.mark.parametrize(("seconds", "line"), LINES.values(), ids=LINES)
def test_times_are_blocks(seconds: list[float], line: str | None) -> None:
    """Each step time is drawn as one block character, in the order of the steps.

    A slower step has a higher block.
    """
    assert sparkline(seconds) == line


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=60), st.integers(1, 20))
def test_the_line_has_as_many_blocks_as_fit(seconds: list[float], width: int) -> None:
    """If there are more steps than characters in the line, a character stands for several steps.

    The slowest step has the highest block.
    """
    line = sparkline(seconds, width)
    assert line is not None
    assert len(line) == min(width, len(seconds))
    assert set(line) <= set("▁▂▃▄▅▆▇█")
    if max(seconds) > 1.25 * min(seconds):
        assert "█" in line
