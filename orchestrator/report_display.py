"""The table of a report on a terminal: bold titles, what ran out of memory in red, step times."""

from collections.abc import Sequence

from orchestrator.campaign import Campaign
from orchestrator.collection import Collected
from orchestrator.metrics import measured_steps, seconds_of
from orchestrator.outcomes import OOM
from orchestrator.reports import Report
from orchestrator.sparklines import sparkline
from orchestrator.tables import DASH, folded_titles, numeric_columns, shown_rows
from orchestrator.warmup import Warmup


def show_report(campaign: Campaign, report: Report, runs: Sequence[Collected]) -> None:
    """Print the table and the line below it to the terminal, no cell cut however narrow it is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        border_style="dim",
    )
    titles = (*folded_titles(report.table), "step times")
    for title, number in zip(titles, (*numeric_columns(report.table), False), strict=True):
        table.add_column(
            Text(title), justify="right" if number else "left", vertical="bottom", no_wrap=True
        )
    for run, cells in zip(runs, shown_rows(report.table), strict=True):
        style = "red" if run.outcome == OOM else ""
        table.add_row(
            *(Text(cell) for cell in cells), step_times(run, campaign.warmup), style=style
        )
    console = Console(highlight=False)
    whole = Console(width=10**6).measure(table).maximum
    console.width = max(console.width, whole)
    console.print(table, crop=False)
    console.print(Text(report.provenance), soft_wrap=True)


def step_times(run: Collected, warmup: Warmup) -> str:
    """Return the step times of a run after its warm-up as a line of blocks."""
    planned = run.planned.run
    counted = measured_steps(run.steps, planned.training.train_iters, warmup)
    return sparkline(seconds_of(counted, planned.batch.global_batch_size)) or DASH
