"""Build plain rows of runs and steps, for JSON, CSV and frames; absent values are None."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from parsers.records import Step, Usage
from parsers.runs.run import LogRun, RunSegment
from parsers.steps.blocks import Records
from parsers.summary.run import RunSummary, summarise
from parsers.summary.warmup import Warmup

Row = dict[str, Any]

_NUMERIC = re.compile(r"[-+]?[0-9]{1,18}|[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_NAMES = frozenset({"host", "gpu", "MASTER_ADDR"})

STEP_NAMES = (
    "path",
    "run",
    "launch",
    *(field.name for field in fields(Step)),
    "counted",
)
USAGE_NAMES = ("path", "run", "launch", *(field.name for field in fields(Usage)))


def run_object(summary: RunSummary) -> Row:
    """Return a run's numbers as the object that `teralog parse --format json` prints.

    Memory is in MiB. A `line` counts from 1; an `offset` is the position of the line's first byte.
    In the configuration, numbers and true or false are JSON numbers and booleans. All other values
    are text.
    """
    outcome, warmup = summary.outcome, str(summary.warmup.written or "none")
    return {
        "path": _shown(summary.path),
        "run": summary.run,
        "formats": list(summary.formats),
        "steps": summary.reports,
        "memory_reports": summary.memory_reports,
        "peak_memory_mib": summary.peak_memory_mib,
        "samples_per_second": summary.samples_per_second,
        "tokens_per_second": summary.tokens_per_second,
        "tokens_per_second_per_gpu": summary.tokens_per_second_per_gpu,
        "reported_tflops_per_gpu": summary.reported_tflops_per_gpu,
        "reported_mfu": summary.reported_mfu,
        "engine_samples_per_second": summary.engine_samples_per_second,
        "step_seconds": asdict(summary.step_seconds),
        "step_times_from": summary.step_times_from,
        "last_iteration": summary.last_iteration,
        "result": asdict(summary.result),
        "warmup": {
            "policy": warmup,
            "dropped": summary.dropped,
            "skipped": summary.skipped,
            "covered": summary.covered,
            "steady": summary.steady,
        },
        "outcome": {
            "kind": outcome.kind.value,
            "line": outcome.line,
            "offset": outcome.offset,
            "text": outcome.text,
            "requested_gib": outcome.requested_gib,
            "path": _shown(outcome.source or summary.path),
        },
        "lines": {"understood": summary.lines, "not_understood": summary.not_understood},
        "config": {name: _typed(name, value) for name, value in summary.config.items()},
    }


def run_row(summary: RunSummary) -> Row:
    """Return a run's numbers as one flat row with names such as `step_seconds_mean`.

    The configuration is left out.
    """
    row: Row = {}
    for name, value in run_object(summary).items():
        if name == "config":
            continue
        if isinstance(value, dict):
            row |= {f"{name}_{part}": item for part, item in value.items()}
        else:
            row[name] = ", ".join(value) if isinstance(value, list) else value
    return row


def step_rows(summary: RunSummary) -> Iterator[Row]:
    """Yield a row for each step report of a run, with the names STEP_NAMES.

    step_seconds: the reported time, or the time that is computed from other values of the report.
    counted: whether the run's numbers use the report.
    """
    for report in summary.reported:
        values = {field.name: getattr(report.step, field.name) for field in fields(Step)}
        yield {
            "path": _shown(summary.path),
            "run": summary.run,
            "launch": report.launch,
            **values,
            "step_seconds": report.step_seconds,
            "counted": report.counted,
        }


def usage_rows(run: LogRun) -> Iterator[Row]:
    """Yield a row for each report of memory or of how busy a GPU is, with the names USAGE_NAMES."""
    for launch, segment in enumerate(run.segments):
        for record in segment.records:
            if isinstance(record, Usage):
                values = {field.name: getattr(record, field.name) for field in fields(Usage)}
                place = {"path": _shown(run.path), "run": run.index, "launch": launch}
                yield place | values | {"source": record.source.value}


def _shown(path: str) -> str:
    # A name may contain invalid UTF-8, which JSON cannot.
    return os.fsencode(path).decode(errors="replace")


def _typed(name: str, text: str) -> bool | int | float | str:
    """Convert a value of the configuration to a bool or a number if it is one.

    All other values stay text. So does a version, a host, a GPU or an address, even if it looks
    like a number.
    """
    if text in {"True", "true", "False", "false"}:
        return text in {"True", "true"}
    if name.endswith("version") or name in _NAMES or not _NUMERIC.fullmatch(text):
        return text
    if text.isdigit():
        # Digits that begin with a zero are a name, and longer ones are not a count.
        return int(text) if str(int(text[:19])) == text else text
    number = float(text)
    return number if math.isfinite(number) else text


_NO_RUN = LogRun(path="", index=0, segments=(RunSegment(begin=0, end=0, records=Records([])),))
RUN_NAMES = tuple(run_row(summarise(_NO_RUN, Warmup())))
