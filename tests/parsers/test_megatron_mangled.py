"""Megatron's reports, printed as the programs print them and then mangled as logs are."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace as Numbers

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.formats.megatron.iterations import MEGATRON, NANOTRON
from parsers.formats.megatron.memory import MEGATRON_MEMORY
from parsers.formats.megatron.timers import MEGATRON_RANK_TIMERS, MEGATRON_TIMERS, TIMERS
from parsers.records import Record, Step, Timers, Usage, UsageSource
from parsers.scan.reader import LogFormat, decode

Printed = tuple[str, Record]

numbers = st.builds(
    Numbers,
    iteration=st.integers(1, 10**7),
    of=st.integers(1, 10**7),
    count=st.integers(0, 10**9),
    skipped=st.integers(0, 999),
    nans=st.integers(0, 999),
    time=st.floats(0.1, 1e7),
    rate=st.floats(0, 1e6),
    loss=st.floats(width=32) | st.floats(0, 100),
    scale=st.just(-1.0) | st.integers(0, 32).map(lambda power: 2.0**power),
    flops=st.floats(0, 999),
    mib=st.integers(0, 10**8).map(lambda blocks: blocks / 2048),
    reserved=st.integers(0, 10**5).map(lambda segments: 2.0 * segments),
)


def step(n: Numbers, **values: object) -> Step:
    """Return a step with the iteration's number and `values`."""
    return Step(iteration=n.iteration, offset=7, **values)  # type: ignore[arg-type]


def megatron(n: Numbers) -> Printed:
    """Megatron core."""
    line = (
        f" [2025-07-01 10:20:30.123456] iteration {n.iteration:8d}/{n.of:8d} |"
        f" consumed samples: {n.count:12d} | elapsed time per iteration (ms): {n.time:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {n.flops:.1f} | learning rate: {n.rate:.6E} |"
        f" lm loss: {n.loss:.6E} | loss scale: {n.scale:.1f} | grad norm: {n.rate:.3f} |"
        f" number of skipped iterations: {n.skipped:3d} | number of nan iterations: {n.nans:3d} |"
    )
    return line, step(
        n,
        iterations=n.of,
        step_seconds=float(f"{n.time:.1f}e-3"),
        consumed_samples=n.count,
        loss=float(f"{n.loss:.6E}"),
        learning_rate=float(f"{n.rate:.6E}"),
        loss_scale=n.scale,
        grad_norm=float(f"{n.rate:.3f}"),
        skipped_iterations=n.skipped,
        nan_iterations=n.nans,
        reported_tflops_per_gpu=float(f"{n.flops:.1f}"),
        timestamp="2025-07-01T10:20:30.123456",
    )


def neox(n: Numbers) -> Printed:
    """EleutherAI's gpt-neox, whose rate comes first."""
    line = (
        f" samples/sec: {n.rate:.3f} | iteration {n.iteration:8d}/{n.of:8d} |"
        f" elapsed time per iteration (ms): {n.time:.1f} | approx flops per GPU:"
        f" {n.flops:3.1f}TFLOPS | lm_loss: {n.loss:.6E} |"
        f" number of skipped iterations: {n.skipped:3d} | number of nan iterations: {n.nans:3d} |"
    )
    return line, step(
        n,
        iterations=n.of,
        step_seconds=float(f"{n.time:.1f}e-3"),
        samples_per_second=float(f"{n.rate:.3f}"),
        loss=float(f"{n.loss:.6E}"),
        skipped_iterations=n.skipped,
        nan_iterations=n.nans,
        reported_tflops_per_gpu=float(f"{n.flops:3.1f}") * 1e12 / 1e12,
    )


def nanotron(n: Numbers) -> Printed:
    """Hugging Face's nanotron, with suffixes."""
    line = (
        f"08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: {n.iteration} / {n.of} |"
        f" elapsed_time_per_iteration_ms: {n.flops:.3g}K | tokens_per_sec: {n.skipped}M |"
        f" lm_loss: {n.loss:.3g} | model_tflops_per_gpu: {n.rate:.3g} | hd_total_memory_tb: 2.13T"
    )
    return line, step(
        n,
        iterations=n.of,
        step_seconds=float(f"{n.flops:.3g}") * 1e3 / 1e3,
        log_interval=1,
        tokens_per_second=n.skipped * 1e6,
        loss=float(f"{n.loss:.3g}"),
        reported_tflops_per_gpu=float(f"{n.rate:.3g}"),
        timestamp="2024-08-31T14:37:31",
    )


def pipeline(n: Numbers) -> Printed:
    """DeepSpeed's pipeline engine."""
    line = (
        f"steps: {n.iteration} loss: {n.loss:0.4f} lm loss: {n.rate:0.4f} iter time (s):"
        f" {n.time:0.3f} samples/sec: {n.rate:0.3f}"
    )
    return line, step(
        n,
        step_seconds=float(f"{n.time:0.3f}"),
        samples_per_second=float(f"{n.rate:0.3f}"),
        loss=float(f"{n.loss:0.4f}"),
    )


def memory(n: Numbers) -> Printed:
    """Megatron's memory report."""
    line = (
        f"[Rank {n.nans}] (after {n.iteration} iterations) memory (MB) | allocated: {n.mib}"
        f" | max allocated: {n.mib + 0.5} | reserved: {n.reserved} | max reserved: {n.reserved}"
    )
    return line, Usage(
        source=UsageSource.TORCH,
        iteration=n.iteration,
        rank=n.nans,
        memory_allocated_gib=n.mib / 1024,
        max_memory_allocated_gib=(n.mib + 0.5) / 1024,
        memory_reserved_gib=n.reserved / 1024,
        max_memory_reserved_gib=n.reserved / 1024,
        offset=7,
    )


def milliseconds(n: Numbers, *names: str) -> tuple[dict[str, str], Timers]:
    """Return two timers as printed, and as read."""
    printed = dict(zip(names, (f"{n.time:.2f}", f"{n.rate:.2f}"), strict=True))
    seconds = tuple((name, float(ms + "e-3")) for name, ms in printed.items())
    return printed, Timers(seconds=seconds, offset=7)


def timers(n: Numbers) -> Printed:
    """Timers on one line."""
    printed, record = milliseconds(n, "forward-compute", "batch generator")
    return "time (ms)" + "".join(f" | {name}: {ms}" for name, ms in printed.items()), record


def ranges(n: Numbers) -> Printed:
    """Timers below a title."""
    printed, record = milliseconds(n, "forward-backward", "optimizer")
    rows = (f"\n    {name + ' ':.<48}: (0.10, {ms})" for name, ms in printed.items())
    return "(min, max) time across ranks (ms):" + "".join(rows), record


def ranks(n: Numbers) -> Printed:
    """Timers of every rank, and what stands below them."""
    printed, record = milliseconds(n, "forward-backward", "optimizer")
    rows = (f"\n  {name}:\n     rank  0: 0.00\n     rank 10: {ms}" for name, ms in printed.items())
    return f"times across ranks (ms):{''.join(rows)}\ndone\nnext", record


FORMATS: dict[Callable[[Numbers], Printed], LogFormat] = {
    megatron: MEGATRON,
    neox: MEGATRON,
    nanotron: NANOTRON,
    pipeline: DEEPSPEED_PIPELINE,
    memory: MEGATRON_MEMORY,
    timers: TIMERS,
    ranges: MEGATRON_TIMERS,
    ranks: MEGATRON_RANK_TIMERS,
}
every_format = pytest.mark.parametrize(
    ("printed", "log_format"), FORMATS.items(), ids=[printed.__name__ for printed in FORMATS]
)
LABELS = ["", "0: ", "127: ", "[rank0]: ", "[default7]:", "node2: ", "> ", "\r 5%|# | 1/20\r"]
AFTER = ["", "[Rank 3] (af", " | ", "\r 5%|# | 1/20 [00:01<00:19]", "time (ms) | x", "\n", "# "]
NUMBER = re.compile(r"(?i)[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]{1,3})?")
UNITS = (*(10.0**power for power in range(-18, 19, 3)), 1024.0)


def facts(record: Record) -> Iterator[tuple[str, object]]:
    """Yield what a record says of what is printed; of several timers each."""
    if isinstance(record, Timers):
        yield from record.seconds
    else:
        for field in dataclasses.fields(record):
            if (
                field.name not in {"offset", "log_interval", "source"}
                and (value := getattr(record, field.name)) is not None
            ):
                yield field.name, value


@every_format
@given(
    several=st.lists(numbers, min_size=1, max_size=3),
    label=st.sampled_from(LABELS),
    after=st.sampled_from(AFTER),
    colour=st.integers(0, 400),
)
def test_a_printed_report_is_read_back(
    printed: Callable[[Numbers], Printed],
    log_format: LogFormat,
    several: list[Numbers],
    label: str,
    after: str,
    colour: int,
) -> None:
    """Whatever stands in front of it and behind it, and where a colour begins."""
    lines, records = map(list, zip(*map(printed, several), strict=True))
    if "\n" in lines[0]:  # a block's title begins a line
        lines, records = lines[:1], records[:1]
    text = label + "".join(lines).replace("\n", f"\n{label}")
    text = text[:colour] + "\x1b[92m" + text[colour:] + after
    read = list(log_format.parse(7, decode(text.encode())))
    assert repr(read) == repr(records)  # nan is not equal to itself, its text is


@every_format
@given(report=numbers, end=st.integers(0, 600))
def test_a_torn_report_says_nothing_else(
    printed: Callable[[Numbers], Printed], log_format: LogFormat, report: Numbers, end: int
) -> None:
    """It is no record, or one that lacks what has been torn off."""
    line, record = printed(report)
    known = {repr(fact) for fact in facts(record)}
    for torn in log_format.parse(7, line[:end]):
        assert {repr(fact) for fact in facts(torn)} <= known


@every_format
@given(
    report=numbers,
    changes=st.lists(st.tuples(st.integers(0, 600), st.binary(max_size=6)), max_size=4),
    noise=st.binary(max_size=30),
)
def test_no_number_is_made_up(
    printed: Callable[[Numbers], Printed],
    log_format: LogFormat,
    report: Numbers,
    changes: list[tuple[int, bytes]],
    noise: bytes,
) -> None:
    """Whatever bytes are changed: what is read stands in the text, in some unit."""
    line = bytearray(printed(report)[0].encode())
    for position, replacement in changes:
        line[position : position + len(replacement)] = replacement
    text = decode(noise + line)
    inside = [float(word) for word in NUMBER.findall(text)]
    for record in log_format.parse(7, text):
        for name, value in facts(record):
            if isinstance(value, int | float) and math.isfinite(value):
                assert any(
                    math.isclose(value * unit, number, rel_tol=1e-12)
                    for unit in UNITS
                    for number in inside
                ), (name, value)
