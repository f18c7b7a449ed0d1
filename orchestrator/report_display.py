"""The table of a report on a terminal: bold titles, what ran out of memory in red, step times."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.campaign import Campaign
from orchestrator.collection import Collected
from orchestrator.metrics import seconds_of, warm_steps
from orchestrator.outcomes import OOM
from orchestrator.reports import Report
from orchestrator.sparklines import sparkline
from orchestrator.tables import MEASURED, Table, as_text
from orchestrator.warmup import Warmup


def show_report(campaign: Campaign, report: Report, runs: Sequence[Collected]) -> None:
    """Print the table and the line below it to the terminal.

    It is the text that a pipe gets, in color, with a column more.
    """
    from rich.console import Console
    from rich.text import Text

    times = [_step_times(run, campaign.warmup) for run in runs]
    lines = as_text(_with_step_times(report.table, times)).splitlines()
    titles = len(lines) - len(runs) - 1
    ends = ("red" if run.outcome == OOM else "" for run in runs)
    styles = (*["bold"] * titles, "", *ends)
    shown = (Text(line, style) for line, style in zip(lines, styles, strict=True))
    console = Console(highlight=False)
    console.print(Text("\n").join((*shown, Text(report.provenance))), soft_wrap=True)


def _with_step_times(table: Table, times: Sequence[str | None]) -> Table:
    return replace(
        table,
        titles=(*table.titles, "step times"),
        names=(*table.names, "step_times"),
        styles=(*table.styles, MEASURED),
        rows=tuple((*row, time) for row, time in zip(table.rows, times, strict=True)),
    )


def _step_times(run: Collected, warmup: Warmup) -> str | None:
    """Return the step times of a run after its warm-up as a line of blocks; None without any."""
    planned = run.planned.run
    warm = warm_steps(run.steps, planned.training.train_iters, warmup)
    return sparkline(seconds_of(warm.counted, planned.batch.global_batch_size))
