"""Combine the repeats and seeds of a configuration into one row of a report."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.labels import without_repeat
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import Cell, Column, Style, Table, make_table, shown
from orchestrator.compare.past_runs import configuration
from orchestrator.report.changes import with_changes
from orchestrator.report.columns import describing_columns, ended, measured_columns
from orchestrator.report.report import Report, group_breaks
from orchestrator.report.sort_and_filter import sorted_report

# Commands take the beginning of an id.
_LEAST_ID = 4
_RANGE_STYLE = Style(digits=3)
# The range is shown for the first of these columns that the table has.
_RANGED = ("tflops_per_gpu", "step_seconds_median", "running_samples_per_second")
# The parameters in which the runs of one configuration differ.
_OF_ONE_RUN = frozenset({"seed", "repeat"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """Runs that differ only in repeat and seed."""

    runs: tuple[Collected, ...]

    @property
    def label(self) -> str:
        """The words that the labels of all its runs contain, without repeat and seed.

        For example, the runs `zero3 r1` and `zero3 r2` have the common label `zero3`.
        """
        first, *others = (without_repeat(run.planned.label).split() for run in self.runs)
        return " ".join(word for word in first if all(word in other for other in others))

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The ids of the configuration's runs."""
        return tuple(run.planned.run_id for run in self.runs)

    @property
    def measured(self) -> tuple[Collected, ...]:
        """The runs from which the configuration's numbers are computed.

        These are the completed runs, or all runs if no run completed.
        """
        completed = (run for run in self.runs if run.outcome == RunOutcome.COMPLETED)
        return tuple(completed) or self.runs


def configurations(runs: Sequence[Collected]) -> list[Configuration]:
    """Return the configurations of runs, in the order of their first runs."""
    groups: dict[str, list[Collected]] = {}
    for run in runs:
        groups.setdefault(configuration(run.planned.run), []).append(run)
    return [Configuration(tuple(group)) for group in groups.values()]


def report_for_people(
    campaign: Campaign,
    report: Report,
    runs: Sequence[Collected],
    *,
    singly: bool = False,
    by: str | None = None,
) -> Report:
    """Return a report that people can read quickly: one row per configuration, with its run ids.

    A row for several runs contains the medians of the completed runs. For one column, usually the
    TFLOPs, the row also contains the lowest and the highest value.

    singly: whether to show each run in its own row.
    by: the columns by which the user sorts; `report` is already sorted by them. If the user sorts
    by seed or repeat, each run also gets its own row.
    """
    ids = short_ids([planned.run_id for planned in campaign.runs])
    groups = configurations(runs)
    # A user who sorts by seed or repeat wants to see single runs.
    of_runs = {key.strip().lstrip("-").casefold() for key in (by or "").split(",")} & _OF_ONE_RUN
    if singly or of_runs or len(groups) == len(runs):
        table = _with_ids(report.table, [ids[run.planned.run_id] for run in runs])
        return replace(report, table=table, describing=("run_ids", *report.describing))
    made = combined_table(campaign, groups, ids)
    explanation = (
        " Repeats and seeds are one row: medians of the completed runs, and their range; --runs "
        "lists them as separate rows."
    )
    names = tuple(name for name in made.names[: made.names.index("runs")])
    made = replace(made, breaks=group_breaks(made, len(names)))
    combined = Report(made, names, report.provenance + explanation)
    return combined if by is None else sorted_report(combined, by)


def short_ids(run_ids: Sequence[str]) -> dict[str, str]:
    """Return a short form of each id: the shortest unique start, of at least 4 digits."""
    longest = max(_LEAST_ID, *map(len, run_ids))
    size = next(
        size
        for size in range(_LEAST_ID, longest + 1)
        if size == longest or len({run_id[:size] for run_id in run_ids}) == len(set(run_ids))
    )
    return {run_id: run_id[:size] for run_id in run_ids}


def _with_ids(table: Table, ids: Sequence[str]) -> Table:
    return replace(
        table,
        titles=("run id", *table.titles),
        names=("run_ids", *table.names),
        styles=(Style(), *table.styles),
        minor=(False, *table.minor),
        rows=tuple((run_ids, *row) for run_ids, row in zip(ids, table.rows, strict=True)),
        changes={(row, column + 1): text for (row, column), text in table.changes.items()},
        breaks=table.breaks,
    )


def combined_table(
    campaign: Campaign, groups: Sequence[Configuration], ids: dict[str, str]
) -> Table:
    """Return a table with a row for each configuration.

    groups: the configurations. ids: the short form of each run's id, by the full id.
    """
    every = [run for group in groups for run in group.runs]
    first = [group.runs[0] for group in groups]
    describing = [
        _of_first(column) for column in describing_columns(first) if column.name not in _OF_ONE_RUN
    ]
    measured = measured_columns(campaign, every)
    names = [column.name for column in measured]
    ranged = next((name for name in _RANGED if name in names), None)
    columns: list[Column[Configuration]] = [
        Column(
            "run ids", "run_ids", lambda group: " ".join(ids[r.planned.run_id] for r in group.runs)
        ),
        *describing,
        Column("runs", "runs", lambda group: len(group.runs)),
    ]
    for column in measured:
        columns.append(_combined(column))
        if column.name == ranged:
            columns.append(_range(column))
    table = make_table(columns, groups)
    return with_changes(table, [run.planned.run for run in first])


def _of_first(column: Column[Collected]) -> Column[Configuration]:
    def value(group: Configuration) -> Cell:
        cell = column.value(group.runs[0])
        return without_repeat(str(cell)) if column.name == "label" else cell

    return Column(column.title, column.name, value, column.style, column.minor)


def _combined(column: Column[Collected]) -> Column[Configuration]:
    combine: Callable[[Configuration], Cell] = lambda group: _middle(column, group)  # noqa: E731
    if column.name == "outcome":
        combine = _ends
    return Column(column.title, column.name, combine, column.style, column.minor)


def _middle(column: Column[Collected], group: Configuration) -> Cell:
    """Return the cell of a configuration in a column: the median of its runs' numbers.

    Only the known cells of the runs in `group.measured` are used. If some of these cells are not
    numbers, the result is the value that all cells have in common, or None if they differ.
    """
    cells = [cell for run in group.measured if (cell := column.value(run)) is not None]
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    if cells and len(numbers) == len(cells):
        middle = median(numbers)
        whole = all(isinstance(cell, int) for cell in numbers) and middle == int(middle)
        return int(middle) if whole else middle
    return cells[0] if len(set(cells)) == 1 else None


def _ends(group: Configuration) -> Cell:
    words = Counter(ended(run) for run in group.runs)
    if len(words) == 1:
        return next(iter(words))
    return ", ".join(f"{count} {word}" for word, count in words.items())


def _range(column: Column[Collected]) -> Column[Configuration]:
    """Return a column with the lowest and the highest number of another column.

    A cell contains e.g. `95 to 102` for the runs of a configuration; it is empty for fewer than two
    numbers.
    """

    def value(group: Configuration) -> Cell:
        cells = [column.value(run) for run in group.measured]
        numbers = [cell for cell in cells if isinstance(cell, int | float)]
        if len(numbers) < 2:
            return None
        return f"{shown(min(numbers), _RANGE_STYLE)} to {shown(max(numbers), _RANGE_STYLE)}"

    return Column("range", f"{column.name}_range", value)
