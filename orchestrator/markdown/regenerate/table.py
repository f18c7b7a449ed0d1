"""Compute columns of one table again, and return the edits of the page that result."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.markdown.document.tables import Edit, MarkdownTable, Table, cell_text
from orchestrator.markdown.meaning.benchmark_rows import (
    BenchmarkColumns,
    BenchmarkRow,
    NotInTableError,
    benchmark_rows,
)
from orchestrator.markdown.meaning.cells import NotUnderstoodError, tells_failure
from orchestrator.markdown.meaning.columns import Meaning, TableColumn
from orchestrator.markdown.meaning.notes import as_notes
from orchestrator.markdown.meaning.settings import PageSettings
from orchestrator.markdown.regenerate.cells import ColumnForm, common_form
from orchestrator.markdown.regenerate.columns import COMPUTED, Computed

_DIGIT = re.compile(rb"[0-9]")
_TFLOPS = (COMPUTED["tflops"], COMPUTED["model_tflops"])
# No machine has so many TFLOPs or tokens per second. A larger number means that a row was misread.
_ABSURD = 1e12


class Remark(NamedTuple):
    """A sentence about a line of the page."""

    line: int
    text: str


class ChangedCell(NamedTuple):
    """A cell whose content `old` will become `new`."""

    line: int
    title: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegeneratedTable:
    """The changes to one table.

    edits: the replacements in the page, in their order.
    changes: the cells whose content changed, except those of new columns.
    rows: how many rows were computed.
    new_columns: how many columns were added.
    unclear: a remark for each row that looks like a result but could not be parsed, or one remark
        for the whole table.
    notes: information for the user that is not an error.
    """

    edits: list[Edit] = field(default_factory=list)
    changes: list[ChangedCell] = field(default_factory=list)
    rows: int = 0
    new_columns: int = 0
    unclear: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)


class _Target(NamedTuple):
    """A column to compute: an existing column of the table, or a new one."""

    computed: Computed
    column: TableColumn | None


class _Result(NamedTuple):
    """A row of a table and its computed values, one for each column to compute."""

    row: BenchmarkRow
    values: tuple[float, ...]


def regenerate_table(
    table: Table,
    settings: PageSettings,
    add: Sequence[str],
    headings: tuple[str, ...] = (),
) -> RegeneratedTable:
    """Compute the TFLOPs columns of a table, and the columns of `add`; return the changes.

    headings: the headings above the table, which may name the model of its rows. Raises
    UserError if the peak of a GPU is needed and unknown.
    """
    line = table.header.line
    constants = as_notes(settings.constants)
    columns = BenchmarkColumns.of(table, constants, settings.columns, headings)
    unclear: list[Remark] = []
    try:
        targets = _targets(columns, add)
        results = _results(table, columns, targets, settings, unclear) if targets else []
    except NotInTableError as error:
        if not _looks_like_a_benchmark(columns):
            return RegeneratedTable()
        return RegeneratedTable(unclear=[Remark(line, f"{error}; the table is unchanged")])
    new = [number for number, target in enumerate(targets) if target.column is None and results]
    if new and not isinstance(table, MarkdownTable):
        unclear.append(
            Remark(
                line,
                "no column is added, because this is an HTML table; only "
                "markdown tables can get columns",
            )
        )
        new = []
    made = RegeneratedTable(unclear=unclear, rows=len(results), new_columns=len(new))
    for number, (computed, column) in enumerate(targets):
        if column is not None:
            decimals = settings.decimals if computed in _TFLOPS else None
            form = _column_form(table, results, computed, column, decimals)
            _regenerate_column(number, column, form, results, made)
    if new and isinstance(table, MarkdownTable):
        titles = [(number, targets[number].computed) for number in new]
        made.edits.extend(_new_columns(table, results, titles, _last_column(columns)))
    made.notes.extend(
        Remark(
            line, (f"{column.title!r} is unchanged: its title says that these values were reported")
        )
        for column in columns.by_meaning.get(Meaning.REPORTED_TFLOPS, ())
        if results
    )
    made.edits.sort()
    made.unclear.sort()
    return made


def _targets(columns: BenchmarkColumns, add: Sequence[str]) -> list[_Target]:
    all_columns = [column for same in columns.by_meaning.values() for column in same]
    targets = []
    for name in dict.fromkeys(("tflops", "model_tflops", *add)):
        computed = COMPUTED[name]
        match [column for column in all_columns if computed.is_in(column)]:
            case [first, second, *_]:
                titles = f"{first.title!r} and {second.title!r}"
                hint = (
                    "; add the word Reported to one of these titles" if computed in _TFLOPS else ""
                )
                raise NotInTableError(f"{titles} both contain {computed.title}{hint}")
            case [column]:
                targets.append(_Target(computed, column))
            case [] if name in add:
                targets.append(_Target(computed, None))
    return targets


def _looks_like_a_benchmark(columns: BenchmarkColumns) -> bool:
    meanings = columns.by_meaning.keys()
    return bool(meanings & {Meaning.TFLOPS_PER_GPU, Meaning.MODEL_TFLOPS_PER_GPU}) or (
        Meaning.PACE in meanings
        and bool(meanings & {Meaning.PARAMETERS, Meaning.MODEL, Meaning.GLOBAL_BATCH_SIZE})
    )


def _results(
    table: Table,
    columns: BenchmarkColumns,
    targets: Sequence[_Target],
    settings: PageSettings,
    unclear: list[Remark],
) -> list[_Result]:
    """Return the rows that contain a result, each with its computed values.

    A row contains a result if it has a number in a column to compute, or in a column of times
    or rates.

    unclear: gets the rows that cannot be parsed, except rows that report a failure, e.g. OOM.
    """
    telling = {column.index for _, column in targets if column}
    telling |= {column.index for column in columns.by_meaning.get(Meaning.PACE, ())}
    results = []
    for row in benchmark_rows(table, columns):
        raws = row.raw_cells
        result_cells = [raws[index] for index in telling if index < len(raws)]
        # A row without a number in these cells has no result, e.g. a separator or OOM.
        if not any(map(_DIGIT.search, result_cells)):
            continue
        try:
            results.append(_Result(row, _values(row, targets, settings)))
        except NotInTableError:
            raise
        except NotUnderstoodError as error:
            if not any(map(_tells_failure, result_cells)):
                unclear.append(Remark(row.line, str(error)))
    return results


def _tells_failure(raw: bytes) -> bool:
    return tells_failure(cell_text(raw))


def _values(
    row: BenchmarkRow, targets: Sequence[_Target], settings: PageSettings
) -> tuple[float, ...]:
    if row.has_extra_cells:
        cells, columns = len(row.raw_cells), len(row.columns.in_order)
        raise NotUnderstoodError(
            f"the row has {cells} cells, the table {columns} columns; | in a cell is \\|"
        )
    values = tuple([target.computed.value(row, settings) for target in targets])
    if not max(values) < _ABSURD:
        raise NotUnderstoodError("the numbers of this row give more TFLOPs than any GPU reaches")
    return values


def _column_form(
    table: Table,
    results: Sequence[_Result],
    computed: Computed,
    column: TableColumn,
    decimals: int | None,
) -> ColumnForm:
    in_percent = computed.is_share and "%" in column.title
    blank = computed.form._replace(sign="") if in_percent else computed.form
    raws = [row.raw_cells[column.index] for row, _ in results if column.index < len(row.raw_cells)]
    if not all(map(_DIGIT.search, raws)):
        blank = common_form(raws, computed.is_share, in_percent) or blank
    return ColumnForm(
        is_share=computed.is_share,
        in_percent=in_percent,
        to_right=table.is_right_aligned(column.index),
        decimals=decimals,
        blank=blank,
    )


def _regenerate_column(
    number: int,
    column: TableColumn,
    form: ColumnForm,
    results: Sequence[_Result],
    made: RegeneratedTable,
) -> None:
    """Add the changes of one column's cells to `made`, the changes of the whole table.

    number: the index of the column's value in the `values` of each result.
    """
    for row, values in results:
        if column.index >= len(row.raw_cells):
            made.unclear.append(
                Remark(row.line, f"the row has no cell for the column {column.title}")
            )
            continue
        cell = row.source.cells[column.index]
        old = cell.raw
        try:
            if cell.is_shared:
                raise NotUnderstoodError("the cell spans several rows or columns")
            new = form.written(old, values[number])
        except NotUnderstoodError as error:
            if not _tells_failure(old):
                made.unclear.append(Remark(row.line, f"{column.title}: {error}"))
            continue
        if new != old:
            made.edits.append(Edit(cell.begin, cell.end, new))
            made.changes.append(
                ChangedCell(row.line, column.title, cell.text, cell._replace(raw=new).text)
            )


def _last_column(columns: BenchmarkColumns) -> int:
    """Return the index of the last column of TFLOPs, times or rates.

    New columns are inserted after this column.
    """
    return max(
        column.index
        for meaning in (Meaning.TFLOPS_PER_GPU, Meaning.MODEL_TFLOPS_PER_GPU, Meaning.PACE)
        for column in columns.by_meaning.get(meaning, ())
    )


def _new_columns(
    table: MarkdownTable,
    results: Sequence[_Result],
    new: Sequence[tuple[int, Computed]],
    behind: int,
) -> Iterator[Edit]:
    """Yield the edits that insert new columns, right-aligned, after the column with index `behind`.

    new: for each new column, the index of its value in each result, and how it is computed.
    """
    values = {row.line: values for row, values in results}
    columns = []
    for number, computed in new:
        form = computed.form
        texts = [
            form.text(values[row.line][number]) if row.line in values else "" for row in table.rows
        ]
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
                # No pipe ends the row. Blanks at its end would be a line break in markdown.
                added = "".join(f" | {text}" for text in texts).rstrip()
            yield Edit(end, end, added.encode())
