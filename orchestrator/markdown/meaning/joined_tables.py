"""All tables of a markdown page as one: the union of their columns, every row of each."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.common.tables import Cell
from orchestrator.markdown.document.headings import heading_above, headings, printed_text
from orchestrator.markdown.document.rows import Row
from orchestrator.markdown.document.tables import Table, read_document
from orchestrator.markdown.meaning.cells import (
    NUMBER,
    NotUnderstoodError,
    as_number,
    is_blank,
    read_count,
    read_pace,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import Column, Meaning, read_columns, without_markup
from orchestrator.markdown.meaning.notes import SIZES
from orchestrator.markdown.meaning.table_rows import Number, read_tables

# A number, with a unit and a remark beside it; not 05-26, which is a date, or 70-82, a range.
_NUMBER = re.compile(
    rf"[~≈]?\s?(?P<minus>[-\N{{MINUS SIGN}}]?)(?P<digits>{NUMBER})(?:e(?P<exponent>[+-]?\d\d?))?"
    r"\s?[a-zµ/%]*\s?(?:\(.*\))?",
    re.IGNORECASE,
)
_LONGEST = 100
# A title, and which of the columns of one table that have it.
_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A column: its title, what that means, and whether most of its cells are numbers."""

    title: str
    meaning: Meaning | None
    numeric: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRow:
    """A row: its line, the name of its table, its own name, and its cells in the joined columns.

    texts: as printed; empty where its table has no such column. values: what to sort by, a number
    where the cell is one, None where it is empty or a dash.
    numbers: sizes by meaning, those included that the page says beside the table.
    """

    line: int
    table: str
    name: str
    texts: tuple[str, ...]
    values: tuple[Cell, ...]
    numbers: Mapping[Meaning, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTables:
    """What a page holds: its first heading, how many tables, and their columns and rows."""

    title: str
    tables: int
    columns: tuple[JoinedColumn, ...]
    rows: tuple[JoinedRow, ...]


def join_tables(file: str, data: bytes) -> JoinedTables:
    """Return the tables of a markdown document as one; blank rows are left out.

    Columns come in the order in which their titles appear. Raises UserError where a comment sets
    what cannot be set.
    """
    document = read_document(data)
    names = table_names(data)
    columns: dict[_Key, Column] = {}
    places = []
    for table in document.tables:
        found = list(_keyed(table))
        for key, column in found:
            columns.setdefault(key, column)
        places.append([key for key, _ in found])
    known = {row.line: row for table in read_tables(file, data) for row in table.rows}
    rows = [
        JoinedRow(
            line=row.line,
            table=name,
            name=known[row.line].name if row.line in known else f"row {ordinal}",
            texts=tuple(printed_text(cells.get(key, "")) for key in columns),
            values=tuple(cell_value(one, cells.get(key, "")) for key, one in columns.items()),
            numbers=known[row.line].numbers if row.line in known else {},
        )
        for table, name, keys in zip(document.tables, names, places, strict=True)
        for ordinal, row in enumerate(_filled(table), 1)
        # Of a row with more cells than its table has columns the rest is shown nowhere.
        for cells in [dict(zip(keys, (cell.text for cell in row.cells), strict=False))]
    ]
    first = next((printed_text(one.text) for one in headings(data, document)), "")
    return JoinedTables(
        title=first,
        tables=len(document.tables),
        columns=tuple(
            JoinedColumn(
                title=printed_text(column.title) or "(no title)",
                meaning=column.meaning,
                numeric=_mostly_numbers([row.values[place] for row in rows]),
            )
            for place, column in enumerate(columns.values())
        ),
        rows=tuple(rows),
    )


def table_names(data: bytes) -> list[str]:
    """Return what each table of a document is called: the heading above it.

    Several below one heading are numbered, and so are those that have none.
    """
    document = read_document(data)
    found = headings(data, document)
    above = [printed_text(heading_above(one.header.line, found)) for one in document.tables]
    several, seen = Counter(above), Counter[str]()
    names = []
    for name in above:
        seen[name] += 1
        number = f"table {seen[name]}"
        names.append(number if not name else f"{name}, {number}" if several[name] > 1 else name)
    return names


def _keyed(table: Table) -> Iterator[tuple[_Key, Column]]:
    seen = Counter[str]()
    for column in read_columns([cell.text for cell in table.header.cells]):
        title = without_markup(column.title)
        seen[title] += 1
        yield (title, seen[title]), column


def _filled(table: Table) -> Iterator[Row]:
    return (row for row in table.rows if not all(is_blank(cell.text) for cell in row.cells))


def cell_value(column: Column, text: str) -> Cell:
    """Return what a cell is sorted by: its number where it is one, in the unit of its title.

    A size is a count of parameters. None where it is empty or a dash.
    """
    if is_blank(text) and not any(map(str.isalnum, text)):
        return None
    number = _known_number(column, text)
    return _plain_number(text) if number is None else number


def _known_number(column: Column, text: str) -> Cell:
    try:
        if column.meaning is Meaning.PARAMETERS:
            return read_parameters(text, column.unit)
        if column.meaning is Meaning.PACE:
            return read_pace(text, column.unit).value / (column.unit.scale if column.unit else 1)
        if column.meaning in SIZES:
            return read_count(text)
    except NotUnderstoodError:
        pass
    return None


def _plain_number(text: str) -> Cell:
    shown = printed_text(text)
    found = _NUMBER.fullmatch(shown) if len(shown) <= _LONGEST else None
    if found is None:
        return shown
    number = as_number(found["digits"]) * 10.0 ** int(found["exponent"] or 0)
    return -number if found["minus"] else number


def _mostly_numbers(values: Sequence[Cell]) -> bool:
    numbers = sum(isinstance(value, int | float) for value in values)
    return 2 * numbers > sum(value is not None for value in values)
