"""Tables of benchmarks as numbers with what they mean, for the rules that check them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.common.text import printable
from orchestrator.markdown.document.rows import Row
from orchestrator.markdown.document.tables import Table, read_document
from orchestrator.markdown.meaning.cells import (
    NUMBER,
    NotUnderstoodError,
    is_blank,
    read_count,
    read_pace,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import (
    Column,
    Meaning,
    is_ours,
    read_columns,
    without_markup,
)
from orchestrator.markdown.meaning.intervals import Printed, count, printed
from orchestrator.markdown.meaning.notes import SIZES, Note, read_notes
from orchestrator.markdown.meaning.units import Quantity

# The cells of a row that name it in a message, and how much of each.
_NAMING_CELLS, _NAMING_LENGTH = 2, 24
# Other ways to part a run over GPUs: where a table has one, tensor · pipeline · data is not all.
_OTHER_PARALLELISM = re.compile(
    r"(?:cp|ep|sp|etp|vpp|context|expert|sequence)[ _-]*(?:parallel\w*|size|degree)*"
    r"(?:[ _-]*(?:size|degree))?",
    re.IGNORECASE,
)
_TFLOPS = re.compile(rf"(?:{NUMBER})\s*(?:t(?:era)?flops?(?:/s)?)?\s*(?:\(.*\))?", re.IGNORECASE)
# A number that says itself that it is no exact one contradicts nothing.
_VAGUE = re.compile(r"[~≈≃±<>≤≥]|\+/?-|\b(?:about|approx|ca|circa)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a row: the title it stands under, its cell, and what is printed there.

    `line` is where a note beside the table says it, None where it stands in the row.
    `per_gpu` is true of rates that say that they are of one GPU.
    """

    title: str
    text: str
    printed: Printed
    line: int | None = None
    per_gpu: bool = False

    @property
    def whole(self) -> int:
        """The number, of a count."""
        return int(self.printed.value)

    @property
    def shown(self) -> str:
        """Title and cell, and where it is said if not in the row."""
        place = "" if self.line is None else f" (line {self.line})"
        return f"{self.title} {self.text}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedRow:
    """A row as it is printed: file and line, its name for people, its cells, and its numbers.

    `paces` are times per iteration and rates, the median alone in a report of ours;
    `is_parted_further` says that the table has other kinds of parallelism than tensor, pipeline and
    data.
    """

    file: str
    line: int
    name: str
    cells: tuple[str, ...]
    numbers: Mapping[Meaning, Number]
    paces: tuple[tuple[Quantity, Number], ...]
    is_parted_further: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table: titles without markup, the rows that are not blank, the GPU its page sets.

    is_ours: whether it is a report of ours.
    """

    is_ours: bool
    gpu: str | None
    titles: tuple[str, ...]
    rows: tuple[PrintedRow, ...]


def read_tables(file: str, data: bytes) -> list[PrintedTable]:
    """Return the tables of a markdown document, with what its page says of their rows.

    Raises UserError where a comment sets what cannot be set.
    """
    document = read_document(data)
    notes = read_notes(data, document)
    return [
        _table(printable(file), table, said.sizes, said.gpu)
        for table, said in zip(document.tables, notes, strict=True)
    ]


def _table(file: str, table: Table, notes: Mapping[Meaning, Note], gpu: str | None) -> PrintedTable:
    columns = read_columns([cell.text for cell in table.header.cells])
    titles = tuple(_plain(column.title) for column in columns)
    parted = any(_OTHER_PARALLELISM.fullmatch(title) for title in titles)
    filled = (row for row in table.rows if not all(is_blank(cell.text) for cell in row.cells))
    rows = (
        _row(file, row, columns, notes, _name(ordinal, row), is_parted_further=parted)
        for ordinal, row in enumerate(filled, 1)
        if len(row.cells) <= len(columns)
    )
    return PrintedTable(is_ours=is_ours(titles), gpu=gpu, titles=titles, rows=tuple(rows))


def _row(
    file: str,
    row: Row,
    columns: Sequence[Column],
    notes: Mapping[Meaning, Note],
    name: str,
    *,
    is_parted_further: bool,
) -> PrintedRow:
    texts = tuple(cell.text for cell in row.cells)
    # Two columns of one meaning: which of them is meant, nobody can tell.
    meanings = Counter(column.meaning for column in columns)
    numbers = {}
    for column, text in zip(columns, texts, strict=False):
        if column.meaning and meanings[column.meaning] == 1 and (number := _number(column, text)):
            numbers[column.meaning] = number
    paces = list(_paces(columns, texts))
    kinds = Counter((quantity, number.per_gpu) for quantity, number in paces)
    titled = {column.meaning for column in columns}
    return PrintedRow(
        file=file,
        line=row.line,
        name=name,
        cells=texts,
        numbers={**_said(notes, titled, numbers), **numbers},
        paces=tuple(pace for pace in paces if kinds[pace[0], pace[1].per_gpu] == 1),
        is_parted_further=is_parted_further,
    )


def _number(column: Column, text: str) -> Number | None:
    """Return the number in a cell, None where it holds none or it does not matter here."""
    found: Printed | None = None
    try:
        if column.meaning in SIZES:
            found = count(read_count(text))
        elif _VAGUE.search(text):
            return None
        elif column.meaning is Meaning.PARAMETERS:
            found = printed(text, read_parameters(text, column.unit))
        elif column.meaning is Meaning.TFLOPS_PER_GPU and _TFLOPS.fullmatch(_plain(text)):
            found = printed(text)
    except NotUnderstoodError:
        return None
    if found is None or not found.value:
        return None
    return Number(title=_plain(column.title), text=_plain(text), printed=found)


def _paces(columns: Sequence[Column], texts: Sequence[str]) -> Iterator[tuple[Quantity, Number]]:
    """Yield the paces of a row: of those that are ranked, the first that there is."""
    found: list[tuple[int, Quantity, Number]] = []
    for column, text in zip(columns, texts, strict=False):
        if column.meaning is Meaning.PACE and not _VAGUE.search(text):
            try:
                pace = read_pace(text, column.unit)
            except NotUnderstoodError:
                continue
            if number := printed(text, pace.value):
                title, cell = _plain(column.title), _plain(text)
                one = Number(title=title, text=cell, printed=number, per_gpu=pace.per_gpu)
                found.append((column.rank, pace.quantity, one))
    first = min((rank for rank, _, _ in found), default=0)
    yield from ((quantity, number) for rank, quantity, number in found if rank == first)


def _said(
    notes: Mapping[Meaning, Note],
    titled: set[Meaning | None],
    numbers: Mapping[Meaning, Number],
) -> dict[Meaning, Number]:
    """Return the numbers of notes, for what the table has no column of."""
    said = {}
    for meaning, note in notes.items():
        value = note.value
        if isinstance(value, Meaning):
            other = numbers.get(value)
            value = other.whole if other else 0
        if meaning not in titled and value:
            said[meaning] = Number(
                title=note.name, text=str(value), printed=count(value), line=note.line
            )
    return said


def _name(ordinal: int, row: Row) -> str:
    filled = [_plain(cell.text) for cell in row.cells if not is_blank(cell.text)]
    named = ", ".join(text[:_NAMING_LENGTH] for text in filled[:_NAMING_CELLS])
    return f"row {ordinal} ({named})"


def _plain(text: str) -> str:
    return printable(without_markup(text))
