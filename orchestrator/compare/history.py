"""Find when the runs of one configuration became slower or faster.

A run counts as one value, however many steps it has. All runs of one allocation together also count
as one value, their mean, because they share the speed of the allocation. Everything is computed in
logarithms of step times, as in `compare`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from orchestrator.common.tables import DASH, Cell, Column, Style, Table, make_table, shown
from orchestrator.common.text import counted, printable
from orchestrator.compare.change_point import FEWEST, LEVEL, Change, fewest_on_a_side, find_change
from orchestrator.compare.past_runs import PastRun

_SHORT = Style(digits=2)


@dataclass(frozen=True, slots=True)
class Turn:
    """The largest change of step times in a history.

    change: the position of the change, and its p-value. last: the last run before the change.
    first: the first run after the change. seconds: the geometric mean of the step times before the
    change. seconds_after: the geometric mean after it.
    """

    change: Change
    last: PastRun
    first: PastRun
    seconds: float
    seconds_after: float

    @property
    def ratio(self) -> float:
        """The step time after the change divided by the step time before: 1.1 means 10 % longer."""
        return math.exp(self.change.difference)


@dataclass(frozen=True, slots=True)
class History:
    """The runs of a configuration, oldest first.

    timed: how many runs have a step time. units: how many independent numbers the test for a change
    uses: one per allocation, and one per run without a known allocation. turn: the largest change
    of step times, whether significant or not; None with fewer than two units.
    """

    runs: tuple[PastRun, ...]
    timed: int
    units: int
    turn: Turn | None

    @property
    def shown(self) -> Turn | None:
        """The change of step times, if it is significant; otherwise None."""
        return self.turn if self.turn and self.turn.change.is_shown else None


def run_history(runs: Sequence[PastRun]) -> History:
    """Return the history of the runs of one configuration.

    runs: in order of time.
    """
    timed = [run for run in runs if run.step_seconds]
    units = _units(timed)
    logs = [fmean(math.log(run.step_seconds or 1) for run in unit) for unit in units]
    change = find_change(logs)
    turn = None
    if change is not None:
        at = change.index
        means = (math.exp(fmean(logs[:at])), math.exp(fmean(logs[at:])))
        turn = Turn(change, units[at - 1][-1], units[at][0], *means)
    return History(tuple(runs), len(timed), len(units), turn)


def _units(runs: Sequence[PastRun]) -> list[list[PastRun]]:
    """Return the runs grouped by allocation; a run without an allocation is a group of its own."""
    groups: dict[object, list[PastRun]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(index if run.allocation is None else run.allocation, []).append(run)
    return list(groups.values())


def _versions(run: PastRun) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


def history_table(history: History) -> Table:
    """Return a table with a row per run.

    If the step times changed significantly, the row of the first run after the change contains the
    change in %.
    """

    def change(run: PastRun) -> Cell:
        turn = history.shown
        return _percent(turn.ratio) if turn is not None and run is turn.first else None

    columns: tuple[Column[PastRun], ...] = (
        Column("started", "started_at", lambda run: run.started_at),
        Column("campaign", "campaign", lambda run: run.campaign),
        Column("run", "run_id", lambda run: run.run_id),
        Column("attempt", "attempt", lambda run: run.attempt),
        Column("nodes", "nodes", lambda run: run.nodes),
        Column("step (s)", "step_seconds", lambda run: run.step_seconds),
        Column("TFLOPs/GPU", "tflops_per_gpu", lambda run: run.tflops_per_gpu, Style(digits=3)),
        Column("change", "change", change),
        Column("versions", "versions", _versions),
    )
    return make_table(columns, history.runs)


def history_sentences(history: History) -> list[str]:
    """Return sentences on whether, when and how much the step times of a configuration changed.

    The last sentences are about the runs without a step time and the crowded runs, if there are
    any.
    """
    turn = history.turn
    if turn is None or history.shown is None:
        sentences = [f"No change is visible in {_basis(history)}{_why_not(history)}."]
    else:
        sentences = [
            _turned(turn, _basis(history)),
            f"The last run before the change is {_name(turn.last)}{_differences(turn)}.",
        ]
    missing = len(history.runs) - history.timed
    if missing:
        sentences.append(f"{counted(missing, 'run')} completed without a step time.")
    crowded = sum(run.crowded is not None for run in history.runs)
    if crowded:
        sentences.append(
            f"{counted(crowded, 'run was', 'runs were')} crowded (more ranks than cores, or "
            "other runs at the same time), which makes steps slower."
        )
    return [printable(sentence) for sentence in sentences]


def history_record(history: History) -> dict[str, Any]:
    """Return a history as a JSON object; times in seconds."""
    turn = history.turn
    return {
        "runs": [
            {
                "started_at": run.started_at,
                "campaign": run.campaign,
                "run_id": run.run_id,
                "label": run.label,
                "attempt": run.attempt,
                "nodes": run.nodes,
                "crowded": run.crowded,
                "allocation": run.allocation,
                "step_seconds": run.step_seconds,
                "tflops_per_gpu": run.tflops_per_gpu,
                "versions": dict(run.versions),
            }
            for run in history.runs
        ],
        "timed": history.timed,
        "units": history.units,
        "changed": history.shown is not None,
        "largest": None
        if turn is None
        else {
            "since": _place(history, turn.first),
            "ratio": turn.ratio,
            "step_seconds_before": turn.seconds,
            "step_seconds_after": turn.seconds_after,
            "p_value": turn.change.p_value,
            "exact": turn.change.exact,
        },
        "said": history_sentences(history),
    }


def _turned(turn: Turn, basis: str) -> str:
    longer = "longer" if turn.ratio > 1 else "shorter"
    return (
        f"Steps take {_percent(turn.ratio).lstrip('+-')} {longer} since {_name(turn.first)}: "
        f"{shown(turn.seconds)} s before, {shown(turn.seconds_after)} s from then on, computed "
        f"from {basis}. Such a clear change occurs by chance in {_chance(turn.change)}."
    )


def _place(history: History, wanted: PastRun) -> int:
    """Return the index, from 0, of the run `wanted` among the runs of a history."""
    return next(index for index, run in enumerate(history.runs) if run is wanted)


def _why_not(history: History) -> str:
    if fewest_on_a_side(history.units) is None:
        return f": at least {FEWEST} separate runs are needed"
    if history.turn is None:
        return ""
    return (
        f": the clearest change, {_percent(history.turn.ratio)} since {_name(history.turn.first)}, "
        f"occurs by chance in {_chance(history.turn.change)}; the limit for a visible change is "
        f"{100 * LEVEL:.3g}%"
    )


def _basis(history: History) -> str:
    runs = f"{'this' if history.timed == 1 else 'these'} {counted(history.timed, 'run')}"
    if history.units == history.timed:
        return runs
    return f"{runs} in {counted(history.units, 'allocation')} (each allocation counts once)"


def _differences(turn: Turn) -> str:
    """Return a text with the versions and nodes that differ between two runs.

    The two runs are the last one before the change and the first one after it. The text is empty if
    nothing differs.
    """
    old, new = turn.last, turn.first
    names = dict.fromkeys((*old.versions, *new.versions))
    pairs = [(name, old.versions.get(name), new.versions.get(name)) for name in names]
    pairs.append(("nodes", old.nodes, new.nodes))
    changes = [
        f"{name} {before or DASH} → {after or DASH}"
        for name, before, after in pairs
        if before != after
    ]
    return (
        f"; differences between this run and the next one: {', '.join(changes)}" if changes else ""
    )


def _chance(change: Change) -> str:
    orders = "all possible orders" if change.exact else "random orders"
    return f"{shown(100 * change.p_value, _SHORT)}% of {orders} of the runs"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.3g}%"


def _name(run: PastRun) -> str:
    return f"{run.started_at or DASH} ({run.campaign} {run.run_id})"
