"""One table's computed columns: the edits that make them right."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.markdown.document.rows import Row, cell_text
from orchestrator.markdown.document.tables import Edit, Table
from orchestrator.markdown.meaning.benchmark_rows import (
    BenchmarkColumns,
    BenchmarkRow,
    NotInTableError,
)
from orchestrator.markdown.meaning.cells import NotUnderstoodError, tells_failure
from orchestrator.markdown.meaning.columns import Column, Meaning, read_columns
from orchestrator.markdown.meaning.settings import Settings
from orchestrator.markdown.regenerate.cells import ColumnForm, common_form
from orchestrator.markdown.regenerate.columns import COMPUTED, Computed

_DIGIT = re.compile(rb"[0-9]")
_TFLOPS = COMPUTED["tflops"]
# More TFLOPs, or tokens per second, than anything has: the row says something else than we think.
_ABSURD = 1e12


class Remark(NamedTuple):
    """A sentence about a line of the page."""

    line: int
    text: str


class Change(NamedTuple):
    """A cell that held `old`, and is to hold `new`."""

    line: int
    title: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegeneratedTable:
    """What is to be done with a table; a page adds up those of its tables.

    edits: in their order.
    changes: the cells that are not what they were, those of new columns left out.
    rows: how many rows were computed; new_columns: how many columns were not there.
    unclear: rows that look like results and are not understood, and why; or the whole table.
    notes: what a reader should know that is no fault.
    """

    edits: list[Edit] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    rows: int = 0
    new_columns: int = 0
    unclear: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)


class _Target(NamedTuple):
    """A column to be computed: one of the table, or a new one."""

    computed: Computed
    column: Column | None


class _Result(NamedTuple):
    """A row, and what each target is to hold: nothing where the row holds no result."""

    row: Row
    raws: list[bytes]
    values: tuple[float, ...]


def regenerate_table(table: Table, settings: Settings, add: Sequence[str]) -> RegeneratedTable:
    """Return the edits of a table. Raises UserError where a GPU's peak is needed and not known."""
    line = table.header.line
    benchmark = BenchmarkColumns.of(
        read_columns([cell.text for cell in table.header.cells]), settings.constants
    )
    unclear: list[Remark] = []
    try:
        targets = _targets(benchmark, add)
        results = _results(table, benchmark, targets, settings, unclear) if targets else []
    except NotInTableError as error:
        if not _looks_like_a_benchmark(benchmark):
            return RegeneratedTable()
        return RegeneratedTable(unclear=[Remark(line, f"{error}; the table is left as it is")])
    rows = sum(bool(one.values) for one in results)
    new = [number for number, target in enumerate(targets) if target.column is None and rows]
    made = RegeneratedTable(unclear=unclear, rows=rows, new_columns=len(new))
    for number, (computed, column) in enumerate(targets):
        if column is not None:
            decimals = settings.decimals if computed is _TFLOPS else None
            form = _column_form(table, results, computed, column, decimals)
            _regenerate_column(number, column, form, results, made)
    if new:
        titles = [(number, targets[number].computed) for number in new]
        made.edits.extend(_new_columns(table, results, titles, _last_column(benchmark)))
    made.notes.extend(
        Remark(line, f"{column.title!r} is left as it is: it says what was reported")
        for column in benchmark.columns.get(Meaning.REPORTED_TFLOPS, ())
        if rows
    )
    made.edits.sort()
    made.unclear.sort()
    return made


def _targets(benchmark: BenchmarkColumns, add: Sequence[str]) -> list[_Target]:
    columns = [column for columns in benchmark.columns.values() for column in columns]
    targets = []
    for name in dict.fromkeys(("tflops", *add)):
        computed = COMPUTED[name]
        match [column for column in columns if computed.is_in(column)]:
            case [first, second, *_]:
                titles = f"{first.title!r} and {second.title!r}"
                hint = ": say Reported in the title of one" if computed is _TFLOPS else ""
                raise NotInTableError(f"{titles} both hold {computed.title}{hint}")
            case [column]:
                targets.append(_Target(computed, column))
            case [] if name in add:
                targets.append(_Target(computed, None))
    return targets


def _looks_like_a_benchmark(benchmark: BenchmarkColumns) -> bool:
    columns = benchmark.columns
    return Meaning.TFLOPS_PER_GPU in columns or (
        Meaning.PACE in columns
        and bool(columns.keys() & {Meaning.PARAMETERS, Meaning.MODEL, Meaning.GLOBAL_BATCH_SIZE})
    )


def _results(
    table: Table,
    benchmark: BenchmarkColumns,
    targets: Sequence[_Target],
    settings: Settings,
    unclear: list[Remark],
) -> list[_Result]:
    """Return every row with its values; what is not understood is added to `unclear`."""
    telling = {column.index for _, column in targets if column}
    telling |= {column.index for column in benchmark.columns.get(Meaning.PACE, ())}
    results = []
    for row in table.rows:
        raws = row.raw_cells
        told = [raws[index] for index in telling if index < len(raws)]
        values: tuple[float, ...] = ()
        # What has no number holds no result: blank rows, separators, OOM.
        if any(map(_DIGIT.search, told)):
            try:
                values = _values(row, raws, benchmark, targets, settings)
            except NotInTableError:
                raise
            except NotUnderstoodError as error:
                if not any(map(_tells_failure, told)):
                    unclear.append(Remark(row.line, str(error)))
        results.append(_Result(row, raws, values))
    return results


def _tells_failure(raw: bytes) -> bool:
    return tells_failure(cell_text(raw))


def _values(
    row: Row,
    raws: list[bytes],
    benchmark: BenchmarkColumns,
    targets: Sequence[_Target],
    settings: Settings,
) -> tuple[float, ...]:
    if len(raws) > row.columns:
        raise NotUnderstoodError(
            f"the row has {len(raws)} cells, the table {row.columns} columns; | in a cell is \\|"
        )
    of_row = BenchmarkRow(table=benchmark, raw_cells=raws)
    values = tuple([target.computed.value(of_row, settings) for target in targets])
    if not max(values) < _ABSURD:
        raise NotUnderstoodError("its numbers give more than any GPU can do")
    return values


def _column_form(
    table: Table,
    results: Sequence[_Result],
    computed: Computed,
    column: Column,
    decimals: int | None,
) -> ColumnForm:
    in_percent = computed.is_share and "%" in column.title
    dashes = table.delimiter.raw_cells[column.index].strip()
    blank = computed.form._replace(sign="") if in_percent else computed.form
    written = [one for one in results if one.values and column.index < len(one.raws)]
    raws = [one.raws[column.index] for one in written]
    if not all(map(_DIGIT.search, raws)):
        blank = common_form(raws, computed.is_share, in_percent) or blank
    return ColumnForm(
        is_share=computed.is_share,
        in_percent=in_percent,
        to_right=dashes.endswith(b":") and not dashes.startswith(b":"),
        decimals=decimals,
        blank=blank,
    )


def _regenerate_column(
    number: int,
    column: Column,
    form: ColumnForm,
    results: Sequence[_Result],
    made: RegeneratedTable,
) -> None:
    """Add to `made` what is to be done in a column of the table, that of a target's number."""
    for row, raws, values in results:
        if not values:
            continue
        if column.index >= len(raws):
            made.unclear.append(Remark(row.line, f"the row ends before {column.title}"))
            continue
        old = raws[column.index]
        try:
            new = form.written(old, values[number])
        except NotUnderstoodError as error:
            if not _tells_failure(old):
                made.unclear.append(Remark(row.line, f"{column.title}: {error}"))
            continue
        if new != old:
            cell = row.cells[column.index]
            made.edits.append(Edit(cell.begin, cell.end, new))
            made.changes.append(Change(row.line, column.title, cell.text, cell_text(new)))


def _last_column(benchmark: BenchmarkColumns) -> int:
    """Return behind which column new ones stand: that of the TFLOPs, or of the times and rates."""
    columns = benchmark.columns
    return max(
        column.index
        for meaning in (Meaning.TFLOPS_PER_GPU, Meaning.PACE)
        for column in columns.get(meaning, ())
    )


def _new_columns(
    table: Table,
    results: Sequence[_Result],
    new: Sequence[tuple[int, Computed]],
    behind: int,
) -> Iterator[Edit]:
    """Yield the edits that put new columns behind one of the table, their numbers to the right."""
    columns = []
    for number, computed in new:
        form = computed.form
        texts = [form.text(one.values[number]) if one.values else "" for one in results]
        width = max(map(len, (computed.title, *texts)))
        dashes = "-" * (width - 1) + ":"
        columns.append([text.rjust(width) for text in (computed.title, dashes, *texts)])
    rows = (table.header, table.delimiter, *table.rows)
    for row, *texts in zip(rows, *columns, strict=True):
        cells = row.cells
        if behind < len(cells):
            end = cells[behind].end
            if end < row.begin + len(row.content):
                added = "".join(f"| {text} " for text in texts)
            else:
                # No pipe ends the row; blanks at its end would break the line.
                added = "".join(f" | {text}" for text in texts).rstrip()
            yield Edit(end, end, added.encode())
