"""Fit tables to the width of a terminal: no line is too wide, and no number is cut."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.fitted import fitted, fitted_text, wrapped
from orchestrator.common.tables import Column, Table, as_text, make_table, shown


def _column(name: str, *, minor: bool) -> Column[dict[str, Any]]:
    return Column(name, name, lambda row: row.get(name), minor=minor)


def table(rows: list[dict[str, Any]], *, minor: tuple[str, ...] = ()) -> Table:
    """Return a table with one row per dictionary in `rows`.

    The keys of the dictionaries are the titles of the columns. minor: the titles of minor columns.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column(name, minor=name in minor) for name in names]
    return make_table(columns, rows)


RUNS = [
    {"run_id": "abcd12345678", "label": "zero1 mb4", "n": 30, "state": "OOM", "x (GiB)": 1.5},
    {"run_id": "abff12345678", "label": "zero2 mb8", "n": 30, "state": "COMPLETED", "x (GiB)": 2.5},
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        pytest.param(
            RUNS,
            80,
            [
                "in all rows: n 30",
                "",
                "run_id        label      state          x",
                "                                    (GiB)",
                "------------  ---------  ---------  -----",
                "abcd12345678  zero1 mb4  OOM        1.500",
                "abff12345678  zero2 mb8  COMPLETED  2.500",
            ],
            id="equal columns are printed once",
        ),
        pytest.param(
            RUNS,
            36,
            [
                "in all rows: n 30",
                "",
                "run_id  label      state          x",
                "                              (GiB)",
                "------  ---------  ---------  -----",
                "abcd    zero1 mb4  OOM        1.500",
                "abff    zero2 mb8  COMPLETED  2.500",
            ],
            id="ids are shortened",
        ),
        pytest.param(
            [{"a": 1, "why": "one two three four five", "b": None}, {"a": 2, "why": "six"}],
            20,
            [
                "a  why",
                "-  -----------------",
                "1  one two three",
                "   four five",
                "2  six",
            ],
            id="texts wrap and empty columns go",
        ),
        pytest.param(
            [
                {"a": 1, "TFLOPs/GPU": 52.5, "tokens/s": 7},
                {"a": 2, "TFLOPs/GPU": 1.5, "tokens/s": 8},
            ],
            20,
            [
                "a  TFLOPs/  tokens/s",
                "       GPU",
                "-  -------  --------",
                "1    52.50         7",
                "2    1.500         8",
            ],
            id="titles wrap at a slash before a word",
        ),
    ],
)
def test_a_table_fits_the_terminal(
    rows: list[dict[str, Any]], width: int, expected: list[str]
) -> None:
    """A table that is too wide is made narrower in several ways, one after the other.

    E.g. ids are shortened, empty columns are left out, and texts wrap.
    """
    assert fitted(table(rows), width).lines() == expected


def test_a_single_row_that_is_too_wide_has_a_line_for_each_column() -> None:
    """A row that is too wide is printed as one line per column; texts wrap next to their titles."""
    only = table([{"step time (s)": 0.5, "log": "one two three", "loss": 3.25}])
    assert fitted(only, 23).lines() == [
        "step time (s)  0.5000",
        "log            one two",
        "               three",
        "loss           3.250",
    ]


def test_minor_columns_are_left_out_first_and_named() -> None:
    """If a table is too wide, its minor columns are left out first, from right to left.

    If it is still too wide, other columns are left out, but never the first one. A note names all
    columns that are left out.
    """
    rows = [{"label": f"run {n}", **{f"column{k}": n * 1000 + k for k in range(8)}} for n in (1, 2)]
    lines = fitted(table(rows, minor=("column1", "column3")), 50).lines()
    assert lines[0].split() == ["label", *(f"column{n}" for n in (0, 2, 4, 5, 7))]
    assert lines[-2:] == [
        "not shown: column1, column3, column6; `--wide`",
        "shows all columns",
    ]


def test_a_column_that_is_cut_has_one_line_for_each_row() -> None:
    """In a column that may be cut, a text that is too long ends with "…" after one line.

    Text in other columns wraps at spaces, slashes and plus signs.
    """
    columns = [_column("label", minor=False), replace(_column("why", minor=False), cut=True)]
    rows = [
        {"label": "optimizer+parameters on the CPU", "why": "Requested nodes are busy: n01"},
        {"label": "a/b", "why": "out of memory"},
    ]
    assert fitted(make_table(columns, rows), 36).lines() == [
        "label              why",
        "-----------------  -----------------",
        "optimizer+         Requested nodes …",
        "parameters on the",
        "CPU",
        "a/b                out of memory",
    ]


def test_a_pipe_gets_the_whole_table() -> None:
    """Output to a pipe has the whole table, however wide the terminal is."""
    wide = table([{"label": "x" * 300, "n": 1}, {"label": "y", "n": 1}])
    assert fitted_text(wide, None) == as_text(wide)


CELLS = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**9),
    st.floats(-1e12, 1e12),
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60),
)


@given(
    st.lists(st.fixed_dictionaries(dict.fromkeys("abcdef", CELLS)), min_size=1, max_size=5),
    st.integers(60, 120),
)
def test_no_line_is_wider_and_no_number_is_cut(rows: list[dict[str, Any]], width: int) -> None:
    """The lines contain each number in full, or a note names its column as not shown."""
    made = table(rows)
    lines = fitted(made, width).lines()
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    hidden = re.search(r"not shown: ([a-f, ]+);", text)
    left_out = hidden[1].split(", ") if hidden else []
    for row in rows:
        for name, cell in row.items():
            if isinstance(cell, int | float) and name not in left_out:
                assert shown(cell) in text


@given(st.lists(st.sampled_from(["word", "`teralog plan a.yaml`", "longer-word"]), max_size=30))
def test_a_command_in_a_sentence_stays_on_its_line(words: list[str]) -> None:
    """A command in a sentence is not wrapped, so that the user can copy it."""
    sentence = " ".join(words)
    lines = wrapped(sentence, 40)
    assert " ".join(lines) == sentence
    assert all(line.count("`") % 2 == 0 and len(line) <= 40 for line in lines)
