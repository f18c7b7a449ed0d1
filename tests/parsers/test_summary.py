"""Summarize a run: choose the step reports that count, and compute values from them."""

import dataclasses
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.records import OutcomeKind
from parsers.runs.reading import read
from parsers.steps.seconds import StepSeconds, skipped_updates
from parsers.summary.frames import runs_frame, steps_frame, usage_frame
from parsers.summary.rows import RUN_NAMES, STEP_NAMES, USAGE_NAMES, run_object
from parsers.summary.run import RunSummary, summarise
from parsers.summary.warmup import Warmup


def line(
    iteration: int, ms: float, *, skipped: int = 0, batch: int = 16, extra: str = "", until: int = 9
) -> str:
    """Return a report as Megatron prints it."""
    return (
        f" iteration {iteration:8d}/{until:8d} | consumed samples: {batch * iteration:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | {extra}learning rate: 1.500E-04 | "
        f"global batch size: {batch:5d} | lm loss: 2.500000E+00 | loss scale: 1.0 | "
        f"number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |\n"
    )


def summary(
    log: Path, text: str, warmup: str = "first", *, keep_skipped: bool = False
) -> RunSummary:
    """Return the summary of the only run in a log."""
    log.write_text(text)
    (run,) = read(log)
    return summarise(run, Warmup.parse(warmup), keep_skipped=keep_skipped)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the path of a log that the test writes."""
    return tmp_path / "slurm-1.out"


TIMES = [9000.0, 1000.0, 1200.0, 1100.0]
FIRST_SKIPPED = [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("warmup", "keep_skipped", "counted", "dropped", "skipped"),
    [
        ("none", True, [9.0, 1.0, 1.2, 1.1], 0, 0),
        ("none", False, [1.0, 1.1], 0, 2),
        ("first", True, [1.0, 1.2, 1.1], 1, 0),
        ("first", False, [1.0, 1.1], 1, 1),
        ("2", False, [1.1], 2, 1),
        ("9", False, [], 4, 0),
    ],
)
def test_warm_up_and_skipped_updates_are_left_out(
    log: Path, warmup: str, keep_skipped: bool, counted: list[float], dropped: int, skipped: int
) -> None:
    """Reports of the warm-up and skipped reports do not count in the step times.

    A skipped report within the warm-up is counted as warm-up. With `keep_skipped`, skipped reports
    count like others.
    """
    lines = zip(TIMES, FIRST_SKIPPED, strict=True)
    text = "".join(line(at, ms, skipped=skips) for at, (ms, skips) in enumerate(lines, start=1))
    run_summary = summary(log, text, warmup, keep_skipped=keep_skipped)
    assert run_summary.step_seconds == StepSeconds.of(counted)
    assert (run_summary.dropped, run_summary.skipped) == (dropped, skipped)
    assert [report.step_seconds for report in run_summary.reported if report.counted] == counted
    assert run_summary.reports == 4


@pytest.mark.parametrize(
    ("iterations", "so_far", "skips"),
    [
        ([10, 20, 30], [2, 2, 3], [True, False, True]),
        ([200, 210, 220], [4, 4, 5], [False, False, True]),
        ([199, 200, 201], [None, 4, 5], [False, False, True]),
        ([200], [4], [True]),
        ([10, 20], [None, None], [False, False]),
        ([], [], []),
    ],
)
def test_skips_before_the_log_begins_are_in_no_report(
    iterations: list[int], so_far: list[int | None], skips: list[bool]
) -> None:
    """A number of skipped updates since the start shows none, if the log begins in the middle."""
    assert skipped_updates(iterations, so_far, [None] * len(so_far)) == skips


def test_an_overflow_belongs_to_the_next_report(log: Path) -> None:
    """If each step is reported, a line about an overflow belongs to the step reported after it.

    If some steps are not reported, it may belong to one of them.
    """
    overflow = (
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4, reducing to 2.0\n"
    )
    timer = "0/{}, RunningAvgSamplesPerSec=9.0, CurrSamplesPerSec=8.0, MemAllocated=1.75GB, {}\n"
    more = "MaxMemAllocated=2.52GB"
    lines = [
        f"{overflow if at in {1, 3, 9} else ''}{timer.format(at, more)}"
        for at in (1, 2, 3, 4, 5, 9)
    ]
    reports = [*summary(log, "".join(lines), "none").reported]
    assert [report.step.iteration for report in reports if not report.counted] == [1, 3]


def test_the_statistics_are_those_of_a_sample() -> None:
    """The standard deviation is that of a sample (n - 1).

    Statistics of too few values are None.
    """
    assert StepSeconds.of([2.0, 1.0, 4.0, 1.0]) == StepSeconds(
        n=4, mean=2.0, median=1.5, std=pytest.approx(2**0.5), min=1.0, max=4.0, first=2.0
    )
    assert StepSeconds.of([2.0]).std is None
    assert StepSeconds.of([]) == StepSeconds(n=0)


@given(st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=2))
def test_the_standard_deviation_is_that_of_the_standard_library(seconds: list[float]) -> None:
    """The standard deviation equals that of `statistics`, except for rounding.

    If all times are equal, it is 0.
    """
    deviation = StepSeconds.of(seconds).std
    assert deviation == pytest.approx(statistics.stdev(seconds), rel=1e-9, abs=1e-9 * max(seconds))
    assert StepSeconds.of([seconds[0]] * len(seconds)).std == 0


@pytest.mark.parametrize(
    "times",
    [[1000.0, -1000.0], [float("9" * 300)] * 3, [1e-310, 1e-310]],
    ids=["negative", "huge", "tiny"],
)
def test_a_damaged_time_is_absent(log: Path, times: list[float]) -> None:
    """Step times that are negative, huge or tiny are None, because the line must be damaged."""
    text = "".join(
        line(at, 1).replace("(ms): 1.0", f"(ms): {ms!r}") for at, ms in enumerate(times, start=1)
    )
    for warmup in ("none", "auto"):
        run_summary = summary(log, text, warmup)
        assert [report.step_seconds for report in run_summary.reported] == [
            1.0 if ms == 1000.0 else None for ms in times
        ]


def test_the_mean_of_equal_times_is_that_time() -> None:
    """The mean of equal times is exactly that time, without rounding errors of a sum."""
    for value in (123.4, 14.26962, 0.1):
        assert StepSeconds.of([value] * 3).mean == value


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 30, "0", "\N{SUPERSCRIPT TWO}"])
def test_a_damaged_size_is_absent(log: Path, size: str) -> None:
    """If sizes in the list of arguments are unreadable, they are None.

    The batch size that a step report prints still counts.
    """
    names = ("seq_length", "global_batch_size", "log_interval")
    dump = "".join(f"  {name} ..... {size}\n" for name in names)
    run_summary = summary(log, dump + line(1, 1000), "none")
    assert (run_summary.samples_per_second, run_summary.tokens_per_second) == (16.0, None)


def test_samples_are_divided_by_the_seconds_that_they_took(log: Path) -> None:
    """The rate is all samples divided by all seconds, even if the batch size grows.

    The rate of tokens is computed with the sequence length.
    """
    dump = "------------------------ arguments ------------------------\n  seq_length ..... 1024\n"
    steps = line(1, 9000, batch=16) + line(2, 1000, batch=16) + line(3, 3000, batch=32)
    run_summary = summary(log, dump + steps)
    assert run_summary.samples_per_second == (16 + 32) / 4
    assert run_summary.tokens_per_second == 12 * 1024


def test_rates_without_a_batch_are_each_of_as_many_samples(log: Path) -> None:
    """The mean rate is the same, whether a log has the batch size or not.

    Without the batch size, each step counts as the same number of samples. In the test, three steps
    of 8 samples take 0.1, 0.1 and 0.4 s.
    """
    steps = "".join(
        "[2023-09-15 00:09:01,317] [INFO] [timer.py:260:stop] epoch=0/micro_step=2/"
        f"global_step={at}, RunningAvgSamplesPerSec=80.0, CurrSamplesPerSec={rate}, "
        "MemAllocated=0.14GB, MaxMemAllocated=0.23GB\n"
        for at, rate in enumerate((1.0, 80.0, 80.0, 20.0), start=1)
    )
    batch = "[2023-09-15 00:09:00,317] [INFO] [config.py:1:print]   train_batch_size ...... 8\n"
    assert summary(log, batch + steps).samples_per_second == pytest.approx(3 * 8 / 0.6)
    assert summary(log, steps).samples_per_second == pytest.approx(3 * 8 / 0.6)


@pytest.mark.parametrize(
    ("text", "times_from", "seconds"),
    [
        (line(1, 9000) + line(2, 1000), "step_seconds", [9.0, 1.0]),
        (
            (
                "[2023-09-15 00:09:00,317] [INFO] [config.py:1:print]   train_batch_size ...... 8\n"
                "[2023-09-15 00:09:01,317] [INFO] [timer.py:260:stop] epoch=0/micro_step=2/"
                "global_step=1, RunningAvgSamplesPerSec=80.0, CurrSamplesPerSec=16.0, "
                "MemAllocated=0.14GB, MaxMemAllocated=0.23GB\n"
            ),
            "samples_per_second",
            [0.5],
        ),
        (
            (
                '{"step": 1, "tps": 800.0, "tps_per_gpu": 100.0, "num_tokens_per_step": 1600}\n'
                '{"step": 2, "tps": 800.0, "tps_per_gpu": 100.0, "num_tokens_per_step": 1000}\n'
            ),
            "tokens_per_second",
            [2.0, 1.25],
        ),
        (
            "step:1/9 train_time:20ms step_avg:1.00ms\nstep:2/9 train_time:50ms step_avg:1.00ms\n",
            "train_seconds",
            [0.03],
        ),
        ('{"step": 1, "tps": 800.0, "tps_per_gpu": 100.0}\n', None, []),
    ],
    ids=["reports", "samples", "tokens", "time since the start", "unknown"],
)
def test_a_summary_shows_what_its_step_times_are_from(
    log: Path, text: str, times_from: str | None, seconds: list[float]
) -> None:
    """If the reports contain no step times, they are computed, and marked as such."""
    run_summary = summary(log, text, "none")
    assert run_summary.step_times_from == times_from
    times = [report.step_seconds for report in run_summary.reported if report.step_seconds]
    assert times == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (line(5, 9000) + line(6, 1000), 6),
        ("step:9/9 val_loss:3.2 train_time:1.5s step_avg:166.67ms\n", 9),
        ("step:9/9 val_loss:3.2 train_time:0ms step_avg:nanms\n", 9),
        (
            (
                "step:500/2000 train_loss:3.6 train_time:54000ms step_avg:108.00ms\n"
                "stopping_early: wallclock_cap train_time:59999ms step:555/2000\n"
            ),
            555,
        ),
        ("[after training is done]\n", None),
    ],
    ids=["reports", "result", "result without a mean", "result after reports", "unknown"],
)
def test_a_summary_contains_the_last_iteration(log: Path, text: str, last: int | None) -> None:
    """How far a run got is known from its last report, or from its result."""
    assert summary(log, text).last_iteration == last


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (
            "step:5/5 val_loss:3.2 train_time:800ms step_avg:160.00ms\n",
            {"train_seconds": 0.8, "step_seconds": 0.16},
        ),
        (
            # The first step of this training was not timed.
            "step:6/6 val_loss:3.2 train_time:800ms step_avg:160.00ms\n",
            {"train_seconds": 0.8, "step_seconds": 0.16},
        ),
        # In track 3, the mean is that of the steps since the previous validation.
        (
            "step:9/9 val_loss:3.2 train_time:1.5s step_avg:160.00ms\n",
            {"train_seconds": 1.5, "step_seconds": 0.16},
        ),
        ("step:9/9 val_loss:3.2 train_time:0ms step_avg:nanms\n", {"train_seconds": 0.0}),
        (
            (
                "{'train_runtime': 50.0, 'train_samples_per_second': 6.4, "
                "'train_steps_per_second': 0.8, 'train_loss': 2.25}\n"
            ),
            {"train_seconds": 50.0, "samples_per_second": 6.4},
        ),
        (line(5, 9000), {}),
    ],
    ids=["result", "not all timed", "track 3", "no mean", "Trainer", "no result"],
)
def test_a_summary_contains_the_program_s_own_result(
    log: Path, text: str, result: dict[str, float]
) -> None:
    """The program's numbers for the whole run are shown as it prints them."""
    stated = dataclasses.asdict(summary(log, text).result)
    assert {name: value for name, value in stated.items() if value is not None} == result


def test_rates_are_weighed_by_their_seconds(log: Path) -> None:
    """In the mean of reported TFLOPs, the weight of each value is the time of its step.

    A value that is rounded to 0 counts, too.
    """
    claimed = "throughput per GPU (TFLOP/s/GPU): {} | "
    steps = "".join(
        line(at, ms, extra=claimed.format(tflops))
        for at, (ms, tflops) in enumerate([(9000, 5.0), (1000, 40.0), (3000, 0.0)], start=1)
    )
    assert summary(log, steps).reported_tflops_per_gpu == 10.0


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [((2048, 4096, 6144), 16 * 128), ((2048, 3072, 4096), 16 * 64), ((2048,) * 3, 16 * 1024)],
    ids=["of the whole length", "of a length that is still rising", "not counted"],
)
def test_tokens_are_those_that_were_consumed(
    log: Path, tokens: tuple[int, int, int], expected: int
) -> None:
    """The rate of tokens uses the consumed tokens, because the sequence length may change."""
    dump = "------------------------ arguments ------------------------\n  seq_length ..... 1024\n"
    steps = "".join(
        line(at, 1000, extra=f"consumed tokens: {count:12d} | ")
        for at, count in enumerate(tokens, start=1)
    )
    assert summary(log, dump + steps).tokens_per_second == expected


def test_the_claimed_tflops_are_the_mean_of_the_reports_that_count(log: Path) -> None:
    """The reported TFLOPs are a mean without the first report, which is warm-up."""
    extra = "throughput per GPU (TFLOP/s/GPU): {:.1f} | "
    text = "".join(line(at, 1000, extra=extra.format(10 * at)) for at in (1, 2, 3))
    assert summary(log, text).reported_tflops_per_gpu == 25.0


def test_every_launch_of_a_run_has_its_warm_up(log: Path) -> None:
    """Each launch of a run has a warm-up, because a restart compiles and allocates again."""
    resumed = "  successfully loaded checkpoint from /checkpoints at iteration 3\n"
    start = "------------------------ arguments ------------------------\n"
    first = start + "".join(line(at, ms) for at, ms in ((1, 9000), (2, 1000), (3, 1000)))
    second = start + resumed + "".join(line(at, ms) for at, ms in ((4, 8000), (5, 1000)))
    run_summary = summary(log, first + second)
    assert [report.launch for report in run_summary.reported] == [0, 0, 0, 1, 1]
    assert run_summary.dropped == 2
    assert run_summary.step_seconds.max == 1.0


def test_a_cumulative_count_of_skipped_steps_is_read_by_its_rises(log: Path) -> None:
    """If a program reports how many steps were skipped so far, each increase is a skipped step."""
    words = "[2026-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] "
    rate = "RunningAvgSamplesPerSec={0}, CurrSamplesPerSec={0}, MemAllocated=1.0GB, "
    rate += "MaxMemAllocated=2.0GB"
    text = "".join(
        f"{words}step={at}, skipped={skipped}, lr=[0.001], mom=[(0.9, 0.999)]\n"
        f"{words}epoch=0/micro_step={at}/global_step={at}, {rate.format(8.0)}\n"
        for at, skipped in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2))
    )
    run_summary = summary(log, '  "train_batch_size": 16,\n' + text)
    assert [report.counted for report in run_summary.reported] == [False, False, True, False, True]
    assert run_summary.skipped == 2
    assert run_summary.peak_memory_mib == 2048


def test_the_time_of_a_whole_training_gives_the_mean_step_time(log: Path) -> None:
    """If no report has a step time, the mean is the time of the training by its iterations."""
    result = "step:3350/3350 val_loss:3.27839 train_time:492.485s step_avg:147.03ms\n"
    seconds = summary(log, result).step_seconds
    assert (seconds.n, seconds.mean, seconds.median) == (0, 492.485 / 3350, None)
    # By chance, the last mean of this training is nearly that of 3,347 steps.
    chance = "step:3350/3350 val_loss:3.28099 train_time:492.441s step_avg:147.13ms\n"
    assert summary(log, chance).step_seconds.mean == 492.441 / 3350
    # This one was probably resumed.
    resumed = "step:3350/3350 val_loss:3.28 train_time:246.220s step_avg:147.13ms\n"
    assert summary(log, resumed).step_seconds.mean is None
    nothing = summary(log, "step:0/0 val_loss:3.2 train_time:4.5s step_avg:nanms\n")
    assert nothing.step_seconds.mean is None
    more = "step:9/9 val_loss:2.0 val_bpb:1.2 val_time:31ms train_time:900ms step_avg:100.00ms\n"
    assert summary(log, more).step_seconds.mean == 0.1
    torn = "step:9/9 val_loss:2.0 train_time:900msstep:7/8 train_time:700ms step_avg:100.00ms\n"
    assert summary(log, torn).step_seconds.mean is None
    none = summary(log, "step:9/9 val_loss:3.2 train_time:4.5s step_avg:infms\n")
    assert none.step_seconds.mean is None


def test_the_time_since_a_resumption_belongs_to_the_steps_since_then(log: Path) -> None:
    """The time of a training that continued at step 2500 is not divided by all 5000 steps.

    The mean step time on the line shows this, if it is the quotient of the time and the steps.
    """
    result = "step:5000/5000 val_loss:3.2750 train_time:500000ms step_avg:200.00ms\n"
    assert summary(log, result).step_seconds.mean == 0.2
    # the mean since the previous validation
    result = "step:3350/3350 val_loss:3.27874 train_time:496.855s step_avg:146.79ms\n"
    assert summary(log, result).step_seconds.mean == 496.855 / 3350
    result = "step:3350/3350 val_loss:3.27874 train_time:496.855s step_avg:150.82ms\n"
    assert summary(log, result).step_seconds.mean == 496.855 / 3350


MESHES = {
    "of 2026": ("Building device mesh with parallelism: {}, ep=2, etp=1", True),
    "until 2025": ("Building 2-D device mesh with ['pp', 'dp_shard'], [2, 4]", True),
    "of 2024": ("Building 2-D device mesh with ('pp', 'dp'), [2, 4]", False),
    "torn": ("Building device mesh with parallelism: pp=2, dp_replicate=1, dp_sha", False),
    "torn at the end": ("Building device mesh with parallelism: {}", False),
    "torn until 2025": ("Building 2-D device mesh with ['pp', 'dp_shard'], [2]", False),
    "without": ("Loading the dataset", False),
}


@pytest.mark.parametrize(("mesh", "known"), MESHES.values(), ids=MESHES)
def test_torchtitan_s_step_times_are_computed_if_the_gpus_are_known(
    log: Path, mesh: str, known: bool
) -> None:
    """The time of a step is its tokens, divided by the tokens/s of a GPU and by the GPUs."""
    axes = "pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=1"
    head = "[rank0]:[titan] 2026-04-28 09:00:21,314 - root - INFO - "
    words = (
        mesh.format(axes),
        (
            "Trainer is initialized with local batch size 1, global batch size 16, gradient"
            " accumulation steps 4, sequence length 1000, total steps 50 (warmup 10)"
        ),
        *(
            f"step: {at:2}  loss:  6.2500  memory:  9.01GiB(58.23%)  tps: {rate}  mfu: 3.09%"
            for at, rate in ((1, 100), (2, "1,000"), (3, 500))
        ),
    )
    run_summary = summary(log, "".join(f"{head}{text}\n" for text in words))
    times = [report.step_seconds for report in run_summary.reported]
    assert times == ([20.0, 2.0, 4.0] if known else [None] * 3)
    assert run_summary.step_times_from == ("tokens_per_second_per_gpu" if known else None)
    assert run_summary.step_seconds.mean == (3.0 if known else None)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ((1, 10, 20, 30), [None, None, 2.0, 3.0]),
        ((1, 2, 3, 4), [None, 1.0, 2.0, 3.0]),
        ((1, 2, 4, 6), [None, None, 2.0, 3.0]),
        ((11, 12, 13, 14), [None, 1.0, 2.0, 3.0]),
        ((10, 20, 30, 50, 60), [None, 1.0, 2.0, None, 4.0]),
        ((1, 10), [None, None]),
        ((1, 2), [None, None]),
        ((1, 5, 10, 11, 15), [None, None, 2.0, None, None]),
        ((5,), [None]),
    ],
    ids=[
        "usual",
        "each step",
        "each second step",
        "resumed",
        "a lost line",
        "short",
        "shorter",
        "two launches",
        "one",
    ],
)
def test_torchtitan_s_metrics_contain_the_time_since_the_previous_report(
    log: Path, steps: tuple[int, ...], seconds: list[float | None]
) -> None:
    """A report has a step time if it covers a whole log interval."""
    lines = (
        {"step": step, "throughput(tps)": 100 / (at or 1), "time_metrics/end_to_end(s)": float(at)}
        for at, step in enumerate(steps)
    )
    run_summary = summary(log, "".join(f"{json.dumps(line)}\n" for line in lines))
    assert [report.step_seconds for report in run_summary.reported] == seconds


@pytest.mark.parametrize(
    ("validations", "begin", "unknown"),
    [
        (100, 0, (1, 10)),
        (20, 0, (1, 10)),
        (25, 0, (1, 10, 30, 80)),
        (25, 15, (20, 30, 80)),
        (12, 0, (1, 10, 20, 30, 40, 50, 80, 90, 100)),
        (5, 0, (1, *range(10, 101, 10))),
    ],
)
def test_validations_of_torchtitan_shorten_the_time_of_the_next_report(
    log: Path, validations: int, begin: int, unknown: tuple[int, ...]
) -> None:
    """A validation starts the clock again, so the next report may cover a part of its interval."""
    lines, done = [], 0
    for step in range(begin + 1, 101):
        done += 1
        if step == 1 or step % 10 == 0:
            seconds = done * (2 + step / 1000)
            times = {"time_metrics/end_to_end(s)": seconds / 10}
            lines.append({"step": step, "throughput(tps)": done * 8192 / seconds} | times)
            done = 0
        if step % validations == 0:
            done = 0
    run_summary = summary(log, "".join(f"{json.dumps(line)}\n" for line in lines))
    assert {report.step.iteration: report.step_seconds for report in run_summary.reported} == {
        step: None if step in unknown else pytest.approx(2 + step / 1000)
        for step in (line["step"] for line in lines)
    }


def test_tokens_of_torchtitan_s_iterations_may_differ(log: Path) -> None:
    """If each iteration has other tokens, they show nothing about the time of a report."""
    lines = (
        {"step": 10 * at, "throughput(tps)": 100.0 + 7 * at, "time_metrics/end_to_end(s)": 2.5}
        for at in range(1, 9)
    )
    run_summary = summary(log, "".join(f"{json.dumps(line)}\n" for line in lines))
    assert [report.step_seconds for report in run_summary.reported] == [None, *[2.5] * 7]


GRPO = (
    "  Num examples = 1,000\n  Total train batch size (w. parallel) = 64\n"
    "  Total optimization steps = 1,000\n"
)


def test_partial_batches_do_not_shorten_the_time_of_a_whole_batch(log: Path) -> None:
    """With 1,000 samples in 16 steps of 64, the last of which is partial, a whole batch counts."""
    setup = "  Total train batch size (w. parallel) = 64\n  Total optimization steps = 16\n"
    result = (
        "{'train_runtime': 1000.0, 'train_samples_per_second': 1.0, "
        "'train_steps_per_second': 0.016, 'train_loss': 0.5, 'epoch': 1.0}\n"
    )
    run_summary = summary(log, f"***** Running training *****\n{setup}{result}")
    assert run_summary.step_seconds.mean == 64.0


@pytest.mark.parametrize(
    ("begin", "mean"), [("", 1.0), ("  Continuing training from global step 200\n", 1.25)]
)
def test_a_trainer_s_seconds_are_divided_by_its_steps(log: Path, begin: str, mean: float) -> None:
    """The seconds belong to the steps of this launch, and a sample may be a prompt."""
    result = (
        "{'train_runtime': 1000.0, 'train_samples_per_second': 1.0, "
        "'train_steps_per_second': 1.0, 'train_loss': 0.5, 'epoch': 1.0}\n"
    )
    run_summary = summary(log, f"***** Running training *****\n{GRPO}{begin}{result}")
    assert run_summary.step_seconds.mean == mean
    assert run_summary.samples_per_second == (None if begin else 1.0)


def state(*losses: tuple[int, float], train_loss: float, steps: int) -> str:
    """Return the text of a trainer_state.json with these losses, after some of 95 steps."""
    history: list[dict[str, Any]] = [
        {"epoch": 0.5, "loss": loss, "step": step} for step, loss in losses
    ]
    history.append(
        {
            "epoch": 1.0,
            "step": steps,
            "total_flos": 0.0,
            "train_loss": train_loss,
            "train_runtime": 190.0,
            "train_samples_per_second": 4.0,
            "train_steps_per_second": 0.5,
        }
    )
    values = {"global_step": steps, "log_history": history, "max_steps": 95, "trial_name": None}
    return json.dumps(values, indent=2, sort_keys=True) + "\n"


@pytest.mark.parametrize(
    ("losses", "steps", "train_loss", "mean"),
    [
        ([(30, 4.0), (60, 3.0), (90, 2.0)], 95, 3.0, 2.0),
        ([(10, 4.0), (90, 2.5), (95, 2.0)], 95, 2.63, 2.0),
        ([(30, 9.0), (60, 3.0)], 80, 5.2, 2.375),  # the last 20 steps are not reported
        ([(30, 4.0), (60, 3.0), (90, 2.0)], 95, 1.5, None),  # only the last 45 steps
        ([(30, 4.0), (60, 3.0)], 95, 3.5, None),  # reports of the last steps are missing
        ([(19, 4.0), (38, 3.0)], 38, 3.5, 5.0),
        ([(19, 4.0), (38, 3.0)], 38, 1.5, None),
        ([(60, 3.0)], 95, 3.0, 2.0),
        ([(30, 4.0), (60, math.nan), (90, 2.0)], 95, 3.0, None),
        ([], 95, 3.0, 2.0),
        ([], 38, 3.0, 5.0),
        ([(30, 0.0002), (90, 0.0002)], 95, 0.000216, 2.0),  # rounded losses
    ],
    ids=[
        "whole",
        "uneven",
        "unreported end",
        "resumed",
        "incomplete",
        "stopped early",
        "resumed, stopped early",
        "one",
        "nan",
        "no report",
        "no report, stopped early",
        "rounded",
    ],
)
def test_a_trainer_s_state_gives_the_mean_step_time(
    log: Path, losses: list[tuple[int, float]], steps: int, train_loss: float, mean: float | None
) -> None:
    """The runtime is divided by all steps, if the mean loss shows that it includes all of them.

    The result contains the number of the last step, which is lower than the planned number if the
    training stopped early.
    """
    run_summary = summary(log, state(*losses, train_loss=train_loss, steps=steps))
    assert run_summary.step_seconds.mean == mean
    assert run_summary.samples_per_second == (4.0 if mean and steps == 95 else None)
    assert run_summary.last_iteration == steps
    assert run_summary.result.train_seconds == 190.0


def test_seconds_of_a_trainer_s_launches_are_not_subtracted(log: Path) -> None:
    """Each launch counts its seconds from its own start."""
    text = "".join(
        state((steps, 4.0), train_loss=1.0, steps=steps).replace("190.0", seconds)
        for steps, seconds in ((40, "100.0"), (95, "190.0"))
    )
    run_summary = summary(log, text)
    assert run_summary.result.train_seconds == 190.0
    assert run_summary.step_seconds.mean is None


def test_a_running_mean_is_the_rate_of_the_whole_run(log: Path) -> None:
    """If a program reports only running means, e.g. DeepSpeed up to 0.6, the last one is used."""
    words = "[2021-01-02 03:04:05,678] [INFO] [timer.py:157:stop] "
    text = "".join(
        f"{words}0/{at}, SamplesPerSec={rate}\n" for at, rate in ((100, 64.5), (200, 65.25))
    )
    run_summary = summary(log, text)
    assert run_summary.samples_per_second == 65.25
    assert run_summary.step_seconds.n == 0


def validation(step: int, seconds: float, mean: float) -> str:
    """Return a line of modded-nanogpt's track 3; `mean` is of the steps since the previous one."""
    return (
        f"step:{step}/3250 val_loss:3.28 train_time:{seconds:.3f}s step_avg:{mean * 1000:.2f}ms\n"
    )


@pytest.mark.parametrize(
    ("lines", "mean"),
    [
        ([(0, 0.0, 0.0), (125, 200.0, 1.6), (250, 218.75, 0.15)], 218.75 / 250),
        ([(125, 200.0, 1.6), (250, 218.75, 0.15)], 218.75 / 250),
        ([(125, 200.0, 1.6), (250, 218.75, 0.15), (375, 237.5, 0.15)], 237.5 / 375),
        ([(2500, 18.75, 0.15), (2625, 37.5, 0.15)], 0.15),
        ([(250, 218.75, 0.15)], None),
        ([(250, 37.5, 0.15), (125, 18.75, 0.15)], 0.15),
        ([(125, 50.0, 0.4), (375, 1.5, 0.15), (500, 20.25, 0.15), (625, 39.0, 0.15)], 0.15),
    ],
    ids=[
        "whole",
        "without step 0",
        "unfinished",
        "resumed",
        "one",
        "two launches",
        "resumed later",
    ],
)
def test_results_so_far_give_the_mean_step_time(
    log: Path, lines: list[tuple[int, float, float]], mean: float | None
) -> None:
    """If a program prints only results so far, the step time is the mean between them."""
    run_summary = summary(log, "".join(validation(*values) for values in lines))
    assert run_summary.step_seconds.n == 0
    assert run_summary.step_seconds.mean == (None if mean is None else pytest.approx(mean))


SAMPLES = (
    "timestamp, index, memory.used [MiB], utilization.gpu [%]\n"
    "2026/01/02 03:04:05.678, 0, {} MiB, {} %\n"
)


@pytest.mark.parametrize(
    ("before", "after", "peak_mib"),
    [(0, 14000, 14000), (20000, 14000, 14000), (0, None, None), (0, 0, None)],
)
def test_the_peak_of_a_device_is_one_of_the_training(
    log: Path, before: int, after: int | None, peak_mib: int | None
) -> None:
    """The peak memory of a device is from samples taken after the training has begun.

    A peak of 0 is None.
    """
    later = "" if after is None else SAMPLES.format(after, 90)
    run_summary = summary(log, SAMPLES.format(before, 0) + line(1, 9000) + later)
    assert run_summary.peak_memory_mib == peak_mib


def test_a_log_of_no_run_contains_nothing(log: Path) -> None:
    """If a log has no training output, its summary has the outcome UNKNOWN and no numbers.

    E.g. samples per second and peak memory are None.
    """
    run_summary = summary(log, "Dear diary,\n")
    assert run_summary.says_nothing
    assert run_summary.outcome.kind is OutcomeKind.UNKNOWN
    record = run_object(run_summary)
    assert {record[name] for name in ("samples_per_second", "peak_memory_mib")} == {None}


def test_formats_are_those_of_reports(log: Path) -> None:
    """A summary lists formats of reports, but not those of arguments and versions."""
    dump = "---------- arguments ----------\n  hidden_size ....... 64\n"
    assert summary(log, dump + line(1, 9000)).formats == ("Megatron",)
    assert summary(log, dump).formats == ()


def test_the_first_format_is_the_one_with_the_most_about_speed(log: Path) -> None:
    """The first format in a summary is the one that reports most about speed.

    Megatron's format is listed before DeepSpeed's, and that of DeepSpeed's pipeline engine before
    nvidia-smi's.
    """
    progress = "[2026-01-02 03:04:05,678] [INFO] [x.py:1:y] [Rank 0] step=1, skipped=0, lr=[1], "
    pipeline = "steps: 1 loss: 6.5 iter time (s): 9.000 samples/sec: 1.778\n"
    assert summary(log, f"{progress}\n{pipeline}{line(1, 9000)}").formats == (
        "Megatron",
        "DeepSpeed pipeline engine",
        "DeepSpeed throughput timer",
    )
    assert summary(log, SAMPLES.format(1, 1) + pipeline).formats == (
        "DeepSpeed pipeline engine",
        "nvidia-smi CSV",
    )


def test_the_object_of_a_run_keeps_the_contract(log: Path) -> None:
    """The JSON object of a run has the documented names, because other programs use them."""
    record = run_object(summary(log, line(1, 9000) + line(2, 1000)))
    assert {
        "path",
        "run",
        "formats",
        "steps",
        "memory_reports",
        "peak_memory_mib",
        "samples_per_second",
        "tokens_per_second",
        "reported_tflops_per_gpu",
        "config",
        "step_seconds",
        "warmup",
        "outcome",
    } <= set(record)
    assert set(record["step_seconds"]) == {"n", "mean", "median", "std", "min", "max", "first"}
    assert {"policy", "dropped", "skipped"} <= set(record["warmup"])
    assert {"kind", "line", "offset", "text"} <= set(record["outcome"])
    assert {kind.value for kind in OutcomeKind} == {
        *("completed", "gpu_out_of_memory", "host_out_of_memory", "time_limit", "cancelled"),
        *("preempted", "node_failure", "communication_failure", "nan_loss", "killed", "error"),
        *("truncated", "unknown"),
    }
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden_size", "64", 64),
        ("lr", "0.00015", 0.00015),
        ("eps", "1e-05", 1e-05),
        ("fp16", "True", True),
        ("bf16", "False", False),
        ("tag", "007", "007"),
        ("tag", "1" * 400, "1" * 400),
        ("loss", "nan", "nan"),
        ("lr", "1e999", "1e999"),
        ("nccl_version", "2.7", "2.7"),
        ("host", "12", "12"),
    ],
)
def test_a_setting_has_the_type_of_its_value(
    log: Path, name: str, text: str, value: float | str
) -> None:
    """Settings that are numbers become numbers; versions, names and similar texts stay text."""
    dump = f"---------- arguments ----------\n  {name} ....... {text}\n"
    config = run_object(summary(log, dump + line(1, 9000)))["config"]
    assert (config[name], type(config[name])) == (value, type(value))


def test_a_name_that_is_not_text_is_shown_as_text(tmp_path: Path) -> None:
    """A file name that is not valid UTF-8 is shown as text, because JSON requires text."""
    log = tmp_path / os.fsdecode(b"slurm-\xff.out")
    record = run_object(summary(log, line(1, 9000)))
    assert record["path"].endswith("slurm-\N{REPLACEMENT CHARACTER}.out")


def test_reports_of_memory_are_a_frame(log: Path) -> None:
    """Memory reports of programs and of devices are rows of a DataFrame, with their source."""
    log.write_text(line(1, 9000) + SAMPLES.format(14336, 90))
    frame = usage_frame(read(log))
    assert list(frame.columns) == list(USAGE_NAMES) == list(usage_frame([]).columns)
    (row,) = frame.to_dict("records")
    assert (row["path"], row["run"], row["launch"]) == (str(log), 0, 0)
    assert (row["source"], row["memory_allocated_gib"]) == ("nvidia-smi", 14.0)
    assert row["gpu_utilization_percent"] == 90


def test_runs_and_steps_are_frames(log: Path) -> None:
    """Runs and steps can be read as DataFrames, with the names of the JSON rows as columns.

    The mean step time in a run's row is the mean over its counted steps.
    """
    log.write_text("".join(line(at, 1000 * at) for at in (1, 2, 3)))
    runs, steps = runs_frame(read(log)), steps_frame(read(log))
    assert list(steps.columns) == list(STEP_NAMES)
    assert steps[steps["counted"]]["step_seconds"].mean() == runs["step_seconds_mean"].item()
    assert list(runs.columns) == list(RUN_NAMES) == list(runs_frame([]).columns)
    assert list(steps_frame([]).columns) == list(STEP_NAMES)


@pytest.mark.parametrize(
    ("reports", "batch"),
    [
        ([(0.5, 64.0), (0.52, 61.54), (0.49, 65.31)], 32),
        # One report is damaged or of another length.
        ([(0.5, 64.0), (0.5, 64.0), (9.0, 64.0), (0.5, 64.0), (0.5, 64.0)], 32),
        ([(0.5, 64.0), (0.5, 81.0), (0.5, 73.0), (0.5, 90.0)], None),
        ([(0.5, 64.7)], None),
        ([(0.5, 0.1)], None),
    ],
)
def test_seconds_and_samples_per_second_give_the_batch(
    log: Path, reports: list[tuple[float, float]], batch: int | None
) -> None:
    """The batch size is seconds times samples per second, if most reports agree on one integer."""
    lines = (
        f"steps: {n} loss: 0.0625 iter time (s): {seconds:.3f} samples/sec: {rate:.3f}\n"
        for n, (seconds, rate) in enumerate(reports, 1)
    )
    run_summary = summary(log, "".join(lines), "none")
    assert run_summary.global_batch_size == batch
    assert run_summary.step_seconds.n == len(reports)
