"""Read keys that tools based on Hugging Face's Trainer add to the Trainer's reports.

These facts are from the sources of axolotl, ms-swift, LLaMA-Factory and TRL of 2025 and
2026:

* axolotl: peaks of memory in GiB since the last report, and the trained tokens per second
  and GPU.
* ms-swift: `memory(GiB)` is the reserved maximum. `train_speed` is the mean since the start
  of the launch, e.g. in seconds per step. `train_speed` times the number of steps so far
  is the time since the start of the launch. A report contains the number of steps so far,
  e.g. 5 in `5/100`.
* LLaMA-Factory: `throughput` is the mean since the start, too: all tokens divided by all
  seconds.
* TRL counts tokens as `num_tokens`. Its `step_time` lacks the update of the weights, so it
  is not read.
* Liger's callback: peaks of memory in MiB since the start. It calls them MB.
* optimum-habana: the peak of allocated memory since the start.
* A history exported from W&B has the seconds since the start as `_runtime`. Old releases of
  W&B print whole seconds.
* With `include_num_input_tokens_seen`, the Trainer itself prints `train_runtime`: the seconds
  since the start of the launch.

Without `train_runtime`, teralog computes the time since the start from two printed numbers, which
is more precise than the whole seconds of `elapsed_time`. teralog uses the result only if the log
also prints this time, and both times agree. They do not agree if the launch of LLaMA-Factory
continued from a checkpoint. After a checkpoint, ms-swift divides by the steps of this launch, but
prints the number of all steps. The printed time shows how many steps that were, if a step takes
more than 3 seconds. A report with an `elapsed_time` and no speed gives the whole seconds, e.g. one
of LLaMA-Factory without `include_num_input_tokens_seen`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

# Field of a Step, by key.
_NUMBERS: Mapping[str, str] = {
    "memory/max_allocated (GiB)": "max_memory_allocated_gib",
    "memory/max_mem_allocated(gib)": "max_memory_allocated_gib",  # axolotl of 2025
    "memory/device_reserved (GiB)": "max_memory_reserved_gib",
    "memory/device_mem_reserved(gib)": "max_memory_reserved_gib",
    "vram_allocated": "max_memory_allocated_gib",
    "vram_reserved": "max_memory_reserved_gib",
    "memory(GiB)": "max_memory_reserved_gib",
    "max_memory_allocated (GB)": "max_memory_allocated_gib",  # Habana's GB are 2**30 bytes
    "tokens/train_per_sec_per_gpu": "tokens_per_second_per_gpu",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
}
_MEBIBYTES: Mapping[str, str] = {
    "total_peak_memory_allocated_MB": "max_memory_allocated_gib",
    "total_peak_memory_reserved_MB": "max_memory_reserved_gib",
}
TOKENS = ("tokens/total", "num_input_tokens_seen", "num_tokens", "total_tokens")
STEPS = ("global_step/max_steps", "iteration")
ELAPSED = "elapsed_time"
_SPEEDS = frozenset({"train_speed(s/it)", "train_speed(iter/s)", "throughput"})

# 1d 2h 3m 4s of ms-swift; 1 day, 0:01:02 of LLaMA-Factory
_UNITS = re.compile(
    r"(?:(?P<days>[0-9]{1,5})d)? ?(?:(?P<hours>[0-9]{1,3})h)? ?(?:(?P<minutes>[0-9]{1,3})m)? ?"
    r"(?:(?P<seconds>[0-9]{1,3})s)?"
)
_CLOCK = re.compile(
    r"(?:(?P<days>[0-9]{1,5}) days?, )?(?P<hours>[0-9]{1,3}):(?P<minutes>[0-9]{2}):"
    r"(?P<seconds>[0-9]{2})"
)
_OF_STEPS = re.compile(r"(?P<step>[0-9]{1,18})/(?P<steps>[0-9]{1,18})")
# Both clocks are read one after the other.
_AGREE_SECONDS = 1.5


def step_of(report: Mapping[str, object]) -> tuple[int, int] | None:
    """Return the step and the number of steps in a report of ms-swift, e.g. 5 and 100 for `5/100`.

    Returns None for any other report. report: the values by key.
    """
    texts = (report.get(key) for key in STEPS)
    matches = (_OF_STEPS.fullmatch(text) for text in texts if isinstance(text, str))
    match = next(filter(None, matches), None)
    return (int(match["step"]), int(match["steps"])) if match else None


def integration_fields(
    numbers: Mapping[str, float], elapsed: object, step: int | None
) -> dict[str, Any]:
    """Return the values for a Step that tools based on Hugging Face's Trainer report.

    numbers: the numbers of a report, by the report's keys.
    elapsed: the time since the start of the launch, as text.
    step: the step number of the report; None if it is not known.
    """
    fields: dict[str, Any] = {}
    for keys, unit in ((_NUMBERS, 1), (_MEBIBYTES, 1024)):
        for key, name in keys.items():
            if math.isfinite(value := numbers.get(key, math.nan)):
                fields.setdefault(name, value / unit)
    for key in TOKENS:
        value = numbers.get(key, math.nan)
        if value.is_integer() and value >= 0:
            fields.setdefault("consumed_tokens", int(value))
    if math.isfinite(value := numbers.get("train_runtime", math.nan)):
        return fields | {"train_seconds": value}
    # W&B counts from the start of its run.
    if math.isfinite(value := numbers.get("_runtime", math.nan)):
        return fields | {"train_seconds": value}
    printed = _seconds(elapsed)
    if printed is None:
        return fields
    seconds = _since_start(numbers, step, printed)
    if seconds is None and _SPEEDS.isdisjoint(numbers):
        fields["train_seconds"] = printed
    elif seconds is not None and abs(seconds - printed) <= _AGREE_SECONDS:
        fields["train_seconds"] = seconds
    return fields


def _since_start(numbers: Mapping[str, float], step: int | None, printed: float) -> float | None:
    """Return the seconds since the start of the launch; None if they cannot be computed.

    numbers: the numbers of a report, by key. step: the step of the report; None if unknown.
    printed: a whole number of seconds since the start.
    For ms-swift, the result is the number of steps since the start multiplied by the seconds
    per step, or the step divided by the steps per second. For LLaMA-Factory, it is the number
    of all tokens divided by the tokens per second. These rates are means since the start of
    the launch.
    """
    per_step = numbers.get("train_speed(s/it)", 0.0)
    if per_step > 2 * _AGREE_SECONDS:  # so only one number of steps agrees
        return round(printed / per_step) * per_step
    rate = numbers.get("train_speed(iter/s)", 0.0)
    tokens, throughput = (numbers.get(key, 0.0) for key in ("total_tokens", "throughput"))
    if step is not None and per_step > 0:
        return step * per_step
    if step is not None and rate > 0:
        return step / rate
    return tokens / throughput if tokens > 0 and throughput > 0 else None


def _seconds(text: object) -> float | None:
    if not isinstance(text, str) or not text:
        return None
    match = _CLOCK.fullmatch(text) or _UNITS.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (
        int(match[unit] or 0) for unit in ("days", "hours", "minutes", "seconds")
    )
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
