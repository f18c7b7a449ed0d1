"""Combine all tables of a page into one table with the rows of all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.columns import Meaning, read_columns
from orchestrator.markdown.meaning.joined_tables import JoinedTables, cell_value, join_tables

PUBLISHED = Path(__file__).parents[4] / "results" / "published"

PAGE = """\
# Speed of `it`

## Small

- TP = 2

| GPUs | **TFLOPs** |
|---|---|
| 8 | 30.0 |
| | |
| 16 | 29 | one cell more |

## Large

| TFLOPs | Notes | GPUs |
|---|---|---|
| | OOM | 8 |
| *31* |
"""


def joined(text: str) -> JoinedTables:
    """Return the table that combines all tables of a page."""
    return join_tables(read_page(text.encode()))


def texts_of_rows(tables: JoinedTables) -> list[tuple[str, ...]]:
    """Return the text of each cell as a reader sees it, row by row."""
    return list(zip(*(column.texts for column in tables.columns), strict=True))


def test_columns_are_joined_by_title_in_the_order_of_their_first_table():
    """Columns with equal titles become one column, in the order of the first table that has them.

    The joined column has the meaning of its title.
    """
    tables = joined(PAGE)
    assert (tables.title, tables.tables) == ("Speed of it", 2)
    assert [(column.title, column.meaning, column.is_numeric) for column in tables.columns] == [
        ("GPUs", Meaning.WORLD_SIZE, True),
        ("TFLOPs", Meaning.TFLOPS_PER_GPU, True),
        ("Notes", Meaning.NOTES, False),
    ]


def test_a_size_with_several_titles_is_one_column():
    """Columns with the same meaning but different titles become one, e.g. `GPUs` and `NGPUs`.

    A column with a unit in its title stays separate.
    """
    page = """
| GPUs | Mic-BS | PP Chunks | Size (B) |
|---|---|---|---|
| 8 | 1 | 4 | 7 |

| NGPUs | MBS | GAS | Size |
|---|---|---|---|
| 16 | 2 | 8 | 13B |
"""
    tables = joined(page)
    titles = [column.title for column in tables.columns]
    assert titles == ["GPUs / NGPUs", "Mic-BS / MBS", "PP Chunks / GAS", "Size (B)", "Size"]
    assert texts_of_rows(tables) == [("8", "1", "4", "7", ""), ("16", "2", "8", "", "13B")]


def test_every_row_is_there_but_blank_ones():
    """Each row except blank ones is kept, even a row with too many or too few cells."""
    tables = joined(PAGE)
    lines = [row.line for row in tables.rows]
    assert list(zip(lines, tables.table_names, texts_of_rows(tables), strict=True)) == [
        (9, "Small", ("8", "30.0", "")),
        (11, "Small", ("16", "29", "")),
        (17, "Large", ("8", "", "OOM")),
        (18, "Large", ("", "31", "")),
    ]
    assert [row.name for row in tables.rows][:2] == ["row 1 (8, 30.0)", "row 2"]
    assert [column.values[2] for column in tables.columns] == [8, None, "OOM"]


def test_sizes_next_to_a_table_hold_for_its_rows():
    """A size that the page gives outside a table holds for each row of the table.

    The size in the row's data has the number of the line on which the page gives it.
    """
    first, _, other, _ = joined(PAGE).rows
    size = first.numbers[Meaning.TENSOR_PARALLEL_SIZE]
    assert (size.whole, size.line) == (2, 5)
    assert Meaning.TENSOR_PARALLEL_SIZE not in other.numbers


def test_two_columns_of_one_title_stay_two():
    """If a table has two columns with equal titles, they are not combined into one."""
    tables = joined("|time|time|\n|-|-|\n|1|2|\n")
    assert [column.title for column in tables.columns] == ["time", "time"]
    assert texts_of_rows(tables) == [("1", "2")]


TABLE = "\n|a|\n|-|\n|1|\n\n"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (f"## A\n{TABLE}## B\n{TABLE}", ["A", "B"]),
        (f"## A\n{TABLE}{TABLE}## B\n{TABLE}", ["A, table 1", "A, table 2", "B"]),
        (f"## A\n{TABLE}## A\n{TABLE}", ["A, table 1", "A, table 2"]),
        (f"{TABLE}{TABLE}", ["table 1", "table 2"]),
        (f"## **A** <i>\n{TABLE}", ["A <i>"]),
    ],
)
def test_a_table_is_called_as_its_heading(page: str, names: list[str]):
    """If two tables have the same heading, a number follows the heading."""
    assert [table.name for table in read_page(page.encode()).tables] == names


@pytest.mark.parametrize(
    ("title", "text", "value"),
    [
        ("Size", "7.5B", 7_500_000_000),
        ("Size", "350M", 350_000_000),
        ("Step time (s)", "~129 s", 129.0),
        ("Step time (ms)", "500", 500.0),
        ("Throughput", "104 samples/s", 104.0),
        ("Throughput (samples/s)", "89(↓14.4%)", 89.0),
        ("GPUs", "16x8", 128),
        ("GPUs", "1,024", 1024),
        ("Seq", "4096", 4096),
        ("Seq", "8K", 8192),
        ("Seq (K)", "8", 8192),
        ("Seq (K)", "8K", 8192),
        ("ZeRO stage", "0", 0.0),
        ("TFLOPs", "23.2 TFLOPs", 23.2),
        ("TFLOPs", "OOM", "OOM"),
        ("Memory (MB)", "3849(-1754,↓31.3%)", 3849.0),
        ("loss", "-1.5e-3", -0.0015),
        ("utilization (%)", "73%", 73.0),
        ("utilization (%)", "70-82", "70-82"),
        ("Date", "05-26", "05-26"),
        ("Date", "2020-12-08", "2020-12-08"),
        ("offload", "none", "none"),
        ("offload", "**yes**", "yes"),
        ("offload", "—", None),
        ("offload", "", None),
        ("GPUs", "?", None),
    ],
)
def test_a_cell_is_sorted_by_its_number(title: str, text: str, value: object):
    """Cells with a number are sorted by it, others by text; absent values come last."""
    (column,) = read_columns([title])
    key = cell_value(column, text)
    assert key == (pytest.approx(value) if isinstance(value, float) else value)


@given(st.sampled_from(["Size", "GPUs", "Seq (K)", "Time", "TFLOPs", "x"]), st.text())
def test_any_text_has_a_place_in_the_order(title: str, text: str):
    """Cells with any text can be sorted."""
    (column,) = read_columns([title])
    assert isinstance(cell_value(column, text), str | int | float | None)


@given(st.binary())
def test_any_bytes_are_a_page(data: bytes):
    """Any bytes can be read as a page, perhaps one without a table."""
    tables = join_tables(read_page(b"|a|b|\n|-|-|\n|1|" + data))
    assert len(tables.rows) == len(tables.table_names)
    for column in tables.columns:
        assert len(column.texts) == len(column.values) == len(tables.rows)


@pytest.mark.parametrize("page", sorted(PUBLISHED.glob("[!R]*.md")), ids=lambda path: path.stem)
def test_every_cell_of_the_published_pages_is_there_as_printed(page: Path):
    """After the tables of a published page are joined, every cell is there, as printed."""
    tables = joined(page.read_text(encoding="utf-8"))
    lines = page.read_text(encoding="utf-8").splitlines()
    for row, texts in zip(tables.rows, texts_of_rows(tables), strict=True):
        printed = [cell.strip() for cell in lines[row.line - 1].strip("|").split("|")]
        assert sorted(filter(None, texts)) == sorted(printed)
