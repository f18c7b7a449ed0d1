"""Show a report on a terminal: bold titles, out-of-memory runs in red, step times.

Step times are a line of blocks: ▁▁▁█▁▁.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import MEASURED, Table, as_text
from orchestrator.report.report import Report

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 16
# What is within a quarter of the fastest step is no mountain.
_LEAST_SPAN = 0.25


def show_report(campaign: Campaign, report: Report, runs: Sequence[Collected]) -> None:
    """Print the table and the line below it to the terminal.

    It is the text that a pipe gets, in color, with a column more.
    """
    from rich.console import Console
    from rich.text import Text

    times = [sparkline(run.reports.seconds) for run in runs]
    lines = as_text(_with_step_times(report.table, times)).splitlines()
    titles = len(lines) - len(runs) - 1
    ends = ("red" if run.outcome == RunOutcome.OOM else "" for run in runs)
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


def sparkline(seconds: Sequence[float], width: int = _WIDTH) -> str | None:
    """Return the times in at most `width` blocks, in their order; None where there is no time.

    Where there are more times than blocks, a block is the slowest of its share, so that an outlier
    stays. The lowest block is the fastest; the highest is the slowest, or a quarter more than the
    fastest where all are faster than that: steps that are even are a flat line.
    """
    known = [time for time in seconds if math.isfinite(time)]
    if not known:
        return None
    count = min(width, len(known))
    bounds = [len(known) * block // count for block in range(count + 1)]
    slowest = [max(known[begin:end]) for begin, end in pairwise(bounds)]
    fastest = min(known)
    span = max(max(known) - fastest, _LEAST_SPAN * fastest)
    steps = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[round((time - fastest) / span * steps) if span > 0 else 0] for time in slowest
    )
