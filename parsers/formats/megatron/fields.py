"""Parse the fields of Megatron's iteration lines, by their labels."""

import math
import re
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from parsers.fields import COUNT, NUMBER

# 13100.0/13240.9, 4.71K, 150.3TFLOPS, NAN (as Python prints a nan in format E)
_VALUE = re.compile(rf"((?i:{NUMBER}))([KMGBTPE]?)(?:FLOPS)?(?:/(?i:{NUMBER}))?")
_POWERS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PLAIN = frozenset("0123456789.-+E")
_DECIMAL = frozenset("0123456789.")
_COUNT = re.compile(COUNT)
_MOST_DIGITS = 18  # as in COUNT
_PLAIN_TEXT = re.compile(r"[-+.0-9E]*")
_DECIMAL_TEXT = re.compile(r"[.0-9]*")
_DIGITS_TEXT = re.compile(r"[0-9]*")


def parse_value(text: str) -> float:
    """Convert a printed value to a number, which may be nan or inf.

    Raises ValueError if `text` is not a number, or is a finite number too large for a float.
    """
    if _PLAIN.issuperset(text):
        number, value = text, float(text)  # most values; three times as fast as the pattern
    elif match := _VALUE.fullmatch(text):
        number, suffix = match.groups()
        value = float(number) * _POWERS[suffix]
    else:
        raise ValueError(text)
    if math.isinf(value) and number[-1] not in "fF":
        raise ValueError(text)
    return value


def measured(text: str) -> float | None:
    """Convert a printed number to a float; return None for nan and inf.

    Raises ValueError if `text` is not a number, or is a finite number too large for a float.
    """
    value = parse_value(text)
    return value if math.isfinite(value) else None


def _scaled(text: str, *, divisor: float) -> float | None:
    value = measured(text)
    return None if value is None else value / divisor


def parse_count(text: str) -> int:
    """Convert a printed count of at least 0 to an integer, e.g. `512` or the rounded `1.02K`.

    Raises ValueError for other text.
    """
    if _COUNT.fullmatch(text):
        return int(text)
    value = parse_value(text)
    if text[-1] not in _POWERS or not 0 <= value < math.inf:
        raise ValueError(text)
    return round(value)


def _exact_count(text: str) -> int | None:
    """Convert a printed count to an integer; return None if it was rounded, e.g. to `1.258B`.

    Raises ValueError for other text.
    """
    count = parse_count(text)
    return count if _COUNT.fullmatch(text) else None


def _milliseconds(text: str) -> float | None:
    """Convert a printed number of milliseconds to seconds.

    If `text` has only digits and a point, the result is the float nearest to the exact value.
    """
    if not _DECIMAL.issuperset(text):
        return _scaled(text, divisor=1e3)
    value = float(text + "e-3")
    if math.isinf(value):
        raise ValueError(text)
    return value


def column(convert: Callable[[str], Any], texts: Sequence[str]) -> Sequence[Any]:
    """Convert each text with `convert`. Raises ValueError if `convert` does."""
    if texts[0] == texts[-1] and texts.count(texts[0]) == len(texts):
        return [convert(texts[0])] * len(texts)
    if (read := _COLUMNS.get(convert)) and (values := read(texts)):
        return values
    converted = {text: convert(text) for text in {*texts}}  # times of day are slow, and recur
    return [converted[text] for text in texts]


def _floats(texts: Sequence[str]) -> Sequence[float] | None:
    """Convert texts that are plain finite numbers to floats, all at once.

    Returns None if a text may be something else. Then the caller converts the texts one by one.
    """
    if not _PLAIN_TEXT.fullmatch("".join(texts)):
        return None
    values = array("d", map(float, texts))
    return values if math.isfinite(sum(values)) else None


def _seconds(texts: Sequence[str]) -> Sequence[float] | None:
    if not _DECIMAL_TEXT.fullmatch("".join(texts)):
        return None
    return _floats(("E-3 ".join(texts) + "E-3").split())


def _counts(texts: Sequence[str]) -> Sequence[int] | None:
    if not _DIGITS_TEXT.fullmatch("".join(texts)) or max(map(len, texts)) > _MOST_DIGITS:
        return None
    return array("q", map(int, texts))


# Converts all texts at once, if they are plain numbers; otherwise returns None.
_COLUMNS: dict[Callable[[str], Any], Callable[[Sequence[str]], Sequence[Any] | None]] = {
    parse_value: _floats,
    measured: _floats,
    _milliseconds: _seconds,
    parse_count: _counts,
    _exact_count: _counts,
    int: _counts,
}


def _current(text: str) -> float | None:
    """Return the number before the first space of a text, e.g. 496.3 in `496.3 (avg 496.1)`."""
    return measured(text.partition(" ")[0])


def _percent(text: str) -> float | None:
    """Convert a percentage to a fraction of 1."""
    plain = text.removesuffix("%")
    return float(plain + "e-2") if _DECIMAL.issuperset(plain) else _scaled(plain, divisor=100.0)


_flops = partial(_scaled, divisor=1e12)
_bytes = partial(_scaled, divisor=2.0**30)

Fields = dict[str, tuple[str, Callable[[str], float | None]]]


def _spelt(fields: Fields) -> Fields:
    """Return `fields` with two spellings of each name: with spaces, and with underscores."""
    return {name.replace(" ", "_"): field for name, field in fields.items()} | fields


_SHARED: Fields = {
    "consumed samples": ("consumed_samples", parse_count),
    "consumed tokens": ("consumed_tokens", parse_count),
    "global batch size": ("global_batch_size", parse_count),
    "lm loss": ("loss", parse_value),
    "grad norm": ("grad_norm", parse_value),
    "elapsed time per iteration ms": ("step_seconds", _milliseconds),
}
MEGATRON_FIELDS = _spelt(
    _SHARED
    | {
        # Swiss AI's program rounds this count, too coarsely for differences.
        "consumed tokens": ("consumed_tokens", _exact_count),
        "elapsed time per iteration (ms)": ("step_seconds", _milliseconds),
        "elapsed time per iteration (s)": ("step_seconds", measured),
        "iteration time": ("step_seconds", measured),
        "gloabl batch size": ("global_batch_size", parse_count),  # so MindSpeed's documentation
        "learning rate": ("learning_rate", parse_value),
        "lm-loss": ("loss", parse_value),
        "loss": ("loss", parse_value),
        "loss scale": ("loss_scale", parse_value),
        "number of skipped iterations": ("skipped_iterations", parse_count),
        "number of nan iterations": ("nan_iterations", parse_count),
        "samples per second": ("samples_per_second", measured),
        "throughput per GPU (TFLOP/s/GPU)": ("reported_tflops_per_gpu", measured),
        "compute per GPU (TFLOP/s/GPU)": ("reported_tflops_per_gpu", _current),  # Primus
        "tokens per GPU (tokens/s/GPU)": ("tokens_per_second_per_gpu", measured),
        "tokens per gpu per second (tgs)": ("tokens_per_second_per_gpu", measured),
        "tokens/sec/gpu": ("tokens_per_second_per_gpu", measured),  # Swiss AI, Pai
        "tokens/sec/GPU": ("tokens_per_second_per_gpu", measured),
        "tokens-per-second-per-gpu": ("tokens_per_second_per_gpu", measured),  # BigCode
        "Tokens per second per GPU (Tok/s/GPU)": ("tokens_per_second_per_gpu", measured),
        "TGS": ("tokens_per_second_per_gpu", measured),
        "throughput (token/sec/GPU)": ("tokens_per_second_per_gpu", measured),
        "flop throughput (TFLOP/sec/GPU)": ("reported_tflops_per_gpu", measured),
        "tokens per second": ("tokens_per_second", measured),
        "rate (tokens/sec)": ("tokens_per_second", measured),  # Megatron-LLM
        "tokens/s/GPU inst/harmonic mean": ("tokens_per_second_per_gpu", measured),
        "tokens_per_gpu_per_second_tgs": ("tokens_per_second_per_gpu", measured),
        "energy per GPU (J/iter/GPU)": ("energy_joules_per_gpu", measured),
        "power per GPU (W/GPU)": ("power_watts_per_gpu", measured),
        "MFU": ("reported_mfu", _percent),
        "mfu": ("reported_mfu", _percent),
        "max_memory_allocated(GB)": ("max_memory_allocated_gib", measured),
        "memory(GiB)": ("max_memory_reserved_gib", measured),  # ms-swift
        "max_memory_reserved(GB)": ("max_memory_reserved_gib", measured),
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
        "tokens per sec per gpu": ("tokens_per_second_per_gpu", measured),
        "lr": ("learning_rate", parse_value),
        "model tflops per gpu": ("reported_tflops_per_gpu", measured),
        "cuda memory allocated": ("memory_allocated_gib", _bytes),
        "cuda max memory reserved": ("max_memory_reserved_gib", _bytes),
    }
)
# Since 2025 its global batch size is in tokens.
NANOTRON_2025_FIELDS = {
    name: field for name, field in NANOTRON_FIELDS.items() if field[0] != "global_batch_size"
} | _spelt({"time per iteration ms": ("step_seconds", _milliseconds)})


def closed_fields(report: str) -> dict[str, str]:
    """Return the fields of a report that end with a bar (`|`): their texts, by their names.

    If a name occurs twice, the first field counts.
    """
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
    """Convert the printed fields of a report to the fields of a Step.

    If several printed names mean the same field of Step, the first on the line counts. Raises
    ValueError if the value of a known field cannot be converted.
    """
    values: dict[str, Any] = {}
    for name, text in closed.items():
        if (field := fields.get(name)) and field[0] not in values:
            values[field[0]] = field[1](text)
    if is_mended(closed):
        _mend_rate(values)
    return values


def is_mended(names: Collection[str]) -> bool:
    """Return whether a report may have a rate in the wrong unit, which `_mend_rate` must check.

    This is so if it has both a time in milliseconds and samples per second. names: the names of
    the report's fields.
    """
    return "elapsed time per iteration (ms)" in names and "samples per second" in names


def _mend_rate(values: dict[str, Any]) -> None:
    """Correct a rate that was printed in samples per millisecond instead of samples per second.

    values: the fields of a report; changed in place. The correct rate is the global batch size
    divided by the step time in seconds. The printed rate is multiplied by 1000 if it equals a
    thousandth of the correct rate, and does not equal the correct rate. Rates count as equal if
    they differ by less than 0.0006, because the printed rate has three decimals. The corrected
    rate is a whole number, because three decimals are multiplied by 1000.
    """
    # A format may not know these names: a damaged line can have fields of two programs.
    rate, seconds = values.get("samples_per_second"), values.get("step_seconds")
    if rate and seconds and (samples := values.get("global_batch_size")):
        right = abs(rate - samples / seconds) < 6e-4
        per_millisecond = abs(rate - samples / seconds / 1000) < 6e-4
        if per_millisecond and not right:
            values["samples_per_second"] = float(round(1000 * rate))
