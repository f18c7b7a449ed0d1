"""One table in several formats: alignment, numbers, absent values and escaped text."""

import csv
import io
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.tables import (
    DASH,
    EXACT,
    Cell,
    Column,
    Style,
    Table,
    as_csv,
    as_markdown,
    as_records,
    as_text,
    escape_markdown,
    make_table,
    shown,
)

SHORT = Style(digits=3)

CELLS: list[tuple[Cell, Style, str]] = [
    (None, Style(), DASH),
    ("", Style(), DASH),
    ("zero3", Style(), "zero3"),
    (12, Style(), "12"),
    (0, Style(), "0"),
    (123456789, Style(), "123456789"),
    # Four significant digits, including those after the point.
    (0.0, Style(), "0"),
    (1.0, Style(), "1.000"),
    (0.5, Style(), "0.5000"),
    (12.3456, Style(), "12.35"),
    (-12.3456, Style(), "-12.35"),
    (999.96, Style(), "1000"),
    (9999.0, Style(), "9999"),
    (9999.6, Style(), "10,000"),
    (-9999.6, Style(), "-10,000"),
    (12345.6, Style(), "12,346"),
    (1234567.8, Style(), "1,234,568"),
    (0.00012345, Style(), "0.0001234"),
    (0.000012345, Style(), "1.234e-05"),
    (0.00009999999, Style(), "0.0001000"),
    (0.999996, Style(), "1.000"),
    (1.5, SHORT, "1.50"),
    (99.96, SHORT, "100"),
    (999.6, SHORT, "1,000"),
    # Exact numbers have no padding zeros.
    (1.0, EXACT, "1"),
    (0.5, EXACT, "0.5"),
    (1.5576112, EXACT, "1.558"),
    (0.000136, EXACT, "0.000136"),
    (2400.0, EXACT, "2,400"),
    (19200.0, EXACT, "19,200"),
    (1234567.8, EXACT, "1,234,568"),
    # Texts of a log stay unchanged.
    (math.nan, Style(), "nan"),
    (math.inf, Style(), "inf"),
    (-math.inf, EXACT, "-inf"),
]


@pytest.mark.parametrize(("value", "style", "cell"), CELLS)
def test_a_cell_shows_its_value(value: Cell, style: Style, cell: str):
    """An absent value is a dash, nan is nan, and a number has its significant digits."""
    assert shown(value, style) == cell


@given(st.floats(1e-12, 1e15), st.integers(1, 6))
def test_a_number_is_shown_to_its_digits(value: float, digits: int):
    """A number that is shown with n digits has a relative error of at most 0.5 * 10**(1 - n)."""
    cell = shown(value, Style(digits=digits))
    assert float(cell.replace(",", "")) == pytest.approx(value, rel=0.5000001 * 10 ** (1 - digits))
    assert "e+" not in cell


TABLE = make_table(
    (
        Column("strategy", "strategy", lambda row: row[0]),
        Column("step mean (s)", "step_seconds_mean", lambda row: row[1], SHORT),
        Column("n", "reports", lambda row: row[2]),
    ),
    [("ddp", 0.25, 10), ("zero3 | `x`", None, None), ("<script>", math.nan, 5)],
)
EMPTY = Table(("a", "b"), ("a", "b"), (Style(), Style()), ())


def test_text_is_aligned_numbers_to_the_right():
    """In text output, units are on a line below the titles, and nothing is escaped."""
    assert as_text(TABLE).splitlines() == [
        "strategy     step mean   n",
        "                   (s)",
        "-----------  ---------  --",
        "ddp              0.250  10",
        "zero3 | `x`          —   —",
        "<script>           nan   5",
    ]


def test_markdown_is_aligned_and_its_text_is_escaped():
    """A pipe, a backtick or a tag in a cell is shown as text, and is not markup."""
    assert as_markdown(TABLE).splitlines() == [
        "| strategy       | step mean (s) |  n |",
        "|:---------------|--------------:|---:|",
        "| ddp            |         0.250 | 10 |",
        "| zero3 \\| \\`x\\` |             — |  — |",
        "| \\<script\\>     |           nan |  5 |",
    ]


def test_csv_has_full_precision_and_empty_cells_for_what_is_absent():
    """The header of CSV has the names of the columns, e.g. `seconds`, and not their titles.

    Only cells that need quotes have them. Numbers have all their digits. An absent value is an
    empty cell.
    """
    table = make_table(
        (
            Column("Title", "name", lambda row: row[0]),
            Column("x (s)", "seconds", lambda row: row[1]),
        ),
        [('a "quoted", b', 0.1 + 0.2), ("c | d", None), ("<script>", math.nan)],
    )
    assert as_csv(table) == (
        'name,seconds\n"a ""quoted"", b",0.30000000000000004\nc | d,\n<script>,nan\n'
    )


def test_records_have_the_values_by_name():
    """`as_records` returns the values themselves by column name, not the text of their cells."""
    assert as_records(TABLE)[:2] == [
        {"strategy": "ddp", "step_seconds_mean": 0.25, "reports": 10},
        {"strategy": "zero3 | `x`", "step_seconds_mean": None, "reports": None},
    ]


def test_a_table_without_rows_has_its_titles():
    """A table without rows has its titles in every format."""
    assert as_text(EMPTY).split() == ["a", "b", "-", "-"]
    assert as_markdown(EMPTY).splitlines()[0].split() == ["|", "a", "|", "b", "|"]
    assert as_csv(EMPTY) == "a,b\n"
    assert as_records(EMPTY) == []


ESCAPED = {
    "zero3": "zero3",
    "a|b": r"a\|b",
    "`rm -rf`": r"\`rm -rf\`",
    "<script>alert(1)</script>": r"\<script\>alert(1)\</script\>",
    "*bold*": r"\*bold\*",
    "_emphasis_": r"\_emphasis\_",
    "micro_batch_size=4": "micro_batch_size=4",
    "[text](url)": r"\[text\](url)",
    "back\\slash": r"back\\slash",
    "# heading": r"\# heading",
    "run #1": "run #1",
}


@pytest.mark.parametrize("text", ESCAPED)
def test_markdown_shows_text_as_it_is(text: str):
    """In markdown, only characters that would be markup are escaped."""
    assert escape_markdown(text) == ESCAPED[text]


printable = st.text(st.characters(codec="utf-8")).filter(str.isprintable)


@given(printable)
def test_escaping_loses_nothing_and_lets_no_markup_through(text: str):
    """Removing the backslashes from escaped text gives the original text.

    Every pipe, backtick, "<", "*" and "[" in escaped text has a backslash before it.
    """
    escaped = escape_markdown(text)
    assert re.sub(r"\\(.)", r"\1", escaped) == text
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`<*\[]", escaped)


@given(st.lists(st.tuples(printable, st.none() | st.integers() | st.floats()), max_size=4))
def test_no_cell_breaks_a_markdown_table(rows: list[tuple[str, float | None]]):
    """A markdown table has one line per row, and equally many unescaped pipes in each line."""
    columns = (Column("a", "a", lambda row: row[0]), Column("b", "b", lambda row: row[1]))
    lines = as_markdown(make_table(columns, rows)).splitlines()
    assert len(lines) == 2 + len(rows)
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3 for line in lines)


@given(st.lists(st.tuples(printable, st.none() | st.floats(allow_nan=False))))
def test_csv_is_read_back_unchanged(rows: list[tuple[str, float | None]]):
    """Commas and quotes in texts, and all digits of numbers, are read back from CSV unchanged."""
    columns = (Column("A", "a", lambda row: row[0]), Column("B", "b", lambda row: row[1]))
    text = as_csv(make_table(columns, rows))
    header, *read = csv.reader(io.StringIO(text, newline=""))
    assert header == ["a", "b"]
    assert [text for text, _ in read] == [text for text, _ in rows]
    assert [float(cell) if cell else None for _, cell in read] == [number for _, number in rows]
