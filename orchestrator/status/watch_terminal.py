"""Show a watched campaign: a table that stays in place, or lines for a pipe."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.common.fitted import fitted
from orchestrator.common.text import counted, printable
from orchestrator.status.table import totals
from orchestrator.status.watch import Look, WatchedRun
from orchestrator.status.watch_text import (
    chosen,
    is_new,
    others_text,
    plain_text,
    watch_table,
    watch_warnings,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_STYLES = {"COMPLETED": "green", "RUNNING": "bold", "PENDING": "dim", "NOT_STARTED": "dim"}

Say = Callable[[str], None]


def show_live(looks: Iterable[Look]) -> Look | None:
    """Show each snapshot in place of the previous one on the terminal, with as many runs as fit.

    Returns the last snapshot; None if there was none.
    """
    from rich.console import Console
    from rich.live import Live

    console, last = Console(highlight=False), None
    with Live(console=console, auto_refresh=False) as display:
        for last in looks:
            display.update(picture(last, console), refresh=True)
    return last


def show_plain(looks: Iterable[Look], say: Say, complain: Say) -> Look | None:
    """Print the runs that changed in each snapshot, and return the last snapshot.

    Returns None without a snapshot. The first table contains all runs, and later tables
    contain the changed runs. If no run changed, no table is printed. When no run is active or
    waiting any more, the table contains all runs again.

    say: prints a table.
    complain: prints one note. It is called for each note of a snapshot, but not if the previous
    snapshot had the same notes.
    """
    before: dict[str, WatchedRun] = {}
    notes: tuple[str, ...] = ()
    last = None
    for last in looks:
        for note in last.notes if last.notes != notes else ():
            complain(note)
        notes = last.notes
        now = {run.status.planned.run_id: run for run in last.runs}
        new = [run for identity, run in now.items() if is_new(run, before.get(identity))]
        if new:
            again = "\n" if before else ""
            say(again + plain_text(last, new if last.under_way else last.runs))
        before = now
    return last


def picture(look: Look, console: "Console") -> "RenderableType":
    """Return a snapshot as text that is not higher or wider than the terminal."""
    from rich.text import Text

    width, height = console.size
    time = datetime.now().astimezone().strftime("%H:%M:%S")
    head = Text(f"{time}  ", "dim").append(totals(look.statuses, ()), "bold")
    warned = [*(Text(printable(note), "red") for note in look.notes)]
    warned += [Text(sentence, "yellow") for sentence in watch_warnings(look)]
    kept = warned[: max(height // 4, 1)]
    if len(warned) > len(kept):
        kept[-1] = Text(f"and {counted(len(warned) - len(kept) + 1, 'more warning')}", "yellow")
    # The cursor stays in the last line of the terminal.
    lines = [head, *_runs_lines(look, width, height - len(kept) - 2), *kept]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def _runs_lines(look: Look, width: int, room: int) -> list["Text"]:
    """Return at most `room` lines: a table of the runs that fit, and a line about the others."""
    from rich.text import Text

    count = max(room, 1)
    while True:
        runs = chosen(look.runs, count)
        table = fitted(watch_table(look, runs, bars=True), width, wide_option=False)
        styles = [_style(run) for run in runs] if len(table.rows) == len(runs) else [""]
        lines = [Text(line, "dim") for line in (*table.above, *table.titles)]
        lines += [
            Text(line, style) for row, style in zip(table.rows, styles, strict=True) for line in row
        ]
        if others := others_text(look.runs, runs):
            lines.append(Text(others, "dim"))
        if len(lines) <= room or count == 1:
            return lines[: max(room, 1)]
        # A run has at least one line.
        count = max(min(count, len(runs)) - (len(lines) - room), 1)


def _style(run: WatchedRun) -> str:
    if run.slow or run.hung:
        return "yellow"
    return _STYLES.get(run.status.state, "red" if run.status.unsuccessful else "")
