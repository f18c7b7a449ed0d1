"""Declare formats with a line that contains the step, and one line below it for each metric.

    2026-06-22T19:07:43  … INFO  [step=10/1000,epoch=1,eta=1h2m]                OLMo-core, OLMo
        optim/total grad norm=1.234
        throughput/device/TPS=12,345
        throughput/device/TPS (actual avg)=12,001
        throughput/device/MFU=41.23
        train/CE loss=2.345
    [batch=366/48000]:                                                Composer and llm-foundry
         Train time/batch: 365
         Train time/token: 382730240
         Train memory/peak_reserved_mem: 51.3280
         Train loss/train/total: 10.3750
    step: 100                                                         fms-fsdp
    loss: 7.9461
    reserved memory: 71911342080
    current step time: 2.3981
    current token per gpu per sec: 3415

A line with a step makes no record if no known metric is below it.

OLMo-core (from console_logger.py and speed_monitor.py of versions 1 to 3): `TPS` is tokens
per second and device of this step, and `(actual avg)` is the mean since the second step.
`MFU` is in percent of the GPU's peak; for a GPU that the program does not know, it uses
the peak of an A100. Peaks of memory are of this step. The `active` memory is allocated, or
freed but still in use. Numbers have commas between thousands. A large number ends with a
letter: B is 10**9, T is 10**12, P is 10**15 and E is 10**18. A number with a letter is
rounded, so it is not read as a count. OLMo, the predecessor of OLMo-core, prints other
names of metrics, and until 2024 no epoch. Its tokens/s are the mean of a window of steps,
and its memory is in 10**6 bytes.

Composer: rates are means of a window of batches, and memory is in 10**9 bytes. If the
length of the training is not given in batches, the line is e.g. `[token=4096/65536]:`, or
`[epoch=1][batch=3/40]:`, which counts batches from the start of the epoch. The step of the
training is then one more than `time/batch`, the number of batches before this one.

fms-fsdp: the step time is the mean since the report before, and memory is in bytes. Other programs
print `step: 1` alone on a line, too, so a report without the step time is not read.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from parsers.fields import COUNT, NUMBER, is_quoted, parse_number
from parsers.labels import LABELS, after_labels
from parsers.records import COUNT_FIELDS, NOT_FINITE_FIELDS, Step
from parsers.scan.reader import NEVER, LogFormat

_SUFFIXES = {"": 1.0, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_EARLIER = "earlier_steps"
_COUNTS = COUNT_FIELDS | {_EARLIER}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricBlocks:
    """A format with a line for each metric, below a line with the step.

    name: the name that users see.
    anchors: byte strings; each line with a step contains at least one.
    fields: for each metric, the field of Step and the divisor that converts the metric's value
    to the field's unit. `earlier_steps` is not a field: it is the number of steps before this one.
    needed: a field that every report contains; None if there is none.
    only: see `LogFormat`.

    The other members are regular expressions:
    head: the end of the line with a step, with the groups `step` and `steps`. They may be empty if
    a metric contains the number of earlier steps.
    metric: a line with a metric after its labels, with the groups `name` and `rest`.
    value: matches the group `rest` if its number is whole, with the groups `value` and
    `suffix`.
    unsure: matches a `value` that may be the beginning of a longer number, e.g. 9,786 of
    9,786,123. If the last line below a step contains such a value, the line may be torn, and
    the value is not read. All lines before it are certainly whole.
    """

    name: str
    anchors: tuple[bytes, ...]
    head: re.Pattern[str]
    metric: str
    value: re.Pattern[str]
    unsure: re.Pattern[str]
    fields: Mapping[str, tuple[str, float]]
    needed: str | None = None
    only: re.Pattern[bytes] | None = None


def _parse(declared: MetricBlocks, offset: int, text: str) -> Iterator[Step]:
    head, *lines = text.split("\n")
    begun = None if is_quoted(head) else declared.head.search(head)
    if begun is None:
        return
    found: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        metric = after_labels(declared.metric).match(line)
        if metric is None:
            break
        name, divisor = declared.fields.get(metric["name"], (None, 1.0))
        printed = declared.value.fullmatch(metric["rest"].rstrip())
        if name is None or printed is None:
            continue
        if number == len(lines) and declared.unsure.fullmatch(printed["value"]):
            continue
        printed_number = parse_number(printed["value"].replace(",", ""))
        if printed_number is None:
            continue
        value = printed_number * _SUFFIXES[printed["suffix"] or ""]
        # OLMo-core prints FLOPs with a letter, e.g. T; a number without the letter is torn.
        if name == "reported_tflops_per_gpu" and value < 1e9:
            continue
        if name in _COUNTS and (printed["suffix"] or not value.is_integer()):
            continue
        if math.isfinite(value) or (
            name in NOT_FINITE_FIELDS and not math.isfinite(printed_number)
        ):
            found.setdefault(name, int(value) if name in _COUNTS else value / divisor)
    earlier = found.pop(_EARLIER, None)
    step = begun["step"] or (None if earlier is None else earlier + 1)
    if found and step is not None and (declared.needed is None or declared.needed in found):
        yield Step(
            iteration=int(step),
            iterations=int(begun["steps"]) if begun["steps"] else None,
            offset=offset,
            **found,
        )


def _format(declared: MetricBlocks) -> LogFormat:
    return LogFormat(
        name=declared.name,
        anchors=declared.anchors,
        parse=partial(_parse, declared),
        only=declared.only,
        following=64,
        # A line without metrics below it shows only progress.
        report=NEVER,
    )


OLMO_CORE = _format(
    MetricBlocks(
        name="OLMo-core",
        anchors=(b"[step=",),
        head=re.compile(
            rf"\[step=(?P<step>{COUNT})/(?:(?P<steps>{COUNT})|\?\?\?)(?:,epoch={COUNT}"
            r"(?:,eta=[^\]]*)?)?\]\s*$"
        ),
        metric=r"\s{4,}(?P<name>[\w/ ().%*-]{1,80})=(?P<rest>.*)",
        # How many digits a number has follows from its size, which shows whether it is whole.
        value=re.compile(
            r"(?P<value>-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{3,4}\.[0-9]|(?:[1-9][0-9]|100)\.[0-9]{2}"
            r"|(?:[1-9]|10)\.[0-9]{3}|[01]\.[0-9]{4}|0\.0|[0-9](?:\.[0-9]+)?[Ee][-+][0-9]{2}|inf)"
            r"|nan)(?P<suffix>[BTPE]?)"
        ),
        # 9,786 may be the beginning of 9,786,123, and 0.0 that of another number.
        unsure=re.compile(r".*,.*|-?0\.0"),
        fields={
            "train/CE loss": ("loss", 1.0),
            "train/CrossEntropyLoss": ("loss", 1.0),
            "optim/total grad norm": ("grad_norm", 1.0),
            "optim/total_grad_norm": ("grad_norm", 1.0),
            "optim/LR": ("learning_rate", 1.0),
            "optim/LR (group 0)": ("learning_rate", 1.0),
            "optim/learning_rate_group0": ("learning_rate", 1.0),
            "throughput/total_tokens": ("consumed_tokens", 1.0),
            "throughput/total tokens": ("consumed_tokens", 1.0),
            "throughput/device/tokens_per_second": ("tokens_per_second_per_gpu", 1.0),
            "throughput/device/TPS": ("tokens_per_second_per_gpu", 1.0),
            "throughput/device/MFU": ("reported_mfu", 100.0),
            "throughput/device/flopsPS": ("reported_tflops_per_gpu", 1e12),
            "gpu_memory/GPU active mem (GiB)": ("max_memory_allocated_gib", 1.0),
            "gpu_memory/GPU reserved mem (GiB)": ("max_memory_reserved_gib", 1.0),
            "System/Peak GPU Memory (MB)": ("max_memory_allocated_gib", 2**30 / 1e6),
        },
    )
)

COMPOSER = _format(
    MetricBlocks(
        name="Composer",
        anchors=(b"[batch=", b"[token=", b"[sample=", b"[iteration=", b"[second="),
        head=re.compile(
            rf"(?:(?<![0-9]\])\[batch=(?P<step>{COUNT})/(?P<steps>{COUNT})\]"
            rf"|\[epoch={COUNT}\]\[batch={COUNT}(?:/{COUNT})?\]"
            rf"|\[(?:token|sample|iteration|second)={COUNT}/{COUNT}\]):\s*$"
        ),
        metric=r"\s+Train (?P<name>[\w/-]{1,80}): (?P<rest>.*)",
        value=re.compile(rf"(?P<value>-?[0-9]{{1,30}}\.[0-9]{{4}}|nan|inf|{COUNT})(?P<suffix>)"),
        unsure=re.compile(r"[0-9]+"),
        fields={
            "loss/train/total": ("loss", 1.0),
            "time/batch": (_EARLIER, 1.0),
            "time/token": ("consumed_tokens", 1.0),
            "time/sample": ("consumed_samples", 1.0),
            "memory/peak_allocated_mem": ("max_memory_allocated_gib", 2**30 / 1e9),
            "memory/peak_reserved_mem": ("max_memory_reserved_gib", 2**30 / 1e9),
            "throughput/samples_per_sec": ("samples_per_second", 1.0),
            "throughput/tokens_per_sec": ("tokens_per_second", 1.0),
            "throughput/device/tokens_per_sec": ("tokens_per_second_per_gpu", 1.0),
            "throughput/device/flops_per_sec": ("reported_tflops_per_gpu", 1e12),
            "throughput/device/mfu": ("reported_mfu", 1.0),
        },
    )
)

FMS_FSDP = _format(
    MetricBlocks(
        name="fms-fsdp",
        anchors=(b"step: ",),
        head=re.compile(rf"(?:{LABELS}|(?<!\w)(?<!\w ))step: (?P<step>{COUNT})(?P<steps>)\s*$"),
        only=re.compile(rb"step: [0-9]+(?:\s|\x1b\[[0-9;]*m)*$"),
        metric=(
            r"(?P<name>loss|LR|tokens seen|gradient norm|(?:reserved|allocated) memory"
            r"|(?:current|overall) (?:step time|token [a-z ]{1,20})): (?P<rest>.*)"
        ),
        value=re.compile(rf"(?P<value>{NUMBER}|nan|inf)(?P<suffix>)"),
        unsure=re.compile(".*"),
        fields={
            "loss": ("loss", 1.0),
            "LR": ("learning_rate", 1.0),
            "tokens seen": ("consumed_tokens", 1.0),
            "gradient norm": ("grad_norm", 1.0),
            "reserved memory": ("max_memory_reserved_gib", 2**30),
            "allocated memory": ("max_memory_allocated_gib", 2**30),
            "current step time": ("step_seconds", 1.0),
            "current token per gpu per sec": ("tokens_per_second_per_gpu", 1.0),
        },
        needed="step_seconds",
    )
)
