"""Parse MLPerf's log lines: JSON after the mark `:::MLLOG`.

    :::MLLOG {"namespace": "", "time_ms": 1759673331639, "event_type": "POINT_IN_TIME", "key":
        "tracked_stats", "value": {"train_step_time": 0.216, "reduced_train_loss": 8.2}, "metadata":
        {"file": "…", "lineno": 480, "step": 31.0}}

`train_step_time` (up to v4.1: `train_step_timing` or `train_step_timing in s`) is in seconds: the
mean over the steps since the previous report. `step` is a number of steps (v5.1, next to a
`samples_count`), of samples (v5.0) or of tokens (up to v4.1), see `parsers.steps.units`.

At each validation, some submissions print another line. Its `train_step_time` is the mean over the
steps since the previous validation, and may be the only step time in the log. Such a line has a
`throughput`, and `step` is where the interval began (v5.0), or it has no `step` (v5.1). If
no other lines of the launch have iteration numbers, teralog numbers these lines from 1. Otherwise
they cover the same steps as other lines, and the numbers of the run do not use them.

A `throughput` is in samples per second (since v4.0) or in tokens per second. The line does not show
which, but the global batch does: see `parsers.steps.units`. A `throughput` next to a step time
is not read. A line with the key `run_stop` contains how the run ended. The time from `run_start` to
it is the result of the benchmark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from parsers.fields import finite_json, json_float, line_parts, parse_json
from parsers.formats.declared.json_blocks import JsonBlocks
from parsers.formats.declared.json_lines import count_of
from parsers.records import RunTotals, Setting, Step, Throughput
from parsers.scan.reader import NEVER, LogFormat, ParseLine, TableFormat

_MARK = ":::MLLOG "
_SETTINGS = {
    "global_batch_size": "global_batch_size",
    "gradient_accumulation_steps": "num_microbatches",
    "max_sequence_length": "seq_length",
    "seed": "seed",
    "submission_benchmark": "benchmark",
    "submission_platform": "platform",
}
# Other statistics, e.g. those of validations, are not read.
_TIMED = (b'"train_step_tim',)
_STEP_TIMES = ("train_step_time", "train_step_timing", "train_step_timing in s")

_KEYS = {
    "step": ("iteration", 1.0),
    "samples_count": ("consumed_samples", 1.0),
    "reduced_train_loss": ("loss", 1.0),
    **dict.fromkeys(_STEP_TIMES, ("step_seconds", 1.0)),
}

Json = Mapping[str, Any]


class _Event(NamedTuple):
    """An event on a line: its key, value and metadata, and its time in milliseconds."""

    key: object
    value: object
    metadata: Json
    time: float | None


def _parse(offset: int, line: str) -> Iterator[Step | Setting]:
    for key, value, metadata, _ in _events(line):
        if key == "tracked_stats" and isinstance(value, dict):
            yield from _step(offset, value, metadata)
        elif key in _SETTINGS and isinstance(value, int | float | str) and value != "":
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            yield Setting(name=_SETTINGS[key], value=str(whole), source="arguments", offset=offset)


@lru_cache(maxsize=1)  # for the three formats, one after the other
def _events(line: str) -> Sequence[_Event]:
    """Return the events on a line."""
    texts = (part.partition(_MARK)[2] for part in line_parts(line))
    events = [event for event in map(parse_json, texts) if isinstance(event, dict)]
    return [
        _Event(
            event.get("key"),
            event.get("value"),
            metadata if isinstance(metadata, dict) else {},
            finite_json(event.get("time_ms")),
        )
        for event in events
        for metadata in [event.get("metadata")]
    ]


def _step(offset: int, value: Json, metadata: Json) -> Iterator[Step]:
    seconds = next((finite_json(value.get(name)) for name in _STEP_TIMES if name in value), None)
    step = metadata.get("step")
    covered = "throughput" in value or step is None
    iteration = 1.0 if covered else finite_json(step)
    samples = None if covered else count_of(metadata.get("samples_count"))
    if seconds is not None and iteration is not None and iteration >= 0:
        yield Step(
            iteration=int(iteration),
            step_seconds=seconds,
            loss=json_float(value.get("reduced_train_loss")),
            consumed_samples=samples,
            covered=covered or None,
            unnumbered=(samples is None and not covered) or None,
            offset=offset,
        )


def _parse_throughput(offset: int, line: str) -> Iterator[Throughput]:
    for key, value, metadata, _ in _events(line):
        if (
            key != "tracked_stats"
            or not isinstance(value, dict)
            or not value.keys().isdisjoint(_STEP_TIMES)
        ):
            continue
        rate, iteration = finite_json(value.get("throughput")), count_of(metadata.get("step"))
        if rate is not None and rate > 0 and iteration is not None:
            yield Throughput(iteration=iteration, rate=rate, offset=offset)


def _run_time(header: str) -> ParseLine | None:
    """Return the function that reads the end of the run, if `header` is the event of its start."""
    times = (event.time for event in _events(header) if event.key == "run_start")
    start = next((time for time in times if time is not None), None)
    return None if start is None else partial(_parse_run_stop, start)


def _parse_run_stop(start: float, offset: int, line: str) -> Iterator[RunTotals]:
    for event in _events(line):
        if event.key == "run_stop" and event.time is not None and event.time > start:
            yield RunTotals(train_seconds=(event.time - start) / 1000, offset=offset)


MLPERF = LogFormat(
    name="MLPerf",
    anchors=tuple(f'"{key}"'.encode() for key in _SETTINGS) + _TIMED,
    parse=_parse,
    only=re.compile(_MARK.encode()),
    parse_lines=JsonBlocks(_KEYS, _parse),
    # Most events report something else.
    report=re.compile(
        r'"key": "tracked_stats", "value": \{(?![^{}]*"throughput")[^{}]*"train_step_tim'
        r'(?:e|ing|ing in s)": [0-9][^{}]*\}, "metadata": \{[^{}]*"step": '
    ),
)
MLPERF_THROUGHPUT = LogFormat(
    name="MLPerf, throughput",
    anchors=(b'"throughput"',),
    parse=_parse_throughput,
    only=re.compile(_MARK.encode()),
    report=NEVER,
)
MLPERF_RUN_TIME = TableFormat(
    name="MLPerf, run time",
    header=b'"run_start"',
    anchors=(b'"run_stop"',),
    row=_run_time,
)
