"""Choose and sort the rows of a report."""

import math
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.expressions import places_where
from orchestrator.common.tables import Cell, Table
from orchestrator.common.text import counted, printable
from orchestrator.report.report import Report, group_breaks, run_values


def arranged(
    campaign: Campaign,
    report: Report,
    runs: Sequence[Collected],
    *,
    only: str | None = None,
    by: str | None = None,
) -> tuple[Report, list[Collected]]:
    """Choose and sort rows of a report; return the new report and its runs, in the same order.

    only: an expression that chooses the runs, e.g. 'world_size > 8'. It uses the names in
        report.json.
    by: titles or names of columns, separated by commas, with a hyphen before a column for
        descending order.

    Equal rows keep their order, and absent or nan values come last. The new report keeps
    all columns, even if the chosen runs do not differ in some of them. Raises UserError if
    `only` or `by` contains an unknown name, or if the expression matches no run.
    """
    table = report.table
    order = list(range(len(runs)))
    if only is not None:
        order = places_where("--filter", only, run_values(campaign, report, runs))
    if by is not None:
        order = _sorted(order, table, by)
    taken = _taken(table, order)
    if by is None:
        taken = replace(taken, breaks=group_breaks(taken, len(report.describing)))
    sentences = "".join(
        (
            f" Shown: {len(order)} of {counted(len(runs), 'run')}: {printable(only)}."
            if only
            else "",
            f" Sorted by {printable(by)}." if by else "",
        )
    )
    made = replace(report, table=taken, provenance=report.provenance + sentences)
    return made, [runs[row] for row in order]


def sorted_report(report: Report, by: str) -> Report:
    """Return a report with its rows sorted by columns.

    by: titles or names of columns, separated by commas. A hyphen before a column means
    descending order, e.g. `-tflops_per_gpu,nodes`. Raises UserError if a column is unknown.
    """
    order = _sorted(range(len(report.table.rows)), report.table, by)
    return replace(report, table=replace(_taken(report.table, order), breaks=frozenset()))


def _sorted(order: Sequence[int], table: Table, written: str) -> list[int]:
    """Return the row indices `order`, sorted by the columns that the user gave.

    written: the user's text, e.g. `-tflops_per_gpu,nodes`.
    """
    keys = [key.strip() for key in written.split(",")]
    columns = [_column(table, key.removeprefix("-")) for key in keys]
    sorted_rows = list(order)
    # A sort keeps the order of equal rows. So the first column is used last.
    for key, column in reversed(list(zip(keys, columns, strict=True))):
        cells = {row: table.rows[row][column] for row in sorted_rows}
        rows_with_value = [row for row in sorted_rows if _is_known(cells[row])]
        rows_with_value.sort(key=lambda row: _rank(cells[row]), reverse=key.startswith("-"))
        sorted_rows = rows_with_value + [row for row in sorted_rows if not _is_known(cells[row])]
    return sorted_rows


def _column(table: Table, wanted: str) -> int:
    """Return the index of the column whose name or title is `wanted`; case does not matter.

    Raises UserError if there is no such column.
    """
    for words in (table.names, table.titles):
        folded = [word.casefold() for word in words]
        if wanted.casefold() in folded:
            return folded.index(wanted.casefold())
    valid_names = dict.fromkeys((*table.names, *table.titles))
    raise UserError(f"--sort: there is no column {wanted!r}{did_you_mean(wanted, valid_names)}")


def _is_known(cell: Cell) -> bool:
    return cell not in {None, ""} and not (isinstance(cell, float) and math.isnan(cell))


def _rank(cell: Cell) -> tuple[bool, float, str]:
    """Return a sort key for a cell. In ascending order, numbers come before texts."""
    return (True, 0, cell) if isinstance(cell, str) else (False, cell or 0, "")


def _taken(table: Table, order: Sequence[int]) -> Table:
    """Return a table with only the rows in `order`, without blank rows between groups.

    order: the indices of the rows in `table`, in the order in which the new table shows them.
    """
    rows = {old: new for new, old in enumerate(order)}
    changes = {
        (rows[row], column): change
        for (row, column), change in table.changes.items()
        if row in rows
    }
    return replace(
        table,
        rows=tuple(table.rows[row] for row in order),
        changes=changes,
        breaks=frozenset(),
    )
