"""Join all tables of a markdown page: all columns, and every row of each table."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.common.tables import Cell
from orchestrator.markdown.document.printed_text import printed_text
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkPage
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkColumns, BenchmarkRow
from orchestrator.markdown.meaning.cells import (
    NUMERAL,
    NotUnderstoodError,
    as_number,
    is_blank,
    read_count,
    read_length,
    read_pace,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import Meaning, TableColumn, without_markup
from orchestrator.markdown.meaning.notes import SIZES

# A number, with a unit and a remark next to it; not 05-26, which is a date, or 70-82, a range.
_NUMBER = re.compile(
    rf"[~≈]?\s?(?P<minus>[-\N{{MINUS SIGN}}]?)(?P<digits>{NUMERAL})(?:e(?P<exponent>[+-]?\d\d?))?"
    r"\s?[a-zµ/%]*\s?(?:\(.*\))?",
    re.IGNORECASE,
)
_LONGEST = 100
# A title or a size, and a number that counts the columns of a table with this title or size.
_Key = tuple[str | Meaning, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A column: its title, its meaning, and its cell in every row.

    texts: as printed; empty if the row's table has no such column. values: for sorting; a number if
    the cell contains a number, None if the cell is empty or a dash, otherwise its text.
    """

    title: str
    meaning: Meaning | None
    texts: tuple[str, ...]
    values: tuple[Cell, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether most cells of the column are numbers; cells without a value do not count."""
        numbers = sum(isinstance(value, int | float) for value in self.values)
        return 2 * numbers > sum(value is not None for value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTables:
    """The rows and columns of all tables of a page, joined into one table.

    title: the page's title. tables: how many tables the page has. table_names: for each row, the
    name of the table that contains it on the page.
    """

    title: str
    tables: int
    table_names: tuple[str, ...]
    rows: tuple[BenchmarkRow, ...]
    columns: tuple[JoinedColumn, ...]


def join_tables(page: BenchmarkPage) -> JoinedTables:
    """Join the tables of a page into one.

    Columns are in the order in which their titles appear. Two columns that contain the same size
    under different titles, such as PP Chunks and GAS, become one column with both titles.
    """
    first: dict[_Key, TableColumn] = {}
    titles: dict[_Key, dict[str, None]] = {}
    cells: list[dict[_Key, str]] = []
    for table in page.tables:
        keyed = list(_keyed(table.columns))
        for key, column in keyed:
            first.setdefault(key, column)
            titles.setdefault(key, {})[printed_text(column.title) or "(no title)"] = None
        cells += ({key: row.text(column) for key, column in keyed} for row in table.rows)
    return JoinedTables(
        title=page.title,
        tables=len(page.tables),
        table_names=tuple(table.name for table in page.tables for _ in table.rows),
        rows=tuple(row for table in page.tables for row in table.rows),
        columns=tuple(
            _joined(" / ".join(titles[key]), column, [texts.get(key, "") for texts in cells])
            for key, column in first.items()
        ),
    )


def _keyed(columns: BenchmarkColumns) -> Iterator[tuple[_Key, TableColumn]]:
    seen = Counter[str | Meaning]()
    for column in columns.in_order:
        # A column with a unit in its title is joined only with columns of the same title.
        is_size = column.meaning in SIZES and column.unit is None
        name = column.meaning if is_size and column.meaning else without_markup(column.title)
        seen[name] += 1
        yield (name, seen[name]), column


def _joined(title: str, column: TableColumn, texts: Sequence[str]) -> JoinedColumn:
    return JoinedColumn(
        title=title,
        meaning=column.meaning,
        texts=tuple(map(printed_text, texts)),
        values=tuple(cell_value(column, text) for text in texts),
    )


def cell_value(column: TableColumn, text: str) -> Cell:
    """Return the value of a cell for sorting: a number in the title's unit, or its text.

    For a model size, the number is the number of parameters, and for a sequence length, the number
    of tokens. Returns None if the cell is empty or a dash.
    """
    if is_blank(text) and not any(map(str.isalnum, text)):
        return None
    number = _known_number(column, text)
    return _plain_number(text) if number is None else number


def _known_number(column: TableColumn, text: str) -> Cell:
    try:
        if column.meaning is Meaning.PARAMETERS:
            return read_parameters(text, column.unit)
        if column.meaning is Meaning.PACE:
            return read_pace(text, column.unit).value / (column.unit.scale if column.unit else 1)
        if column.meaning is Meaning.SEQ_LENGTH:
            return read_length(text, column.unit)
        if column.meaning in SIZES:
            return read_count(text)
    except NotUnderstoodError:
        pass
    return None


def _plain_number(text: str) -> Cell:
    shown = printed_text(text)
    match = _NUMBER.fullmatch(shown) if len(shown) <= _LONGEST else None
    if match is None:
        return shown
    number = as_number(match["digits"]) * 10.0 ** int(match["exponent"] or 0)
    return -number if match["minus"] else number
