"""Build the data of the HTML page of published tables, and of the view of each row."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.common.tables import DASH
from orchestrator.common.text import counted
from orchestrator.markdown.check.findings import TableFinding
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.joined_tables import JoinedColumn, JoinedTables
from orchestrator.markdown.meaning.notes import SIZES
from orchestrator.report.html.facts import Facts
from orchestrator.report.html.page import Page, PageColumn, PageRun
from orchestrator.report.html.size_plots import TFLOPS, Plot, size_plots

# The results of a run, which do not describe its settings.
_MEASURED = frozenset(
    {
        Meaning.PACE,
        Meaning.TFLOPS_PER_GPU,
        Meaning.REPORTED_TFLOPS,
        Meaning.MFU,
        Meaning.HFU,
        Meaning.MEMORY,
        Meaning.OUTCOME,
        Meaning.STATISTIC,
    }
)
# Titles of such results, for columns whose meaning is not known. A column with another title
# counts as a setting: then too few rows count as equal, but never too many.
_MEASURED_TITLE = re.compile(
    r"flops|util|memory|\bloss\b|throughput|speed|\btime\b|samples/s|tokens/s|\bppl\b|perplexity",
    re.IGNORECASE,
)
_PLOTTED = (Meaning.TFLOPS_PER_GPU, Meaning.MFU)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDetail:
    """The data for the view of one row.

    run_id: the line number of the row. place: its file and line. findings: the contradictions in
    the row. outside_sizes: sizes that are on the page, but outside the table: the text of each size
    by its name on the page.
    """

    run_id: str
    place: str
    findings: tuple[str, ...]
    outside_sizes: Mapping[str, str]


def make_details(
    file: str, tables: JoinedTables, findings: Sequence[TableFinding]
) -> Iterator[RowDetail]:
    """Yield the data for the view of each row.

    findings: the contradictions that `teralog check-tables` finds on the page.
    """
    by_line = _by_line(findings)
    for row in tables.rows:
        yield RowDetail(
            run_id=str(row.line),
            place=f"{file}:{row.line}",
            findings=tuple(
                finding.message.removeprefix(f"{row.name}: ")
                for finding in by_line.get(row.line, ())
            ),
            outside_sizes={
                number.title: f"{number.text} (line {number.line})"
                for number in row.numbers.values()
                if number.line is not None
            },
        )


def make_tables_page(
    file: str, name: str, tables: JoinedTables, findings: Sequence[TableFinding]
) -> Page:
    """Return the page of the tables of a markdown file; `name` is the file's name."""
    by_line = _by_line(findings)
    kinds = [
        ", ".join(dict.fromkeys(finding.kind.value for finding in by_line.get(row.line, ())))
        for row in tables.rows
    ]
    endings = _endings(tables)
    values = zip(*(column.values for column in tables.columns), strict=True)
    texts = zip(*(column.texts for column in tables.columns), strict=True)
    return Page(
        title=tables.title or name,
        noun="row",
        identity="line",
        about=f"of {counted(tables.tables, 'table')} in {file}",
        beside=name,
        provenance=_provenance(findings),
        columns=_columns(tables, with_findings=bool(findings)),
        runs=tuple(
            PageRun(
                run_id=str(row.line),
                label=f"{table}: {row.name}",
                ended=ending,
                values=(table, *row_values, *([kind or None] if findings else [])),
                shown=tuple(
                    text or DASH for text in (table, *row_texts, *([kind] if findings else []))
                ),
                nodes=(),
                memory=None,
            )
            for row, table, ending, kind, row_values, row_texts in zip(
                tables.rows, tables.table_names, endings, kinds, values, texts, strict=True
            )
        ),
        ended=tuple(Counter(filter(None, endings)).most_common()),
        best=_best(tables),
        plots=tuple(_plots(tables)),
        facts=_facts(tables),
        curves=False,
        memory_of="",
        gone=(),
    )


def _columns(tables: JoinedTables, *, with_findings: bool) -> tuple[PageColumn, ...]:
    names = _names(tables.columns)
    first = PageColumn(name="table", title="table", numeric=False, filter=True)
    last = PageColumn(name="findings", title="check-tables", numeric=False, filter=True)
    between = (
        PageColumn(
            name=name,
            title=column.title,
            numeric=column.is_numeric,
            filter=column.meaning is Meaning.OUTCOME or not _is_measured(column),
        )
        for name, column in zip(names, tables.columns, strict=True)
    )
    return (first, *between, *([last] if with_findings else []))


def _names(columns: Sequence[JoinedColumn]) -> list[str]:
    """Return a name for each column, for the JSON in the page.

    The name is the column's meaning, e.g. `tflops_per_gpu`. If the meaning is unknown, or
    an earlier column has the same meaning, the name is `title` and the column's title, e.g.
    `title Notes`.
    """
    names: list[str] = []
    for column in columns:
        meaning = column.meaning
        names.append(meaning.value if meaning and meaning not in names else f"title {column.title}")
    return names


def _is_measured(column: JoinedColumn) -> bool:
    if column.meaning is None:
        return _MEASURED_TITLE.search(column.title) is not None
    return column.meaning in _MEASURED


def _endings(tables: JoinedTables) -> list[str]:
    """Return the outcome in each row, e.g. `completed`; an empty text if a row has none."""
    outcomes = [column.values for column in tables.columns if column.meaning is Meaning.OUTCOME]
    return [
        next((str(values[place]) for values in outcomes if values[place] is not None), "")
        for place in range(len(tables.rows))
    ]


def _numbers(column: JoinedColumn) -> tuple[float | None, ...]:
    return tuple(cell if isinstance(cell, int | float) else None for cell in column.values)


def _best(tables: JoinedTables) -> int | None:
    """Return the index of the row with the most TFLOPs; None if the page has no TFLOPs.

    If the page has several columns of TFLOPs, only the first one is used.
    """
    names = _names(tables.columns)
    if TFLOPS not in names:
        return None
    reached = {
        place: tflops
        for place, tflops in enumerate(_numbers(tables.columns[names.index(TFLOPS)]))
        if tflops is not None
    }
    return max(reached, key=reached.__getitem__, default=None)


def _facts(tables: JoinedTables) -> Facts:
    """Return the values of rows for the plots; each row counts as a separate configuration."""
    names, count = _names(tables.columns), len(tables.rows)
    unknown = (None,) * count
    return Facts(
        labels=tuple(
            f"{table}: {row.name}"
            for table, row in zip(tables.table_names, tables.rows, strict=True)
        ),
        configuration=tuple(range(count)),
        tflops=_numbers(tables.columns[names.index(TFLOPS)]) if TFLOPS in names else unknown,
        peak_gib=unknown,
        forecast=unknown,
        boxes=unknown,
        completed=(True,) * count,
    )


def _plots(tables: JoinedTables) -> Iterator[Plot]:
    """Yield plots with results of the rows on the y axis, and a size on the x axis.

    Sizes are e.g. the number of GPUs and the global batch; each size has its own plots. A plot is
    left out if all its points have the same x.
    """
    has_plotted = any(column.meaning in _PLOTTED for column in tables.columns)
    # If the page has neither TFLOPs nor MFU, its times and rates are plotted.
    wanted = _PLOTTED if has_plotted else (Meaning.PACE,)
    reached = {
        name: (column.title, _numbers(column))
        for name, column in zip(_names(tables.columns), tables.columns, strict=True)
        if column.meaning in wanted
    }
    if not reached:
        return
    sizes = [_sizes(tables, place) for place in range(len(tables.rows))]
    for plot in size_plots(sizes, reached, "rows"):
        drawn = {x for x, y in zip(plot.x, plot.y, strict=True) if x is not None and y is not None}
        if len(drawn) > 1:
            yield plot


def _sizes(tables: JoinedTables, place: int) -> dict[str, Any]:
    """Return the values in which a row may differ from other rows, by name.

    These values are the name of the row's table, the row's sizes, and its other cells. Measured
    values are left out, because plots compare rows that are equal except for one size.

    place: the index of the row.
    """
    row = tables.rows[place]
    sizes: dict[str, Any] = {meaning.value: None for meaning in SIZES}
    sizes |= {
        meaning.value: row.numbers[meaning].whole for meaning in SIZES if meaning in row.numbers
    }
    if sizes["world_size"] is None and sizes["nodes"] and sizes["gpus_per_node"]:
        sizes["world_size"] = sizes["nodes"] * sizes["gpus_per_node"]
    others = {
        f"title {number}": column.texts[place]
        for number, column in enumerate(tables.columns)
        if not _is_measured(column)
        and not (column.meaning in SIZES and column.meaning in row.numbers)
    }
    return {"table": tables.table_names[place], **sizes, **others}


def _by_line(findings: Sequence[TableFinding]) -> dict[int, list[TableFinding]]:
    groups: dict[int, list[TableFinding]] = {}
    for finding in findings:
        groups.setdefault(finding.line, []).append(finding)
    return groups


def _provenance(findings: Sequence[TableFinding]) -> str:
    as_printed = "The cells are copied from the page without a change; nothing is computed again."
    if not findings:
        return f"{as_printed} teralog check-tables finds no contradiction."
    rows = counted(len(_by_line(findings)), "row")
    return (
        f"{as_printed} teralog check-tables finds {counted(len(findings), 'contradiction')} in "
        f"{rows}: click on a row with an entry in the column 'check-tables' to read them."
    )
