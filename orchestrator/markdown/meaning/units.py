"""Recognize units of speed and of size next to numbers in tables."""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Quantity(StrEnum):
    """The quantity that a number with a unit states, e.g. `tokens_per_second`."""

    STEP_SECONDS = "step_seconds"
    SAMPLES_PER_SECOND = "samples_per_second"
    TOKENS_PER_SECOND = "tokens_per_second"
    ITERATIONS_PER_SECOND = "iterations_per_second"
    PARAMETERS = "parameters"
    TOKENS = "tokens"


class Unit(NamedTuple):
    """The unit of a printed number, e.g. `ms` or `tokens/s/GPU`.

    scale: the factor from the printed number to the quantity, e.g. 0.001 from `ms` to seconds.
    per_gpu: whether the quantity is of one GPU.
    """

    quantity: Quantity
    scale: float
    per_gpu: bool = False


_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_ITERATIONS = {"it", "its", "iter", "iters", "iteration", "iterations", "step", "steps"}
_RATES = {
    **dict.fromkeys(("sample", "samples", "seq", "seqs", "sequence", "sequences"), "samples"),
    **dict.fromkeys(("t", "tok", "toks", "token", "tokens"), "tokens"),
    **dict.fromkeys(_ITERATIONS, "iterations"),
}
_PARAMETERS = {
    **dict.fromkeys(("k", "thousand", "thousands"), 1e3),
    **dict.fromkeys(("m", "mil", "million", "millions"), 1e6),
    **dict.fromkeys(("b", "bn", "billion", "billions"), 1e9),
    **dict.fromkeys(("t", "trillion", "trillions"), 1e12),
}
_GPU = {"gpu", "gpus", "device", "card", "rank", "chip", "accelerator"}
# Tokens per second in words, and tokens per second and GPU.
_SHORT = {"tps": "tokens/s", "wps": "tokens/s", "tgs": "tokens/s/gpu"}
_PER = re.compile(r"\s*/\s*|\s+per\s+")
_WORDS_OF_SIZE = re.compile(r"\s*\b(?:of\s+)?(?:params?|parameters)\b")


@cache
def pace_unit(text: str) -> Unit | None:
    """Return the unit of a time or a rate, e.g. `ms` or `tokens/s/GPU`; None for other texts."""
    words = _PER.split(text.strip().lower())
    parts = [part for word in words for part in _PER.split(_SHORT.get(word, word))]
    per_gpu = any(part in _GPU for part in parts[1:])
    match [part for part in parts if part not in _GPU]:
        case [time] if time in _SECONDS and not per_gpu:
            return Unit(Quantity.STEP_SECONDS, _SECONDS[time])
        case [time, step] if time in _SECONDS and step in _ITERATIONS and not per_gpu:
            return Unit(Quantity.STEP_SECONDS, _SECONDS[time])
        case [counted, time] if counted in _RATES and time in _SECONDS:
            quantity = Quantity(f"{_RATES[counted]}_per_second")
            return Unit(quantity, 1 / _SECONDS[time], per_gpu)
    return None


@cache
def size_unit(text: str) -> Unit | None:
    """Return the unit of a number of parameters, e.g. `M params`; None for other texts."""
    scale = _PARAMETERS.get(_WORDS_OF_SIZE.sub("", text.strip().lower()))
    return Unit(Quantity.PARAMETERS, scale) if scale else None


def length_unit(text: str) -> Unit | None:
    """Return the unit of a sequence length, e.g. `K` for 1024 tokens; None for single tokens."""
    words = text.strip().lower().removesuffix("tokens").strip()
    return Unit(Quantity.TOKENS, 1024.0) if words in {"k", "ki"} else None
