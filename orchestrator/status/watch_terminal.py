"""Show a watched campaign: a table that stays in place, or lines for a pipe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.common.tables import DASH, shown
from orchestrator.common.text import counted, printable
from orchestrator.status.table import totals
from orchestrator.status.watch import Look, WatchedRun
from orchestrator.status.watch_text import (
    STEP,
    chosen,
    has_nodes,
    is_new,
    left_text,
    others_text,
    plain_text,
    watch_warnings,
    watched_state,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

# Columns that do without much room; labels take what is left.
_WIDE = 110
_STATE_WIDTH, _NARROW_STATE_WIDTH = 32, 20
_NODES_WIDTH, _NARROW_NODES_WIDTH = 24, 10
_LEAST_LABEL_WIDTH = 8
_BAR_WIDTH = 16
_STYLES = {"COMPLETED": "green", "RUNNING": "bold", "PENDING": "dim", "NOT_STARTED": "dim"}

Say = Callable[[str], None]


def show_live(looks: Iterable[Look]) -> Look | None:
    """Show looks in place on the terminal, as many runs as fit; return the last one."""
    from rich.console import Console
    from rich.live import Live

    console, last = Console(highlight=False), None
    with Live(console=console, auto_refresh=False) as display:
        for last in looks:
            display.update(picture(last, console), refresh=True)
    return last


def show_plain(looks: Iterable[Look], say: Say, complain: Say) -> Look | None:
    """Say what is new with each look; return the last one.

    The first table and the last are of all runs, those between of the runs of which there is
    something new. Where there is nothing new, nothing is said. `complain` gets the notes.
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
    """Return a look as it is shown in place, not higher or wider than the terminal."""
    from rich.console import Group
    from rich.text import Text

    width, height = console.size
    time = datetime.now().astimezone().strftime("%H:%M:%S")
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(f"{time}  ", "dim").append(totals(look.statuses, ()), "bold")
    warned = [*(Text(printable(note), "red") for note in look.notes)]
    warned += [Text(sentence, "yellow") for sentence in watch_warnings(look)]
    kept = warned[: max(height // 4, 1)]
    if len(warned) > len(kept):
        kept[-1] = Text(f"and {counted(len(warned) - len(kept) + 1, 'more warning')}", "yellow")
    for line in kept:
        line.no_wrap, line.overflow = True, "ellipsis"
    # The head, the titles and the rule below them, the line of what is not shown, and the last
    # line of the terminal, where the cursor stays.
    runs = chosen(look.runs, max(height - len(kept) - 5, 1))
    others = others_text(look.runs, runs)
    hidden = [Text(others, "dim", no_wrap=True, overflow="ellipsis")] if others else []
    return Group(head, _table(look.runs, runs, width), *hidden, *kept)


def _table(all_runs: Sequence[WatchedRun], runs: Sequence[WatchedRun], width: int) -> "Table":
    from rich import box
    from rich.cells import cell_len
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    wide = width >= _WIDE
    columns = _columns(all_runs, wide=wide)
    texts = [[printable(column.text(run)) for run in runs] for column in columns]
    widths = [
        min(max(map(cell_len, (column.title, *cells))), column.most)
        for column, cells in zip(columns, texts, strict=True)
    ]
    bar = [_BAR_WIDTH] if wide else []
    # Two blanks between columns; labels come first, and take what is left.
    left = width - sum(widths[1:] + bar) - 2 * (len(widths) + len(bar) - 1)
    widths[0] = min(widths[0], max(left, _LEAST_LABEL_WIDTH))
    texts[0] = [_shortened(label, widths[0]) for label in texts[0]]
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        border_style="dim",
    )
    for column, most in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.number else "left",
            width=most,
            no_wrap=True,
            overflow="ellipsis",
        )
    if wide:
        table.add_column("", width=_BAR_WIDTH)
    for run, row in zip(runs, zip(*texts, strict=True), strict=True):
        done, total = run.progress.iteration, run.progress.iterations
        share = ProgressBar(total=total, completed=done or 0) if done and total else ""
        style = (
            "yellow" if run.slow or run.hung else _STYLES.get(run.status.state, _state_style(run))
        )
        table.add_row(*(Text(text) for text in row), *([share] if wide else []), style=style)
    return table


def _shortened(label: str, width: int) -> str:
    """Return a label in so many columns; its end stays, where the number of a repeat stands."""
    end = width // 2
    return label if len(label) <= width else f"{label[: width - end - 1]}…{label[-end:]}"


def _state_style(run: WatchedRun) -> str:
    return "red" if run.status.unsuccessful else ""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the picture: `most` is how wide it may be; numbers stand to the right."""

    title: str
    text: Callable[[WatchedRun], str]
    most: int = 100
    number: bool = True


def _columns(runs: Sequence[WatchedRun], *, wide: bool) -> list[_Column]:
    found = [
        _Column("run", lambda run: run.status.planned.label, number=False),
        _Column(
            "state",
            watched_state,
            _STATE_WIDTH if wide else _NARROW_STATE_WIDTH,
            number=False,
        ),
        _Column("try", lambda run: shown(len(run.status.attempts) or None)),
    ]
    if has_nodes(runs):
        most = _NODES_WIDTH if wide else _NARROW_NODES_WIDTH
        found.append(_Column("nodes", lambda run: shown(run.node_list), most, number=False))
    found += [
        _Column("iteration", _iteration),
        _Column("s/step", lambda run: shown(run.progress.step_seconds, STEP)),
        _Column("TFLOPs", lambda run: shown(run.progress.tflops_per_gpu, STEP)),
        _Column("left", lambda run: shown(left_text(run))),
    ]
    if any(run.slow for run in runs):
        found.append(_Column("slow", lambda run: run.slow.slower if run.slow else ""))
    return found


def _iteration(run: WatchedRun) -> str:
    done, total = run.progress.iteration, run.progress.iterations
    return DASH if done is None else f"{done}/{total}" if total else str(done)
