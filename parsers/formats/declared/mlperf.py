"""Parse MLPerf's log lines: JSON after the mark `:::MLLOG`.

    :::MLLOG {"namespace": "", "time_ms": 1759673331639, "event_type": "POINT_IN_TIME", "key":
        "tracked_stats", "value": {"train_step_time": 0.216, "reduced_train_loss": 8.2}, "metadata":
        {"file": "…", "lineno": 480, "step": 31.0}}

`train_step_time` (up to v3.0: `train_step_timing`) is in seconds: the mean over the steps
since the previous report. The meaning of `step` differs between submissions. A line without
`step` contains means over steps that were reported before, so it is not read. A
`throughput` may be in samples or in tokens per second. The line does not show which, so the
throughput is not read. A line with the key `run_stop` contains how the run ended.
"""

import re
from collections.abc import Iterator
from typing import Any

from parsers.fields import finite_json, json_float, line_parts, parse_json
from parsers.records import Setting, Step
from parsers.scan.reader import LogFormat

_MARK = ":::MLLOG "
_SETTINGS = {
    "global_batch_size": "global_batch_size",
    "gradient_accumulation_steps": "num_microbatches",
    "max_sequence_length": "seq_length",
    "seed": "seed",
    "submission_benchmark": "benchmark",
    "submission_platform": "platform",
}
_STEP_TIMES = ("train_step_time", "train_step_timing")


def _parse(offset: int, line: str) -> Iterator[Step | Setting]:
    for part in line_parts(line):
        _, mark, text = part.partition(_MARK)
        event = parse_json(text) if mark else None
        if not isinstance(event, dict):
            continue
        key, value, metadata = (event.get(name) for name in ("key", "value", "metadata"))
        if key == "tracked_stats" and isinstance(value, dict) and isinstance(metadata, dict):
            yield from _step(offset, value, metadata)
        elif key in _SETTINGS and isinstance(value, int | float | str) and value != "":
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            yield Setting(name=_SETTINGS[key], value=str(whole), source="arguments", offset=offset)


def _step(offset: int, value: dict[str, Any], metadata: dict[str, Any]) -> Iterator[Step]:
    seconds = next((finite_json(value.get(name)) for name in _STEP_TIMES if name in value), None)
    # Means over an interval have none: their steps have been reported.
    iteration = finite_json(metadata.get("step"))
    if seconds is not None and iteration is not None and iteration >= 0:
        yield Step(
            iteration=int(iteration),
            step_seconds=seconds,
            loss=json_float(value.get("reduced_train_loss")),
            offset=offset,
        )


MLPERF = LogFormat(
    name="MLPerf",
    anchors=tuple(f'"{key}"'.encode() for key in ("tracked_stats", *_SETTINGS)),
    parse=_parse,
    # Most events report something else.
    report=re.compile(
        r'"key": "tracked_stats", "value": \{[^{}]*"train_step_tim(?:e|ing)": [0-9]'
        r'[^{}]*\}, "metadata": \{[^{}]*"step": '
    ),
)
