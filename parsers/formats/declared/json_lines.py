"""Parse metrics that programs write as JSON, an object on each line.

    {"step": 3, "epoch": 0, "timestamp": "2026-04-01T16:06:16.930Z", "loss": 0.8, "grad_norm": 71.7,
     "lr": 4.6e-06, "mem": 10.66, "tps": 93026.5, "tps_per_gpu": 11628.3, "mfu": 7.35, …}

That is NVIDIA's Automodel: `mem` is the allocated memory in GiB, `tps` tokens per second over all
ranks, the MFU in percent.
"""

import json
import re
from collections.abc import Iterator

from parsers.fields import finite_json, json_float
from parsers.records import Step
from parsers.scan.reader import LogFormat

_OBJECT = re.compile(r'^\s*(?P<object>\{"step": [0-9].*\})\s*$')


def _parse(offset: int, line: str) -> Iterator[Step]:
    match = _OBJECT.match(line)
    try:
        values = json.loads(match["object"]) if match else None
    except (ValueError, RecursionError):
        return
    if not isinstance(values, dict) or not isinstance(values.get("step"), int):
        return
    mfu = finite_json(values.get("mfu"))
    timestamp = values.get("timestamp")
    yield Step(
        iteration=values["step"],
        loss=json_float(values.get("loss")),
        grad_norm=json_float(values.get("grad_norm")),
        learning_rate=finite_json(values.get("lr")),
        max_memory_allocated_gib=finite_json(values.get("mem")),
        tokens_per_second=finite_json(values.get("tps")),
        tokens_per_second_per_gpu=finite_json(values.get("tps_per_gpu")),
        reported_mfu=None if mfu is None else mfu / 100,
        timestamp=timestamp if isinstance(timestamp, str) else None,
        offset=offset,
    )


AUTOMODEL = LogFormat(
    name="Automodel metrics",
    anchors=(b'"tps_per_gpu": ',),
    parse=_parse,
    report=re.compile(r'^\s*\{"step": [0-9]'),
)
