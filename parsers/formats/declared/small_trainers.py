"""Parse the lines of picotron, prime, prime-rl and NVIDIA's Automodel.

    [rank 2] Step: 3     | Loss: 8.9219 | Global batch size:   2.05K | Tokens/s:  10.61K |
        Tokens/s/GPU:   1.33K | Tokens:   6.14K | MFU:  0.43% | Memory usage:   1.75GB
    Step 11 | Time: 38.00s | Loss: 1.1000 | Grad. Norm: 4.8000 | LR: 2.00e-05 | Throughput:
        1300 tokens/s | MFU: 5.5% | Peak Mem.: 29.5/31.0 GiB (95.2%)
    step 12 | epoch 0 | loss 1.2345 | grad_norm 0.5000 | lr 1.00e-05 | mem 12.34 GiB |
        tps 1234.56(154.32/gpu) | num_label_tokens 4096
    step: 8, loss: 9.9991, tokens_per_second: 76957.79, mfu: 42.46

Each example is one line of a log; a line that is indented further continues the
line above it.

* picotron's memory and batch are not read: the memory is not the peak, and the batch is a
  rounded number of tokens.
* prime's tokens/s are of all ranks that train together. Its first step has none.
* prime-rl's throughput is of all ranks. Throughput and MFU are 0 before the second step.
  Its memory is the reserved peak. Since 2026 it prints `Step 11 |  38.0s | Loss 1.1 | …`. A
  time below one second is printed as `345ms`, and a long time as `2m 13s` or `1h 2m`. Fractions
  of a second, or seconds, are then cut off, i.e. less than 2 % of the time.
* Automodel prints the allocated peak. It prints tokens/s of all ranks and, in parentheses,
  of one rank. Without parentheses, as in 2025, they may be of either and are not read. It
  also writes the same values as JSON.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parsers.formats.declared.declaration import (
    ITERATION,
    MILLISECONDS,
    PERCENT,
    Declaration,
    Field,
    line_format,
)
from parsers.records import Step
from parsers.steps.blocks import StepBlock

_END = r"(?= *(?:\||$))"

PICOTRON = line_format(
    Declaration(
        name="picotron",
        anchors=(b"| Tokens/s/GPU: ",),
        head=rf"(?<!\w)Step: {ITERATION} +\| Loss: ",
        fields=(
            Field("loss", r"\| Loss: +", _END, needed=True),
            Field("tokens_per_second", r"\| Tokens/s: +", _END),
            Field("tokens_per_second_per_gpu", r"\| Tokens/s/GPU: +", _END, needed=True),
            Field("reported_mfu", r"\| MFU: +(?!0\.00%)", r"%", scale=PERCENT),
        ),
        whole=r"\| Memory usage: +[0-9]+\.[0-9]{2}GB",
    )
)

PRIME = line_format(
    Declaration(
        name="prime",
        anchors=(b", tokens_per_second: ",),
        head=rf"(?<!\w)step: {ITERATION}, loss: ",
        fields=(
            Field("loss", r"(?<=[0-9]), loss: ", r"(?=,)", needed=True),
            Field("learning_rate", r", inner_lr: ", r"(?=,)"),
            Field("tokens_per_second", r", tokens_per_second: ", r"(?=,)", needed=True),
            Field("reported_mfu", r", mfu: ", r"(?=,|\s*$)", scale=PERCENT),
        ),
        whole=r", mfu: [0-9]+\.[0-9]{2}(?![0-9.])",
    )
)

# `Step 7 | 2m 13s | Loss `
_LONG_TIME = re.compile(
    r"(?<!\w)(?P<before>Step [0-9]{1,18} \| +)(?P<many>[0-9]{1,5})(?P<long>[dhm])"
    r"(?: (?P<few>[0-9]{1,2})(?P<short>[hms]))?(?= \| Loss )"
)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_BEFORE_TIME = r"(?<!\w)Step [0-9]+ +\| +(?:Time: +)?"


def _in_seconds(text: str) -> str:
    """Return lines of prime-rl in which long times are in seconds, e.g. 133s for `2m 13s`."""

    def seconds(match: re.Match[str]) -> str:
        total = int(match["many"]) * _UNITS[match["long"]]
        if match["few"]:
            total += int(match["few"]) * _UNITS[match["short"]]
        return f"{match['before']}{total}s"

    return _LONG_TIME.sub(seconds, text)


@dataclass(frozen=True, kw_only=True, eq=False)
class _PrimeRl(Declaration):
    """The format of prime-rl, whose long times are in several units."""

    def read_lines(self, offsets: Sequence[int], text: str) -> StepBlock | None:
        """Return the steps of the first lines of `text`, as columns."""
        return super().read_lines(offsets, _in_seconds(text))

    def __call__(self, offset: int, line: str) -> Iterator[Step]:
        """Yield the steps that a line reports."""
        return super().__call__(offset, _in_seconds(line))


PRIME_RL = line_format(
    _PrimeRl(
        name="prime-rl",
        anchors=(b"| Peak Mem.",),
        head=rf"(?<!\w)Step {ITERATION} +\| +(?:Time: +)?"
        r"(?:[0-9.]+m?s|[0-9]+[dhm](?: [0-9]+[hms])?) +\| ",
        fields=(
            Field("step_seconds", _BEFORE_TIME, r"s(?= +\|)"),
            Field("step_seconds", _BEFORE_TIME, r"ms(?= +\|)", scale=MILLISECONDS),
            Field("loss", r"\| (?:KL )?Loss:? +", _END),
            Field("grad_norm", r"\| Grad\. Norm:? +", _END),
            Field("learning_rate", r"\| LR:? +", _END),
            Field("tokens_per_second", r"\| Throughput:? +(?!0 )", " tokens/s"),
            Field("reported_mfu", r"\| MFU:? +(?!0\.0%)", "%", scale=PERCENT),
            Field("max_memory_reserved_gib", r"\| Peak Mem\.:? +", r"(?:/[0-9.]+)? GiB"),
        ),
        whole=r"\| Peak Mem\.:? +[0-9./]+ GiB",
        log_interval=1,
    )
)

AUTOMODEL_CONSOLE = line_format(
    Declaration(
        name="Automodel",
        anchors=(b" GiB | tps ",),
        head=rf"(?<!\w)step {ITERATION} \| epoch [0-9]+ \| loss ",
        fields=(
            Field("loss", r"\| loss ", _END, needed=True),
            Field("grad_norm", r"\| grad_norm ", _END),
            Field("learning_rate", r"\| lr ", _END),
            Field("max_memory_allocated_gib", r"\| mem ", " GiB"),
            Field("tokens_per_second", r"\| tps ", r"(?=\()"),
            Field("tokens_per_second_per_gpu", r"(?<=[0-9])\(", r"/gpu\)"),
        ),
        whole=r"\| tps [0-9]+\.[0-9]{2}(?:\([0-9.]+/gpu\)|\s|$)",
    )
)
