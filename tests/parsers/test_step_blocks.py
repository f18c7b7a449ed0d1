"""Check that reading many steps together gives the same records as reading line by line.

Steps that are read together are stored in a `StepBlock`, which tests here call a block.
"""

import io
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import printed_declared
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed import PRINTERS

from parsers.formats.table import ALL_FORMATS, DECLARED
from parsers.records import Step
from parsers.runs.reading import read
from parsers.runs.run import LogRun
from parsers.scan.reader import LogFormat, read_records
from parsers.steps.blocks import Records, StepBlock, joined_steps
from parsers.steps.merge import merged_steps
from parsers.summary.rows import run_object, step_rows
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

ONE_BY_ONE = tuple(
    replace(log_format, parse_lines=None) if isinstance(log_format, LogFormat) else log_format
    for log_format in ALL_FORMATS
)
CORE = (
    "{front} iteration {iteration:8d}/{of:8d} | consumed samples: {samples:12d} |"
    " elapsed time per iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 101.5 |"
    " learning rate: 1.5E-04 | global batch size:   512 | lm loss: {loss} | loss scale: 1.0 |"
    " grad norm: 0.777 | number of skipped iterations: {skipped:3d} |"
    " number of nan iterations:   0 |"
)
OLD = (
    "{front} iteration {iteration:8d}/{of:8d} | consumed samples: {samples:12d} |"
    " elapsed time per iteration (ms): {ms} | learning rate: 1.5E-04 | global batch size:   512 |"
    " number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |"
)
NANOTRON = (
    "{front} iteration: {iteration} / {of} | consumed_tokens: 1.05M |"
    " elapsed_time_per_iteration_ms: {ms} | tokens_per_sec: 1.9K | lm_loss: {loss} |"
    " model_tflops_per_gpu: 1.5 | hardware_tflops_per_gpu: 1.5 |"
)
LAYOUTS = (CORE, OLD, NANOTRON)
NOISE = (
    "NCCL INFO Channel 02 : 1[1c000] -> 2[88000]",
    "time (ms) | forward-compute: 12.50 | optimizer: 3.10",
    (
        "[Rank 0] (after 10 iterations) memory (MB) | allocated: 5.0 | max allocated: 6.0"
        " | reserved: 8.0 | max reserved: 9.0"
    ),
    "------------------------ arguments ------------------------",
    "  log_interval .................................... 2",
    "  successfully loaded checkpoint from /save [ t 1/2, p 1/1 ] at iteration 12",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***",
    "+ export GLOBAL_BATCH_SIZE=512",
    " iteration 7/ 90 | elapsed time per iteration (ms): ",
)
FRONTS = ("", "0: ", "[default7]:", " [2026-01-02 03:04:05.123456]", "\x1b[92m", "> ", "é ")


def line(layout: str, iteration: int, **values: object) -> str:
    """Return a report of an iteration: the template `layout`, filled with these values."""
    usual = {"front": "", "of": 10**6, "ms": f"{1000 + iteration % 7}.5", "loss": "2.5E+00"}
    fields = {"samples": 512 * iteration, "skipped": 0, **usual, **values}
    return layout.format(iteration=iteration, **fields)


def learn() -> None:
    """Let the parser learn the layouts (orders of fields) of all lines of these tests."""
    for layout in LAYOUTS:
        runs_of("\n".join([line(layout, at) for at in (1, 2, 3)]).encode())


def runs_of(log: bytes, formats: Sequence[object] = ALL_FORMATS) -> list[LogRun]:
    """Return the runs in a log."""
    return read(io.BytesIO(log), formats)  # type: ignore[arg-type]


def read_values(runs: Sequence[LogRun]) -> str:
    """Return all records and summaries of a log's runs as one text.

    Texts of two readings can be compared, because NaN equals NaN in texts.
    """
    summaries = [summarise(run, Warmup(rule="auto")) for run in runs]
    return repr(
        (
            runs,
            [(run.steps, run.records, run.totals, run.memory_reports) for run in runs],
            [(run_object(summary), list(step_rows(summary))) for summary in summaries],
        )
    )


@st.composite
def stretches(draw: st.DrawFn) -> list[str]:
    """Draw lines of consecutive reports, which mostly differ only in their numbers.

    A few reports are unusual, e.g. with a nan loss, and another line may be between them.
    """
    layout, front = draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(FRONTS))
    first = draw(st.integers(0, 60))
    mixed = st.lists(st.sampled_from([1, 1, 1, 1, 2, 2, 0, -1, -9]), max_size=12)
    rises = draw(mixed | st.integers(3, 12).map(lambda count: [1] * count))
    iterations = [max(iteration, 0) for iteration in accumulate(rises, initial=first)]
    usual = {"front": front, "of": draw(st.sampled_from([10**6, 10**6, 70, 10**17]))}
    lines = [line(layout, iteration, **usual) for iteration in iterations]
    odd = st.fixed_dictionaries(
        {},
        optional={
            "ms": st.sampled_from(["nan", "1E999", "1e3", "-5.0", "1_0", "7", ".", "9" * 400]),
            "loss": st.sampled_from(["nan", "NAN", "inf", "-inf", "1e-3", "x", "1.2K", "1E309"]),
            "of": st.integers(0, 80),
            "front": st.sampled_from(FRONTS),
            "skipped": st.integers(0, 3),
            "samples": st.sampled_from([10**17, 10**18, 10**20, -1]),
        },
    )
    for values in draw(st.lists(odd, max_size=2)):
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = line(layout, iterations[at], **(usual | values))
    for noise in draw(st.lists(st.sampled_from(NOISE), max_size=1)):
        lines.insert(draw(st.integers(0, len(lines))), noise)
    return lines


@given(
    parts=st.lists(stretches(), max_size=4),
    changes=st.lists(
        st.tuples(st.integers(0, 10**4), st.integers(0, 3), st.binary(max_size=3)), max_size=3
    ),
    newline=st.sampled_from([b"\n", b"\n", b"\r\n", b"\r\r\n"]),
)
def test_blocks_give_the_same_records_as_single_lines(
    parts: list[list[str]], changes: list[tuple[int, int, bytes]], newline: bytes
) -> None:
    """Reading many reports at once gives the same records as reading line by line.

    Any text may be between the reports; some reports are unusual or damaged.
    """
    log = newline.join(text.encode() for part in parts for text in part) + newline
    learn()
    for at, length, change in changes:
        place = at % (len(log) + 1)
        log = log[:place] + change + log[place + length :]
    assert read_values(runs_of(log)) == read_values(runs_of(log, ONE_BY_ONE))
    assert [*map(repr, read_records(io.BytesIO(log), ALL_FORMATS))] == [
        *map(repr, read_records(io.BytesIO(log), ONE_BY_ONE))
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("front", FRONTS)
def test_usual_reports_are_read_at_once(layout: str, newline: str, front: str) -> None:
    """Reports with the same fields are read together, whatever text is before them."""
    learn()
    lines = [line(layout, at, front=front) for at in range(5, 25)]
    (run,) = runs_of((newline.join(lines) + newline).encode())
    (block,) = run.reports
    assert isinstance(block, StepBlock)
    assert block.steps() == run.records
    assert [step.iteration for step in run.steps] == list(range(5, 25))
    assert run.lines == 20


@pytest.mark.parametrize(
    ("odd", "at_once"),
    [
        ({"loss": "nan"}, 19),
        ({"loss": "inf"}, 19),
        ({"of": 14}, 19),
        ({"of": 13}, 19),
        ({"iteration": 13}, 9),
        ({"iteration": 3}, 9),
        ({"loss": "x"}, 4),
        ({"ms": "x"}, 4),
        ({"front": "a | "}, 9),
        ({"samples": 10**19}, 4),
        ({"ms": "nan"}, 20),
        ({"skipped": 1}, 20),
        ({"front": "0: "}, 20),
    ],
    ids=str,
)
def test_reports_are_read_at_once_around_an_odd_one(odd: dict[str, Any], at_once: int) -> None:
    """If one report is unusual, the reports before and after it are still read together.

    The records are the same as if each line was read alone. Some reports are always read alone: the
    last planned one, one with a NaN loss, and the first of a launch.
    """
    learn()
    values: list[dict[str, Any]] = [{"iteration": at} for at in range(5, 25)]
    values[9] |= odd
    log = "".join(line(CORE, **value) + "\n" for value in values).encode()
    runs = runs_of(log)
    blocks = [part for run in runs for part in run.reports if isinstance(part, StepBlock)]
    assert sum(map(len, blocks)) == at_once
    assert read_values(runs) == read_values(runs_of(log, ONE_BY_ONE))


def test_a_launch_that_begins_within_a_block_begins_at_its_line() -> None:
    """If iterations start over among lines that are read together, another launch begins there."""
    learn()
    first = [line(CORE, at, samples=7) for at in range(1, 9)]
    log = "\n".join([*first, NOISE[1], *(line(CORE, at) for at in range(5, 15))]).encode()
    runs = runs_of(log)
    assert read_values(runs) == read_values(runs_of(log, ONE_BY_ONE))
    assert sum(len(run.segments) for run in runs) == 2
    assert sum(run.lines for run in runs) == 19


def test_processes_read_the_same(tmp_path: Path) -> None:
    """One process, two processes, and reading line by line give the same runs."""
    learn()
    noise = "x" * 20_000
    log = tmp_path / "slurm-1.out"
    log.write_text("".join(f"{noise}\n{line(CORE, at)}\n" for at in range(1, 2000)))
    (alone,), (parallel,), (slow,) = (
        read(log, processes=1),
        read(log, processes=2),
        read(log, ONE_BY_ONE, processes=1),
    )
    assert alone == parallel == slow
    assert sum(isinstance(part, StepBlock) for part in alone.reports) > 2


def test_records_behave_like_a_sequence() -> None:
    """A `Records` object equals a tuple of the same records, and can be sent to other processes."""
    steps = [Step(iteration=at, loss=2.5, offset=100 * at) for at in range(5)]
    records = Records([steps[0], StepBlock.of(steps[1:4]), steps[4]])
    assert list(records) == steps == list(pickle.loads(pickle.dumps(records)))
    assert (len(records), records[2], records[3:]) == (5, steps[2], (steps[3], steps[4]))
    assert records == tuple(steps) == records
    assert {records} == {Records(steps)}
    assert repr(records) == repr(tuple(steps))
    assert merged_steps(records).steps() == merged_steps(steps).steps()


def test_blocks_are_joined_by_field() -> None:
    """If steps with different fields are joined, a field that a step lacks is None."""
    steps = [Step(iteration=1, loss=2.5, offset=0), Step(iteration=2, grad_norm=1.0, offset=9)]
    assert joined_steps([StepBlock.of(steps[:1]), *steps[1:]]).steps() == steps
    assert joined_steps([]).steps() == []
    assert len(joined_steps([])) == 0


assert printed_declared
AT_ONCE = [
    log_format.name
    for log_format in DECLARED
    if log_format.parse_lines is not None and log_format.name in PRINTERS
]


@pytest.mark.parametrize("name", AT_ONCE)
def test_declared_lines_are_read_at_once_as_they_are_read_alone(name: str) -> None:
    """For declared formats, reading many lines at once gives the same records as line by line.

    Numbers have any length, some lines are damaged, and other lines are between them.
    """
    for seed in range(60):
        random = Random(seed)
        lines = [random.choice(PRINTERS[name])(random).log for _ in range(24)]
        if seed % 2:
            at, begin = random.randrange(24), random.randrange(40)
            damage = random.choice(("", "\n"))
            lines[at] = lines[at][:begin] + damage + lines[at][begin + random.randrange(9) :]
            lines.insert(random.randrange(24), random.choice(NOISE))
        log = ("\n".join(lines) + "\n").encode()
        runs = read(io.BytesIO(log * 2))
        alone = read(io.BytesIO(log * 2), ONE_BY_ONE)
        assert [repr(run.records) for run in runs] == [repr(run.records) for run in alone]
        assert [repr(run.steps) for run in runs] == [repr(run.steps) for run in alone]
        assert [run.outcome for run in runs] == [run.outcome for run in alone]


@pytest.mark.parametrize("name", AT_ONCE)
def test_rising_lines_of_a_declaration_are_read_at_once(name: str) -> None:
    """Lines of a declared format are read together if their iteration numbers rise."""
    printed = {}
    for seed in range(60):
        report = PRINTERS[name][0](Random(seed))
        (step,) = [record for record in report.records if isinstance(record, Step)]
        if math.isfinite(step.loss or 0) and step.iteration < (step.iterations or math.inf):
            printed[step.iteration] = report.log
    log = "".join(f"{printed[iteration]}\n" for iteration in sorted(printed))
    (run,) = read(io.BytesIO(log.encode()))
    at_once = sum(len(part) for part in run.reports if isinstance(part, StepBlock))
    assert at_once


def test_reports_without_an_iteration_are_numbered_across_blocks_and_single_lines() -> None:
    """Reports without an iteration number are numbered in their order.

    The numbers continue even if some reports are read together and others one by one.
    """
    plain = "Step Time : {}.25s GPU utilization: 1085.8MODEL_TFLOP/s/GPU\n"
    odd = "Step Time : {}.25s ! GPU utilization: 1085.8TFLOP/s/GPU\n"
    forms = [plain] * 9 + [odd] + [plain] * 40
    log = "".join(form.format(number) for number, form in enumerate(forms, start=1))
    (run,) = read(io.BytesIO(log.encode()))
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [
        (number, number + 0.25) for number in range(1, 51)
    ]
    kinds = {type(part) for part in run.reports}
    assert kinds == {Step, StepBlock}


PICOTRON = (
    "Step: {} | Loss: {} | Global batch size: 2.05K | Tokens/s: 10.61K | Tokens/s/GPU: 1.33K"
    " | Tokens: 6.14K | MFU: 0.43% | Memory usage: 1.75GB\n"
)
LITGPT = "iter {} step 1: loss 59.4496, iter time: 4.50ms (optimizer.step)"
LITGPT_WITHOUT_STEP = "iter {}: loss 59.4496, time: 4.50ms, speed: - toks/s/device\n"
PADDLE = (
    "[2022-07-27 12:40:00,967] [    INFO] - global step {}, epoch: 1, batch: {} loss: 8.5,"
    " avg_reader_cost: 0.5 sec, avg_batch_cost: 0.25 sec, speed: 7.12 step/s\n"
)
MMENGINE = (
    "2024/05/07 12:40:23 - mmengine - INFO - Iter(train) [{}/99]  lr: 8.4066e+02  eta: 0:29:39"
    "  time: 0.2905  data_time: 0.0049  memory: 2048  loss: 1.5000{}\n"
)
ODD_LINES = {
    "two keys mean the iteration, and are 0 in the first line": "".join(
        f'{{"_step": {at}, "global_step": {10 * at}, "throughput/duration": 1.5}}\n'
        for at in range(8)
    ),
    "a key is also in an inner object, and is 0 in the first line": "".join(
        f'{{"step": {at}, "x": {{"mem": {10 * at}}}, "mem": {at}, "tps_per_gpu": 0.5}}\n'
        for at in range(8)
    ),
    "no line has a number as its loss": "".join(PICOTRON.format(at, ".5") for at in range(1, 9)),
    "a line has two reports": "".join(
        [
            *(LITGPT.format(at) + "\n" for at in range(1, 6)),
            LITGPT.format(6) + LITGPT.format(7) + "\n",
            *(LITGPT_WITHOUT_STEP.format(at) for at in range(8, 12)),
        ]
    ),
    "a later line has a suffix": "".join(
        "step  {} | loss: 3.454912 | lr 6.6196e-05 | norm: 2.2944 | dt: 1184.77ms"
        " | tok/sec: {}\n".format(at, "82.10K" if at == 4 else "0.61")
        for at in range(1, 9)
    ),
    "the head of a damaged line goes on in the next line": "".join(
        PADDLE.format(at, "9" if at == 4 else "9,") for at in range(1, 9)
    ),
    "a torn report is before the first one": (
        PICOTRON.format(1, 8.5).partition("Tokens/s:")[0]
        + "".join(PICOTRON.format(at, 9.5) for at in range(2, 9))
    ),
    "Ray adds a number of copies": "".join(
        MMENGINE.format(at, " [repeated 3x across cluster]\r") for at in range(1, 9)
    ),
}


@pytest.mark.parametrize("log", ODD_LINES.values(), ids=ODD_LINES)
def test_odd_lines_are_read_at_once_as_they_are_read_alone(log: str) -> None:
    """A line that is not one whole report is not an example for the lines after it."""
    assert read_values(runs_of(log.encode())) == read_values(runs_of(log.encode(), ONE_BY_ONE))
