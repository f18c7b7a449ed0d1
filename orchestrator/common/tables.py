"""Build a table from columns, and render it as text, markdown, CSV or JSON."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from orchestrator.common.text import printable

DASH = "—"

Cell = str | int | float | None
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Style:
    """How to show floats in a column.

    digits: the number of significant digits. exact: whether to leave out trailing zeros.
    """

    digits: int = 4
    exact: bool = False


MEASURED = Style()
EXACT = Style(exact=True)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table, for rows of any type.

    title: the column's name for people. name: its name in JSON and CSV. value: a function that
    returns the cell, given the row.
    minor: whether the column is left out first if a terminal is too narrow. cut: whether long texts
    are cut to one line on a narrow terminal; in other columns, long texts wrap.
    """

    title: str
    name: str
    value: Callable[[Row], Cell]
    style: Style = MEASURED
    minor: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the titles, names and styles of its columns, and the values of its cells, by row.

    changes: texts to show after a cell, e.g. `(↓31.3%)`, by the indices of its row and column.
    breaks: the indices of the rows with a gap above them in markdown and LaTeX. minor: for each
    column, whether it is left out first if a terminal is too narrow; empty if no column is minor.
    cut: the names of the columns whose long texts are cut to one line on a narrow terminal.
    """

    titles: tuple[str, ...]
    names: tuple[str, ...]
    styles: tuple[Style, ...]
    rows: tuple[tuple[Cell, ...], ...]
    changes: Mapping[tuple[int, int], str] = field(default_factory=dict)
    breaks: frozenset[int] = frozenset()
    minor: tuple[bool, ...] = ()
    cut: frozenset[str] = frozenset()


def make_table(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """Return a table with these columns, and with a row for each of `rows`."""
    return Table(
        tuple(column.title for column in columns),
        tuple(column.name for column in columns),
        tuple(column.style for column in columns),
        tuple(tuple(column.value(row) for column in columns) for row in rows),
        minor=tuple(column.minor for column in columns),
        cut=frozenset(column.name for column in columns if column.cut),
    )


def records_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of JSON records: a row per record, a column per name that any record contains.

    A list or a mapping becomes JSON text. These names are also the titles of the columns.
    """
    names = tuple(dict.fromkeys(name for record in records for name in record))
    return Table(
        names,
        names,
        (EXACT,) * len(names),
        tuple(tuple(_as_cell(record.get(name)) for name in names) for record in records),
    )


def _as_cell(value: Any) -> Cell:
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value, ensure_ascii=False)
    cell: Cell = value
    return cell


def as_text(table: Table) -> str:
    """Return the table for a terminal or a pipe: aligned, numbers to the right."""
    # Titles with a unit take two lines; otherwise the tables of reports would fit no terminal.
    titles = tuple(title.replace(" (", "\n(") for title in table.titles)
    return _tabulate(replace(table, titles=titles, breaks=frozenset()), "simple")


def as_markdown(table: Table) -> str:
    """Return the table as markdown, with escaped text in cells.

    An empty row is above each row in `breaks`, to separate groups of rows.
    """
    return _tabulate(table, "pipe", escape=escape_markdown)


def numeric_columns(table: Table) -> list[bool]:
    """Return for each column whether it contains numbers, which are right-aligned."""
    return [
        any(isinstance(row[index], (int, float)) for row in table.rows)
        for index in range(len(table.titles))
    ]


def as_csv(table: Table) -> str:
    """Return the table as CSV with full precision, names as header, absent cells empty."""
    lines: list[str] = []
    for row in (table.names, *table.rows):
        text = io.StringIO(newline="")
        # The writer quotes a carriage return in a cell only if its own line ends contain one.
        csv.writer(text, lineterminator="\r\n").writerow(row)
        lines.append(text.getvalue().removesuffix("\r\n"))
    return "\n".join((*lines, ""))


def as_records(table: Table) -> list[dict[str, Any]]:
    """Return one object per row, with the columns' names as keys and full precision."""
    return [dict(zip(table.names, row, strict=True)) for row in table.rows]


def shown_rows(table: Table) -> list[list[str]]:
    """Return the cells of every row as text.

    If the table has a change for a cell, e.g. `(↓31.3%)`, the change is added after the value.
    """
    return [
        [
            shown(cell, style) + table.changes.get((at, column), "")
            for column, (cell, style) in enumerate(zip(row, table.styles, strict=True))
        ]
        for at, row in enumerate(table.rows)
    ]


def shown(value: Cell, style: Style = MEASURED) -> str:
    """Return a value as text for a cell; an absent value as a dash."""
    if value is None or value == "":
        return DASH
    return _number(value, style) if isinstance(value, float) else printable(str(value))


def _number(value: float, style: Style) -> str:
    digits = style.digits
    rounded = abs(float(f"{value:.{digits - 1}e}"))
    if math.isfinite(value) and rounded >= 10**digits:
        return f"{value:,.0f}"
    if style.exact or value == 0 or not math.isfinite(value):
        return f"{value:,.{digits}g}"
    if rounded < 1e-4:  # Python's g also uses exponents here
        return f"{value:.{digits - 1}e}"
    return f"{value:#.{digits}g}".removesuffix(".")


def _tabulate(table: Table, layout: str, escape: Callable[[str], str] = lambda text: text) -> str:
    import tabulate

    # Two blanks between columns are enough; tabulate gives headers two more.
    tabulate.MIN_PADDING = 0
    numeric = numeric_columns(table)
    cells = [[escape(text) for text in row] for row in shown_rows(table)]
    for row in sorted(table.breaks, reverse=True):
        cells.insert(row, [""] * len(numeric))
    return tabulate.tabulate(
        cells,
        headers=table.titles,
        tablefmt=layout,
        disable_numparse=True,
        colalign=["right" if number else "left" for number in numeric] if cells else None,
    )


# An underscore within a word is text as it is; a # makes a heading only at the start.
_MARKDOWN = re.compile(r"[\\|`*<>\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^#")


def escape_markdown(text: str) -> str:
    """Return text with markdown's special characters escaped."""
    return _MARKDOWN.sub(r"\\\g<0>", text)
