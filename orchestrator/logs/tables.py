"""Make tables of logs: a row per run, or per step report."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.common.tables import EXACT, Cell, Column, Table, make_table
from orchestrator.logs.read import log_name
from parsers.summary.rows import RUN_NAMES, STEP_NAMES, Row, run_object, run_row, step_rows
from parsers.summary.run import RunSummary

_FORMATS_SHOWN = 1


def human_table(summaries: Sequence[RunSummary], *, steps: bool) -> Table:
    """Return a row per run, or per step report; columns that are empty in all are left out."""
    summaries = _below_common_folder(summaries)
    if steps:
        return _without_empty(rows_table(summaries, steps=True))
    return _without_empty(make_table(_COLUMNS, summaries))


def rows_table(summaries: Sequence[RunSummary], *, steps: bool) -> Table:
    """Return a row per run, or per step report, with the titles `names`; even if there is none."""
    columns = [Column(name, name, partial(_value, name), EXACT) for name in names(steps=steps)]
    return make_table(columns, rows(summaries, steps=steps))


def names(*, steps: bool) -> tuple[str, ...]:
    """Return the names of the values in `rows`."""
    return STEP_NAMES if steps else RUN_NAMES


def rows(summaries: Sequence[RunSummary], *, steps: bool) -> list[Row]:
    """Return a flat row per run, or per step report, named as in `parsers.summary.rows`."""
    if steps:
        return [row for summary in summaries for row in step_rows(summary)]
    return [run_row(summary) for summary in summaries]


def json_objects(summaries: Sequence[RunSummary], *, steps: bool) -> list[Row]:
    """Return an object per run, or per step report; nan and inf are texts, as JSON has neither."""
    objects = rows(summaries, steps=True) if steps else map(run_object, summaries)
    return [{name: _for_json(value) for name, value in one.items()} for one in objects]


def _for_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _below_common_folder(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs with paths as short as they can be: without the folder that all are in."""
    try:
        common = os.path.commonpath({Path(one.path).parent for one in summaries})
    except ValueError:  # none at all, or relative and absolute ones
        return list(summaries)
    return [replace(one, path=os.path.relpath(one.path, common)) for one in summaries]


def _value(name: str, row: Row) -> Cell:
    value: Cell = row[name]
    return value


def _formats(summary: RunSummary) -> str:
    named = summary.formats[:_FORMATS_SHOWN]
    more = len(summary.formats) - len(named)
    return ", ".join(named) + (f" +{more}" if more else "")


def _outcome(summary: RunSummary) -> str:
    outcome = summary.outcome
    source = Path(outcome.source or summary.path).name
    of_errors = f" of {source}" if source != Path(summary.path).name else ""
    where = f" (line {outcome.line}{of_errors})" if outcome.line is not None else ""
    asked = outcome.requested_gib
    size = "" if asked is None else f", asked for {asked:.4g} GiB"
    return f"{outcome.kind.value.replace('_', ' ')}{where}{size}"


def _without_empty(table: Table) -> Table:
    kept = [
        index
        for index in range(len(table.titles))
        if any(row[index] not in {None, ""} for row in table.rows)
    ]
    return Table(
        tuple(table.titles[index] for index in kept),
        tuple(table.names[index] for index in kept),
        tuple(table.styles[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in table.rows),
    )


_COLUMNS: tuple[Column[RunSummary], ...] = (
    Column("log", "path", log_name),
    Column("format", "formats", _formats),
    Column("n", "n", lambda one: one.step_seconds.n),
    Column("step mean (s)", "step_seconds_mean", lambda one: one.step_seconds.mean),
    Column("median (s)", "step_seconds_median", lambda one: one.step_seconds.median),
    Column("spread (s)", "step_seconds_std", lambda one: one.step_seconds.std),
    Column("samples/s", "samples_per_second", lambda one: one.samples_per_second),
    Column("tokens/s", "tokens_per_second", lambda one: one.tokens_per_second),
    Column("TFLOPs/GPU logged", "reported_tflops", lambda one: one.reported_tflops_per_gpu),
    Column("peak (GiB)", "peak_memory_gib", lambda one: one.peak_memory_gib),
    Column("outcome", "outcome", _outcome),
)
