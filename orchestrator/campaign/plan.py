"""Build the table, the JSON and the messages of `teralog plan`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.fit import Capacity, capacity, fits, gib
from orchestrator.common.tables import EXACT, Column, Table, make_table, shown
from orchestrator.common.text import counted, named
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.calibration import Calibration, Calibrations
from orchestrator.memory.forecast import MemoryForecast
from orchestrator.run import run_columns
from orchestrator.run.model import Run, sizes

# The states of runs, in words, by run id.
States = Mapping[str, str]
NO_STATES: States = MappingProxyType({})
_TO_START, _IMPOSSIBLE = "to start", "impossible"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A run with its memory forecast after calibration, and the memory available to a rank."""

    planned: PlannedRun
    memory: MemoryForecast | None
    room: Capacity | None
    calibration: Calibration | None

    @property
    def fits(self) -> str | None:
        """Whether the run fits into memory: `yes`, `no` or `maybe`; None if that is not known.

        `no` means that `submit` refuses the run. `submit` uses the forecast before calibration. So
        if only the calibrated forecast does not fit, the value is `maybe`.
        """
        if self.planned.memory_problem:
            return "no"
        answer = fits(self.memory, self.room)
        return "maybe" if answer == "no" else answer

    @property
    def interval(self) -> str | None:
        """The low and the high end of the memory forecast in GiB, as text, e.g. `12.5-17.3`.

        None if there is no forecast.
        """
        if self.memory is None:
            return None
        return f"{gib(self.memory.low_gib)}-{gib(self.memory.high_gib)}"


def _rows(campaign: Campaign, calibrations: Calibrations) -> list[_Planned]:
    return [_row(planned, campaign.cluster, calibrations) for planned in campaign.runs]


def _row(planned: PlannedRun, cluster: Cluster, calibrations: Calibrations) -> _Planned:
    calibration = calibrations.get(planned.run.framework)
    memory = planned.memory
    if memory is not None and calibration is not None:
        memory = calibration.apply(memory)
    return _Planned(planned, memory, capacity(planned.run, cluster), calibration)


def _of_run(column: Column[Run]) -> Column[_Planned]:
    """Turn a table column that reads a `Run` into a column that reads a planned run.

    The new column is minor: if a terminal is too narrow, it is among the first columns to be left
    out, because labels already show how runs differ.
    """
    return Column(
        column.title,
        column.name,
        lambda row: column.value(row.planned.run),
        column.style,
        minor=True,
    )


# Each column is shown only if a run of the campaign is split in this way.
_SPLITS = (run_columns.TENSOR, run_columns.PIPELINE, run_columns.CONTEXT)


def _columns(campaign: Campaign) -> tuple[Column[_Planned], ...]:
    splits = [
        column
        for column in _SPLITS
        if any(column.value(planned.run) != 1 for planned in campaign.runs)
    ]
    return (
        Column("run", "run_id", lambda row: row.planned.run_id),
        Column("label", "label", lambda row: row.planned.label),
        _of_run(run_columns.NODES),
        Column("ranks", "world_size", lambda row: row.planned.run.world_size),
        *map(_of_run, splits),
        _of_run(run_columns.DATA),
        _of_run(run_columns.MICRO_BATCH),
        _of_run(run_columns.MICRO_BATCHES),
        _of_run(run_columns.GLOBAL_BATCH),
        _of_run(run_columns.SIZE),
        Column("memory (GiB)", "memory_gib", lambda row: row.interval),
        Column("fits", "fits", lambda row: row.fits),
        Column("GPU-hours", "gpu_hours", lambda row: row.planned.run.resources.gpu_hours, EXACT),
        Column("problems", "problems", lambda row: len(row.planned.refusals) or None),
    )


def plan_table(campaign: Campaign, calibrations: Calibrations, states: States = NO_STATES) -> Table:
    """Return a table with a row for every run, also for impossible ones.

    states: the state of each run that `submit` will not start, by run id. If it is empty, the table
    has no column of states.
    """
    state: Column[_Planned] = Column("state", "state", lambda row: _state(row.planned, states))
    identity, label, *sizes_of_run = _columns(campaign)
    columns = (identity, label, *([state] if states else []), *sizes_of_run)
    return make_table(columns, _rows(campaign, calibrations))


def plan_records(
    campaign: Campaign, calibrations: Calibrations, states: States = NO_STATES
) -> list[dict[str, Any]]:
    """Return one object per run: identity, label, state, sizes, memory, problems, warnings."""
    return [
        {
            "run_id": row.planned.run_id,
            "label": row.planned.label,
            "state": _state(row.planned, states),
            **sizes(row.planned.run),
            "memory": _memory_record(row),
            "problems": list(row.planned.refusals),
            "warnings": list(row.planned.warnings),
        }
        for row in _rows(campaign, calibrations)
    ]


def _memory_record(row: _Planned) -> dict[str, Any] | None:
    if row.memory is None:
        return None
    return {
        "low_gib": row.memory.low_gib,
        "high_gib": row.memory.high_gib,
        "parts": [asdict(part) for part in row.memory.parts],
        "capacity_gib": row.room and row.room.gib,
        "fits": row.fits,
        "calibrated_on": row.calibration and row.calibration.runs,
    }


def calibration_lines(calibrations: Calibrations) -> list[str]:
    """Return a sentence for each framework that has calibrated memory forecasts.

    The sentence contains the number of finished runs from which the calibration was computed.
    It also contains the lowest and the highest ratio of a measured peak to the middle of its
    forecast.
    """
    return [
        f"memory forecasts of {framework} are corrected by {calibration.runs} finished runs; "
        f"their measured peaks were {calibration.lowest:.2f} to {calibration.highest:.2f} times "
        "the middle of their forecasts"
        for framework, calibration in calibrations.items()
    ]


def plan_totals(campaign: Campaign, states: States = NO_STATES) -> str:
    """Return one line: the number of runs in each state, the GPU-hours to start, and the notes.

    states: the state of each run that `submit` will not start, by run id. The other runs count as
    `to start` or `impossible`. The notes are those of the campaign, e.g. on excluded runs.
    """
    words = Counter(_state(planned, states) for planned in campaign.runs)
    hours = sum(
        planned.run.resources.gpu_hours
        for planned in campaign.runs
        if _state(planned, states) == _TO_START
    )
    # Started runs come first, impossible runs last.
    order = sorted(words, key=lambda word: (word == _IMPOSSIBLE, word == _TO_START))
    counts = ", ".join(f"{words[word]} {word}" for word in order)
    asked = f"{shown(hours, EXACT)} GPU-hours requested at most"
    total = f"{counted(len(campaign.runs), 'run')} on {campaign.cluster.name}: {counts}"
    return "; ".join((total, *([asked] if words[_TO_START] else []), *campaign.notes))


def _state(planned: PlannedRun, states: States) -> str:
    """Return the state of a run from `states`.

    If `states` does not contain the run, returns `impossible` for a run that `submit` refuses,
    and `to start` for all other runs.
    """
    state = states.get(planned.run_id)
    return state or (_IMPOSSIBLE if planned.refusals else _TO_START)


def problem_lines(campaign: Campaign) -> list[str]:
    """Return a sentence for each problem, with the labels of the runs that have the problem."""
    return _lines(campaign, lambda planned: planned.refusals)


def warning_lines(campaign: Campaign) -> list[str]:
    """Return a sentence for each warning, with the labels of the runs to which it applies."""
    return _lines(campaign, lambda planned: planned.warnings)


def _lines(campaign: Campaign, said_of: Callable[[PlannedRun], Sequence[str]]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for planned in campaign.runs:
        for sentence in said_of(planned):
            runs.setdefault(sentence, []).append(planned.label)
    every = len(campaign.runs)
    return [
        f"{sentence} ({f'all {every} runs' if len(labels) == every > 1 else named(labels)})"
        for sentence, labels in runs.items()
    ]
