"""Text shown by `teralog watch`."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from orchestrator.collect.outcomes import decided_by
from orchestrator.common.fitted import fitted_text
from orchestrator.common.tables import Column, Style, Table, make_table
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import named
from orchestrator.status import slow_runs
from orchestrator.status.progress import Progress
from orchestrator.status.table import RunStatus, held_line, totals, word
from orchestrator.status.watch import Look, WatchedRun
from orchestrator.store.job_state import WAITING
from orchestrator.store.records import NOT_STARTED, SUBMITTED, SUBMITTING

STEP = Style(digits=3)
_BAR_WIDTH = 16

_NOT_YET_RUNNING = WAITING | {NOT_STARTED, SUBMITTING, SUBMITTED}
# Sort keys: how much a run matters to a user who watches.
_WAITING, _ENDED, _RUNNING = range(3)


def state_text(status: RunStatus) -> str:
    """Return a run's state in Slurm's words, with a detail if there is one: `FAILED (oom)`.

    The detail is the outcome, if it was derived from the log and not from the state. Otherwise
    it is the reason why the run waits or was given up, or else the number of restarts.
    """
    detail = status.reason
    if decided_by(status.state, status.outcome) == "log":
        detail = status.outcome
    elif detail is None and status.outcome is None and status.job and status.job.restarts:
        detail = f"restart {status.job.restarts}"
    return f"{status.scheduler_state} ({detail})" if detail else status.scheduler_state


def watched_state(run: WatchedRun) -> str:
    """Return the state of a run; for a hung run, with a note that it hangs."""
    return f"{state_text(run.status)}, hung" if run.hung else state_text(run.status)


def left_text(run: WatchedRun) -> str | None:
    """Return the remaining time of a run in the form 0:12:05.

    Returns None if the remaining time is unknown, or if the run is not running.
    """
    seconds = run.progress.seconds_left
    if seconds is None or not _is_running(run):
        return None
    with suppress(OverflowError):  # if a number in the log is damaged
        return str(timedelta(seconds=round(seconds)))
    return None


def has_nodes(runs: Sequence[WatchedRun]) -> bool:
    """Return whether the table needs a column with nodes: for runs on Slurm or on several nodes."""
    return any(run.status.job for run in runs) or len({run.node_list for run in runs} - {None}) > 1


_BEFORE_NODES: tuple[Column[WatchedRun], ...] = (
    Column("run", "run_id", lambda run: run.status.planned.run_id),
    Column("label", "label", lambda run: run.status.planned.label),
    Column("state", "state", watched_state),
    Column("attempt", "attempt", lambda run: len(run.status.attempts) or None, minor=True),
)
_NODES: Column[WatchedRun] = Column("nodes", "node_list", lambda run: run.node_list, minor=True)
_BEHIND_NODES: tuple[Column[WatchedRun], ...] = (
    Column("iteration", "iteration", lambda run: _iteration(run.progress)),
    Column("median (s)", "step_seconds", lambda run: run.progress.step_seconds, STEP),
    Column("TFLOPs/GPU", "tflops_per_gpu", lambda run: run.progress.tflops_per_gpu, STEP),
    Column("left", "seconds_left", left_text),
)
_SLOW: Column[WatchedRun] = Column(
    "slow", "slow", lambda run: run.slow.slower if run.slow else None
)
_BAR: Column[WatchedRun] = Column(
    "progress", "progress", lambda run: _bar(run.progress), minor=True
)


def watch_table(look: Look, runs: Sequence[WatchedRun], *, bars: bool = False) -> Table:
    """Return a table with a row for each of `runs`; `bars` adds a column with progress bars."""
    nodes = (_NODES,) if has_nodes(look.runs) else ()
    slow = (_SLOW,) if look.slow else ()
    bar = (_BAR,) if bars else ()
    return make_table((*_BEFORE_NODES, *nodes, *_BEHIND_NODES, *slow, *bar), runs)


def plain_text(look: Look, runs: Sequence[WatchedRun]) -> str:
    """Return a table of `runs`, then the totals of all runs in the snapshot, and all warnings."""
    table = fitted_text(watch_table(look, runs), terminal_width(), wide_option=False)
    return "\n".join((table, totals(look.statuses, ()), *watch_warnings(look)))


def _iteration(progress: Progress) -> str | None:
    done, total = progress.iteration, progress.iterations
    return None if done is None else f"{done}/{total}" if total else str(done)


def _bar(progress: Progress) -> str | None:
    """Return the finished share of the iterations as a line of blocks, e.g. `━━━━────`.

    Returns None before the first and after the last iteration.
    """
    if not progress.iterations or not 0 < (progress.iteration or 0) < progress.iterations:
        return None
    done = _BAR_WIDTH * (progress.iteration or 0) // progress.iterations
    return "━" * done + "─" * (_BAR_WIDTH - done)


def watch_warnings(look: Look) -> list[str]:
    """Return warnings about hung runs, slow runs, runs with only skipped updates, and held jobs."""
    overflowed = [run.status.planned.label for run in look.runs if run.progress.overflowed]
    lines = [str(run.hung) for run in look.hung]
    lines += slow_runs.slow_run_lines(look.slow)
    if overflowed:
        lines.append(
            "no step time, because every report after the warm-up contains a skipped update: "
            f"{named(overflowed)}"
        )
    if held := held_line(look.statuses):
        lines.append(held)
    return lines


def chosen(runs: Sequence[WatchedRun], room: int) -> list[WatchedRun]:
    """Return up to `room` runs to show, in the campaign's order.

    Running runs are preferred, then those that ended recently, then those that wait.
    """
    if len(runs) <= room:
        return list(runs)
    by_interest = sorted(range(len(runs)), key=lambda index: _interest(runs[index]), reverse=True)
    kept = set(by_interest[: max(room, 0)])
    return [run for index, run in enumerate(runs) if index in kept]


def others_text(runs: Sequence[WatchedRun], shown_runs: Sequence[WatchedRun]) -> str | None:
    """Return a line with the number and the states of the runs that are not shown.

    Returns None if all runs are shown.
    """
    counts = Counter(word(run.status) for run in runs)
    counts.subtract(word(run.status) for run in shown_runs)
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    hidden = len(runs) - len(shown_runs)
    return f"and {hidden} more: {', '.join(parts)}" if hidden else None


def is_new(run: WatchedRun, before: WatchedRun | None) -> bool:
    """Return whether the table would show other values of a run than before.

    before: the run in the previous snapshot; None if it was never shown.
    """
    return before is None or _shown_values(run) != _shown_values(before)


def _shown_values(run: WatchedRun) -> tuple[object, ...]:
    slow = run.slow.slower if run.slow else None
    return (watched_state(run), len(run.status.attempts), run.node_list, run.progress, slow)


def _is_running(run: WatchedRun) -> bool:
    status = run.status
    return status.outcome is None and status.state not in _NOT_YET_RUNNING


def _interest(run: WatchedRun) -> tuple[int, str]:
    """Return a sort key that is higher for runs that matter more to a watching user.

    Of ended runs, those that ended later have a higher key.
    """
    if _is_running(run):
        return _RUNNING, ""
    last = run.status.attempts[-1] if run.status.attempts else None
    if last and last.ended:
        return _ENDED, last.ended.ended_at
    return _WAITING, ""
