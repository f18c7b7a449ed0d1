"""Show a report on a terminal: bold titles, out-of-memory runs in red, step times.

Step times are shown as a line of blocks, e.g. ▁▁▁█▁▁.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.fitted import fitted, wrapped
from orchestrator.common.tables import MEASURED, Table
from orchestrator.common.terminal import terminal_width
from orchestrator.report.report import Report

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 16
_NO_LIMIT = 10_000
# The highest block is at least this part above the fastest step.
_LEAST_SPAN = 0.25


def show_report(report: Report, runs: Sequence[Collected]) -> None:
    """Print the table and the line below it to the terminal.

    The text is the same as in a pipe, but it is colored and fitted to the width of the terminal. If
    each run has its own row, the table has one more column, with the step times.
    """
    from rich.console import Console
    from rich.text import Text

    width = terminal_width()
    whole = report.table
    if len(whole.rows) == len(runs):
        whole = _with_step_times(whole, [sparkline(run.reports.seconds) for run in runs])
    table = fitted(whole, width or _NO_LIMIT)
    out_of_memory = RunOutcome.OOM.upper()
    ends = ["red" if out_of_memory in map(str, row) else "" for row in whole.rows]
    if len(table.rows) < len(ends):
        ends = [""] * len(table.rows)
    shown = [
        *(Text(line) for line in table.above),
        *(Text(line, "bold") for line in table.titles),
        *(Text(line, end) for row, end in zip(table.rows, ends, strict=True) for line in row),
        *(Text(line) for line in (*table.below, *wrapped(report.provenance, width))),
    ]
    console = Console(highlight=False)
    console.print(Text("\n").join(shown), soft_wrap=True)


def _with_step_times(table: Table, times: Sequence[str | None]) -> Table:
    return replace(
        table,
        titles=(*table.titles, "step times"),
        names=(*table.names, "step_times"),
        styles=(*table.styles, MEASURED),
        minor=(*table.minor, True),
        rows=tuple((*row, time) for row, time in zip(table.rows, times, strict=True)),
    )


def sparkline(seconds: Sequence[float], width: int = _WIDTH) -> str | None:
    """Draw the times in order, in at most `width` blocks; return None without times.

    If there are more times than blocks, a block shows the slowest of several consecutive times, so
    that an outlier stays visible. The lowest block is the fastest step. The highest block is the
    slowest step, but at least 1.25 times the fastest step. So steps of similar length give a flat
    line.
    """
    finite = [time for time in seconds if math.isfinite(time)]
    if not finite:
        return None
    count = min(width, len(finite))
    bounds = [len(finite) * block // count for block in range(count + 1)]
    slowest = [max(finite[begin:end]) for begin, end in pairwise(bounds)]
    fastest = min(finite)
    span = max(max(finite) - fastest, _LEAST_SPAN * fastest)
    steps = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[round((time - fastest) / span * steps) if span > 0 else 0] for time in slowest
    )
