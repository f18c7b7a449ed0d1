"""Parse OLMo-core's reports: a line with the step, and a line below it for each metric.

    2026-06-22T19:07:43  … INFO  [step=10/1000,epoch=1,eta=1h2m]
        optim/total grad norm=1.234
        throughput/device/TPS=12,345
        throughput/device/TPS (actual avg)=12,001
        throughput/device/BPS=0.1234
        throughput/device/MFU=41.23
        train/CE loss=2.345

Read in console_logger.py and speed_monitor.py of versions 1 to 3: `TPS` is tokens per second and
device of this step, `BPS` its inverse time, rounded to four digits, `MFU` in percent of a peak that
is an A100's for GPUs that the program does not know, `(actual avg)` the mean since the second step.
Peaks of memory are of this step; `active` is what is allocated, or freed and still in use. Numbers
have thousands commas, and a letter from B to E behind large ones. A line with the step alone,
without metrics below it, reports nothing.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from parsers.fields import COUNT, LABELS, is_quoted
from parsers.records import Step
from parsers.scan.reader import NEVER, LogFormat

_HEAD = re.compile(
    rf"\[step=(?P<step>{COUNT})/(?:(?P<steps>{COUNT})|\?\?\?),epoch={COUNT}(?:,eta=[^\]\s]*)?\]\s*$"
)
# How many digits a number has follows from its size, which shows whether it is whole.
_METRIC = re.compile(
    LABELS + r"\s{4,}(?P<name>[\w/ ().%*-]{1,80})=(?P<value>-?(?:"
    r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{3,4}\.[0-9]|(?:[1-9][0-9]|100)\.[0-9]{2}"
    r"|(?:[1-9]|10)\.[0-9]{3}|[01]\.[0-9]{4}|0\.0|[0-9]\.[0-9]{2}E[-+][0-9]{2}|inf)|nan)"
    r"(?P<suffix>[BTPE]?)\s*$"
)
_SUFFIXES = {"": 1.0, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
# Field of a Step, by name, with the divisor.
_FIELDS = {
    "train/CE loss": ("loss", 1.0),
    "optim/total grad norm": ("grad_norm", 1.0),
    "optim/LR": ("learning_rate", 1.0),
    "optim/LR (group 0)": ("learning_rate", 1.0),
    "throughput/device/TPS": ("tokens_per_second_per_gpu", 1.0),
    "throughput/device/MFU": ("reported_mfu", 100.0),
    "throughput/device/flopsPS": ("reported_tflops_per_gpu", 1e12),
    "gpu_memory/GPU active mem (GiB)": ("max_memory_allocated_gib", 1.0),
    "gpu_memory/GPU reserved mem (GiB)": ("max_memory_reserved_gib", 1.0),
}
_ANY_NUMBER = frozenset({"loss", "grad_norm"})


def _parse(offset: int, text: str) -> Iterator[Step]:
    head, *lines = text.split("\n")
    begun = None if is_quoted(head) else _HEAD.search(head)
    if begun is None:
        return
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        metric = _METRIC.match(line)
        if metric is None:
            break
        name, divisor = _FIELDS.get(metric["name"], (None, 1.0))
        value = float(metric["value"].replace(",", "")) * _SUFFIXES[metric["suffix"]]
        # FLOPs are many; without the letter behind them their number is torn. 0.0 is a zero, or the
        # beginning of another number.
        torn = name == "reported_tflops_per_gpu" and not metric["suffix"]
        torn |= metric["value"].endswith("0.0") and not float(metric["value"])
        # At the end of the log, 9,786 may be the beginning of 9,786,123.
        torn |= "," in metric["value"] and number == len(lines)
        if name is not None and not torn and (name in _ANY_NUMBER or math.isfinite(value)):
            fields.setdefault(name, value / divisor)
    if fields:
        yield Step(
            iteration=int(begun["step"]),
            iterations=int(begun["steps"]) if begun["steps"] else None,
            offset=offset,
            **fields,
        )


OLMO_CORE = LogFormat(
    name="OLMo-core",
    anchors=(b"[step=",),
    parse=_parse,
    following=64,
    # Without metrics the line is progress.
    report=NEVER,
)
