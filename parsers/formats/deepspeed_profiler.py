"""Parse the summary of DeepSpeed's flops profiler: the time and FLOPs of one step.

    -------------------------- DeepSpeed Flops Profiler --------------------------
    Profile Summary at step 10:
    …
    world size:                                                             8
    params per gpu:                                                         336.23 M
    params of model = params per GPU * mp_size:                             336.23 M
    fwd latency:                                                            76.67 ms
    bwd latency:                                                            108.02 ms
    step latency:                                                           34.09 us
    iter latency:                                                           184.73 ms
    FLOPS per GPU = 3 * fwd flops per GPU / iter latency:                   102.0 TFLOPS
    samples/second:                                                         433.07

The source is deepspeed/profiling/flops_profiler/profiler.py of 0.19.8 and of a version of 2021. All
numbers are about one step, which the profiler's own hooks slow down, so they do not measure the
run's speed. The numbers have further limits:

* FLOPS per GPU counts what the profiler's hooks see of the forward pass on one rank. The backward
  pass counts as twice that, or as three times if activations are recomputed. With tensor or
  pipeline parallelism the result can be far too small.
* samples/second is the micro-batch times *all* ranks, divided by the iteration's time: too large
  with model parallelism, too small with gradient accumulation.
* Without DeepSpeed's engine, the world size is missing, and the size of the whole model is printed
  as 0 or 1. The only time is then that of the forward pass.
* Numbers are rounded to two decimals of a unit that depends on their size. M is 10**6, G is 10**9,
  and a B of parameters is 10**9 too.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from parsers.fields import COUNT, NUMBER, finite
from parsers.records import RunTotals, Timers
from parsers.scan.reader import LogFormat

_TITLE = re.compile(rf"Profile Summary at step {COUNT}:")
_END = re.compile(r"---- Aggregated Profile|DeepSpeed Flops Profiler ----")
# If no other line follows, the line may have been cut within its number.
_LINE = re.compile(
    r"(?<!/ )(?<!wd )(?<!expert )(?<!\w)(?P<label>world size"
    r"|params of model(?: = [^:\n]{0,70}mp_size)?"
    r"|(?:fwd|bwd|step|iter) latency|FLOPS per GPU = [^:\n]{0,80}/ iter latency|samples/second)"
    rf":[ \t]+(?P<number>{NUMBER})(?:[ \t]+(?P<unit>[A-Za-z]+))?[ \t\r]*(?=\n)"
)
_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12}


def _parse(offset: int, text: str) -> Iterator[RunTotals | Timers]:
    if not (title := _TITLE.search(text)):
        return
    summary = _END.split(text[title.end() :])[0]
    lines = {line["label"].split(" = ")[0]: line for line in _LINE.finditer(summary)}
    latencies = [
        (label, seconds)
        for label, line in lines.items()
        if label.endswith(" latency") and (seconds := _quantity(line, "s")) is not None
    ]
    world_size = _count(lines.get("world size"))
    parameters = _count(lines.get("params of model"))
    flops = _quantity(lines.get("FLOPS per GPU"), "FLOPS", -12)
    samples_per_second = _quantity(lines.get("samples/second"), "")
    if world_size is not None or flops is not None or samples_per_second is not None:
        yield RunTotals(
            world_size=world_size,
            parameters=None if world_size is None else parameters or None,
            samples_per_second=samples_per_second,
            tflops_per_gpu=flops,
            phase="profiled_step",
            offset=offset,
        )
    if latencies:
        yield Timers(seconds=tuple(latencies), offset=offset)


def _count(line: re.Match[str] | None) -> int | None:
    """Return the number on a line, e.g. of GPUs; None if it is unknown or not an integer."""
    number = _quantity(line, "")
    return None if number is None or not number.is_integer() else int(number)


def _quantity(line: re.Match[str] | None, unit: str, exponent: int = 0) -> float | None:
    """Return the number on a line in the base unit `unit`, multiplied by 10**exponent.

    For example, `2 ms` gives 0.002 with the unit `s` and the exponent 0. Returns None if `line`
    is None, if the number is nan or inf, or if the printed unit is not `unit`. The printed unit
    may have a known prefix, e.g. `m` in `ms`.
    """
    if line is None:
        return None
    printed = line["unit"] or ""
    prefix = _EXPONENTS.get(printed.removesuffix(unit)) if printed.endswith(unit) else None
    if prefix is None or finite(line["number"]) is None:
        return None
    # In decimals, so that the float is the nearest to what is printed.
    return finite(str(Decimal(line["number"]).scaleb(prefix + exponent)))


DEEPSPEED_PROFILER = LogFormat(
    name="DeepSpeed flops profiler",
    anchors=(b"Profile Summary at step ",),
    parse=_parse,
    following=48,
)
