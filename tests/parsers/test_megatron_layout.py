"""Check that known layouts do not change the values that are read.

A layout is the order and form of the fields of a line. Lines of a known layout are read faster.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.megatron.iterations import MEGATRON, NANOTRON
from parsers.formats.megatron.layout import KnownLayouts
from parsers.records import Record
from parsers.scan.reader import LogFormat

ENDING = " number of skipped iterations:   0 | number of nan iterations:   0 |"
LINES = {
    "NVIDIA": (
        MEGATRON,
        (
            " [2026-01-02 03:04:05] iteration       10/     500 | consumed samples:        2560 |"
            " elapsed time per iteration (ms): 6342.3 | learning rate: 1.499E-04 |"
            f" global batch size:   256 | lm loss: 3.757495E+00 | loss scale: 1.0 |{ENDING}"
        ),
    ),
    "BigScience": (
        MEGATRON,
        (
            " iteration       10/     500 | elapsed time per iteration (s): 6.3 | seq len:  2048 |"
            f" lm loss: 3.757495E+00 | curriculum seqlen: 2048 |{ENDING}"
        ),
    ),
    "two names of one value": (
        MEGATRON,
        (
            " iteration       10/     500 | lm loss: 3.5 | loss: 4.5 | elapsed time per iteration"
            f" (ms): 6342.3 |{ENDING}"
        ),
    ),
    "ALCF": (
        MEGATRON,
        (
            " iteration=      10/     500 | consumed_samples=        2560 |"
            " elapsed_time_per_iteration_ms=6342.3 | lm loss=3.757495E+00 |"
            " number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 |"
        ),
    ),
    "a rate to be corrected": (
        MEGATRON,
        (
            " iteration       10/     500 | elapsed time per iteration (ms): 6342.3 |"
            f" global batch size:   256 | samples per second: 0.040 |{ENDING}"
        ),
    ),
    "abci": (
        MEGATRON,
        (
            " iteration       10/     500 | iteration time: 270.125 s samples/sec: 3.8 |"
            " lm loss: 3.757495E+00 |"
        ),
    ),
    "nanotron": (
        NANOTRON,
        (
            "01/02/2026 03:04:05 [INFO|DP=0]: iteration: 10 / 500 | consumed_tokens: 512 |"
            " elapsed_time_per_iteration_ms: 270 | tokens_per_sec: 1.9K | lm_loss: 9.5 |"
            " model_tflops_per_gpu: 1.5 | hardware_tflops_per_gpu: 1.5 |"
        ),
    ),
}
CHANGES = [
    "",
    "#",
    "\r",
    "|",
    ":",
    "=",
    "/",
    " ",
    "1e999",
    "1E999",
    "nan",
    "-",
    "٣",
    " | lm loss: 7",
]
CHANGES += ["iteration 1/ 2 |", "x: 1 | "]


def fresh(log_format: LogFormat, line: str) -> list[Record]:
    """Return the records of a line, read by a parser that has learnt no layout of fields."""
    dialect, layouts = log_format.parse.args  # type: ignore[attr-defined]
    unknown = KnownLayouts(layouts._header, layouts._in_front, layouts._fields)
    return list(log_format.parse.func(dialect, unknown, 0, line))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("log_format", "line"), LINES.values(), ids=LINES)
@given(data=st.data())
def test_a_known_layout_changes_nothing(
    log_format: LogFormat, line: str, data: st.DataObject
) -> None:
    """A line gives the same values with and without known layouts, even if the line is damaged."""
    for _ in range(3):
        assert list(log_format.parse(0, line)) == fresh(log_format, line) != []
    begin = data.draw(st.integers(0, len(line)))
    end = begin + data.draw(st.integers(0, 4))
    change = data.draw(st.sampled_from(CHANGES) | st.text("0123456789.+-E", max_size=5))
    changed = line[:begin] + change + line[end:]
    assert repr(list(log_format.parse(0, changed))) == repr(fresh(log_format, changed))


def test_a_layout_is_learnt_where_two_lines_in_a_row_have_it() -> None:
    """A layout (the order of the fields) is learnt as soon as two lines in a row have it.

    Only the last four layouts are kept.
    """
    *_, layouts = MEGATRON.parse.args  # type: ignore[attr-defined]
    learned_layouts = KnownLayouts(layouts._header, layouts._in_front, layouts._fields)
    names = [f"field {number}" for number in range(9)]
    for name in names:
        for expected in (None, None, "7"):
            runs = learned_layouts.read(f" iteration 7/ 9 | {name}: 1 | lm loss: 2.0 |")
            assert (runs and str(runs["iteration"])) == expected
            learned_layouts.learn(f" {name}: 1 | lm loss: 2.0 |")
    assert len(learned_layouts._layouts) == 4


def test_layouts_may_change_in_the_middle_of_a_log() -> None:
    """If the layout changes within a log, each line still gives the values that it gives alone."""
    lines = [line for log_format, line in LINES.values() if log_format is MEGATRON]
    shuffled = random.Random(0).choices(lines, k=200)
    for line in shuffled:
        assert list(MEGATRON.parse(0, line)) == fresh(MEGATRON, line)
