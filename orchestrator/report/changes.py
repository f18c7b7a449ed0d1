"""Show in a run's cells how its values differ from those of its partner.

The partner is the run that a framework chooses for the comparison; it differs in one option. For
example, `3849(-1754,↓31.3%)` means that the value 3849 is 1754, or 31.3 %, less than the partner's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from orchestrator.common.tables import Table, shown
from orchestrator.frameworks.base import Partner
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run


def with_changes(table: Table, runs: Sequence[Run]) -> Table:
    """Return a table that also shows how the values of each run differ from those of its partner.

    table: the table without these differences. runs: the run of each row, in the same order. If the
    partner of a run has no row in the table, nothing is added to the run's row.
    """
    if not any(FRAMEWORKS[run.framework].report.partner for run in runs):
        return table
    rows = {run_id(run): row for row, run in enumerate(runs)}
    changes: dict[tuple[int, int], str] = {}
    for row, run in enumerate(runs):
        partner = FRAMEWORKS[run.framework].report.partner
        base = None if partner is None else rows.get(run_id(_base(run, partner)))
        if partner is not None and base not in (None, row):
            changes.update(_row_changes(table, row, base or 0, partner))
    return replace(table, changes=changes)


def change(text: str, base: str, *, difference: bool) -> str | None:
    """Return a text for a cell: how much its number differs from another, e.g. `(↓31.3%)`.

    text: the number as the table shows it. base: the other number as the table shows it. The
    difference is computed from these rounded numbers, so that readers who check it get the same
    result.
    difference: whether to show the difference before the percentage, e.g. `(-1754,↓31.3%)`.
    Returns None if one text is not a number, or if `base` is zero.
    """
    new, old = _number(text), _number(base)
    if new is None or not old:
        return None
    percent = (new - old) / old * 100
    arrow = "↓" if percent < 0 else "↑"
    by = f"{new - old:+f}," if difference else ""
    return f"({by}{arrow}{abs(percent):.1f}%)"


def _base(run: Run, partner: Partner) -> Run:
    return replace(run, options=replace(run.options, **{partner.option: partner.base}))


def _row_changes(
    table: Table, row: int, base: int, partner: Partner
) -> Iterator[tuple[tuple[int, int], str]]:
    for column, (name, style) in enumerate(zip(table.names, table.styles, strict=True)):
        if name not in partner.columns:
            continue
        texts = (shown(table.rows[place][column], style) for place in (row, base))
        text = change(*texts, difference=partner.columns[name])
        if text is not None:
            yield (row, column), text


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.replace(",", ""))
    except ArithmeticError:
        return None
    return number if number.is_finite() else None
