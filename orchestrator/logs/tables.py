"""Build tables of logs: a row per run, or per step report."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.common.tables import EXACT, Cell, Column, Style, Table, make_table
from orchestrator.logs.claims import claims
from orchestrator.logs.figures import (
    FIGURE_NAMES,
    NOTHING_GIVEN,
    Figures,
    Given,
    run_figures,
    with_tokens,
)
from orchestrator.logs.names import log_name, shortly_named
from parsers.summary.rows import RUN_NAMES, STEP_NAMES, Row, run_object, run_row, step_rows
from parsers.summary.run import RunSummary

_FORMATS_SHOWN = 1


def human_table(
    summaries: Sequence[RunSummary], given: Given = NOTHING_GIVEN, *, steps: bool
) -> Table:
    """Return the table for people: a row per run, or per step report.

    Columns without any value are left out. steps: whether there is a row per step report.
    """
    summaries = shortly_named(summaries)
    if steps:
        return _without_empty(rows_table(summaries, steps=True))
    runs = [(with_tokens(summary, given), run_figures(summary, given)) for summary in summaries]
    return _without_empty(make_table(_COLUMNS, runs))


def rows_table(
    summaries: Sequence[RunSummary], given: Given = NOTHING_GIVEN, *, steps: bool
) -> Table:
    """Return the table for files such as CSV: a row per run, or per step report.

    The column titles are the names that `names` returns, even if the table has no rows.
    """
    columns = [Column(name, name, partial(_value, name), EXACT) for name in names(steps=steps)]
    return make_table(columns, rows(summaries, given, steps=steps))


def names(*, steps: bool) -> tuple[str, ...]:
    """Return the keys of each row that `rows` returns, in order."""
    return STEP_NAMES if steps else (*RUN_NAMES, *FIGURE_NAMES)


def rows(
    summaries: Sequence[RunSummary], given: Given = NOTHING_GIVEN, *, steps: bool
) -> list[Row]:
    """Return a row per run, or per step report: a mapping from names to plain values.

    The names are those of `parsers.summary.rows`. The row of a run also has the run's figures, e.g.
    its TFLOPs.
    """
    if steps:
        return [row for summary in summaries for row in step_rows(summary)]
    return [
        run_row(with_tokens(summary, given)) | run_figures(summary, given).record()
        for summary in summaries
    ]


def json_objects(
    summaries: Sequence[RunSummary], given: Given = NOTHING_GIVEN, *, steps: bool
) -> list[Row]:
    """Return a JSON object per run, or per step report.

    The numbers nan and inf become texts, because JSON has no numbers for them.
    """
    objects = (
        rows(summaries, steps=True)
        if steps
        else (
            run_object(with_tokens(summary, given))
            | run_figures(summary, given).record()
            | {"claims": [claim.record() for claim in claims(summary, given)]}
            for summary in summaries
        )
    )
    return [{name: _for_json(value) for name, value in row.items()} for row in objects]


def _for_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_for_json(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


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


def _billions(count: int | None) -> float | None:
    return None if count is None else count / 1e9


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
        minor=tuple(table.minor[index] for index in kept),
    )


_Run = tuple[RunSummary, Figures]

_COLUMNS: tuple[Column[_Run], ...] = (
    Column("log", "path", lambda run: log_name(run[0])),
    Column("format", "formats", lambda run: _formats(run[0]), minor=True),
    Column("GPUs", "gpus", lambda run: run[1].gpus),
    Column("size (B)", "parameters", lambda run: _billions(run[1].parameters)),
    Column("global batch", "global_batch_size", lambda run: run[1].global_batch_size),
    Column("n", "n", lambda run: run[0].step_seconds.n),
    Column("step mean (s)", "step_seconds_mean", lambda run: run[0].step_seconds.mean, minor=True),
    Column("median (s)", "step_seconds_median", lambda run: run[0].step_seconds.median),
    Column("spread (s)", "step_seconds_std", lambda run: run[0].step_seconds.std, minor=True),
    # On a narrow terminal the columns on the right are the first that are left out.
    Column("TFLOPs/GPU", "tflops_per_gpu", lambda run: run[1].tflops_per_gpu),
    Column("MFU", "mfu", lambda run: run[1].mfu, Style(digits=3)),
    Column("TFLOPs/GPU logged", "reported_tflops", lambda run: run[0].reported_tflops_per_gpu),
    Column("samples/s", "samples_per_second", lambda run: run[0].samples_per_second),
    Column("tokens/s", "tokens_per_second", lambda run: run[0].tokens_per_second, minor=True),
    Column("tokens/s/GPU", "tokens_per_gpu", lambda run: run[0].tokens_per_second_per_gpu),
    Column("MFU logged", "reported_mfu", lambda run: run[0].reported_mfu, Style(digits=3)),
    Column("peak (GiB)", "peak_memory_gib", lambda run: run[0].peak_memory_gib),
    Column("outcome", "outcome", lambda run: _outcome(run[0])),
)
