"""The fields of Megatron's iteration lines: what each name means, and how its value is read."""

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from parsers.fields import COUNT, NUMBER

# 13100.0/13240.9, 4.71K, 150.3TFLOPS, NAN (as Python prints a nan in format E)
_VALUE = re.compile(rf"((?i:{NUMBER}))([KMGBTPE]?)(?:FLOPS)?(?:/(?i:{NUMBER}))?")
_POWERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PLAIN = frozenset("0123456789.-+E")
_COUNT = re.compile(COUNT)


def printed(text: str) -> float:
    """Return a value as printed, nan and inf too. Raises ValueError where `text` is none."""
    if _PLAIN.issuperset(text):
        return float(text)  # most values; three times as fast as the pattern
    if not (match := _VALUE.fullmatch(text)):
        raise ValueError(text)
    number, suffix = match.groups()
    return float(number) * _POWERS[suffix]


def measured(text: str) -> float | None:
    """Return a value, or None for nan and inf. Raises ValueError."""
    value = printed(text)
    return value if math.isfinite(value) else None


def _scaled(text: str, *, divisor: float) -> float | None:
    value = measured(text)
    return None if value is None else value / divisor


def _count(text: str) -> int:
    if _COUNT.fullmatch(text):
        return int(text)
    value = printed(text)
    if text[-1] not in _POWERS or not 0 <= value < math.inf:
        raise ValueError(text)
    return round(value)


_milliseconds = partial(_scaled, divisor=1e3)
_flops = partial(_scaled, divisor=1e12)
_bytes = partial(_scaled, divisor=2.0**30)

Fields = dict[str, tuple[str, Callable[[str], float | None]]]


def _spelt(fields: Fields) -> Fields:
    """Let names be spelt with underscores, too."""
    return {name.replace(" ", "_"): field for name, field in fields.items()} | fields


_SHARED: Fields = {
    "consumed samples": ("consumed_samples", _count),
    "consumed tokens": ("consumed_tokens", _count),
    "global batch size": ("global_batch_size", _count),
    "lm loss": ("loss", printed),
    "grad norm": ("grad_norm", printed),
    "elapsed time per iteration ms": ("step_seconds", _milliseconds),
}
MEGATRON_FIELDS = _spelt(
    _SHARED
    | {
        "elapsed time per iteration (ms)": ("step_seconds", _milliseconds),
        "elapsed time per iteration (s)": ("step_seconds", measured),
        "iteration time": ("step_seconds", measured),
        "gloabl batch size": ("global_batch_size", _count),  # so MindSpeed's documentation
        "learning rate": ("learning_rate", printed),
        "lm-loss": ("loss", printed),
        "loss": ("loss", printed),
        "loss scale": ("loss_scale", printed),
        "number of skipped iterations": ("skipped_iterations", _count),
        "number of nan iterations": ("nan_iterations", _count),
        "samples per second": ("samples_per_second", measured),
        "throughput per GPU (TFLOP/s/GPU)": ("reported_tflops_per_gpu", measured),
        "approx flops per GPU": ("reported_tflops_per_gpu", _flops),
        "TFLOPs": ("reported_tflops_per_gpu", measured),
        "[LM]TFLOPs": ("reported_tflops_per_gpu", measured),
        "[LM]-TFLOPs": ("reported_tflops_per_gpu", measured),
    }
)
NANOTRON_FIELDS = _spelt(
    _SHARED
    | {
        "tokens per sec": ("tokens_per_second", measured),
        "lr": ("learning_rate", printed),
        "model tflops per gpu": ("reported_tflops_per_gpu", measured),
        "cuda memory allocated": ("memory_allocated_gib", _bytes),
    }
)


def closed_fields(report: str) -> dict[str, str]:
    """Return the fields of a report that are closed by a bar; of equal names the first counts."""
    # abci's fork puts two fields between its bars: | iteration time: 270.125 s samples/sec: 3.8 |
    report = report.replace(" s samples/sec:", "|samples per second:")
    closed: dict[str, str] = {}
    for piece in report.split("|")[:-1]:
        name, colon, value = piece.partition(":")
        if not colon:
            name, _, value = piece.partition("=")
        closed.setdefault(name.strip(), value.strip())
    return closed


def step_values(fields: Fields, closed: Mapping[str, str]) -> dict[str, Any]:
    """Return a Step's fields; where several names mean the same, the first in the line counts.

    Raises ValueError where a known field has a value of another kind.
    """
    values: dict[str, Any] = {}
    for name, text in closed.items():
        if (field := fields.get(name)) and field[0] not in values:
            values[field[0]] = field[1](text)
    if "elapsed time per iteration (ms)" in closed and "samples per second" in closed:
        _mend_rate(values)
    return values


def _mend_rate(values: dict[str, Any]) -> None:
    """Correct samples per second that are samples per millisecond, printed with three decimals."""
    rate, seconds = values["samples_per_second"], values["step_seconds"]
    if rate and seconds and (samples := values.get("global_batch_size")):
        right = abs(rate - samples / seconds) < 6e-4
        per_millisecond = abs(rate - samples / seconds / 1000) < 6e-4
        if per_millisecond and not right:
            values["samples_per_second"] = float(round(1000 * rate))
