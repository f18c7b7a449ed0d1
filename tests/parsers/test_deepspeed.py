"""Parse DeepSpeed's throughput and progress lines of every version."""

from types import SimpleNamespace

import pytest
from reports import cases, parse

from parsers.formats.deepspeed import DEEPSPEED_TIMER
from parsers.records import Step

WITH_COUNTERS = (
    "[2026-01-02 03:04:05,678] [INFO] [timer.py:264:stop] {}, "
    "RunningAvgSamplesPerSec=743.25, CurrSamplesPerSec=869.5, MemAllocated=0.39GB, "
    "MaxMemAllocated=0.41GB"
)
NEWEST = WITH_COUNTERS.format("epoch=0/micro_step=20/global_step=10")
NEWEST_STEP = Step(
    iteration=10,
    samples_per_second=869.5,
    running_samples_per_second=743.25,
    memory_allocated_gib=0.39,
    max_memory_allocated_gib=0.41,
    offset=7,
)
PROGRESS = "[logging.py:96:log_dist] [Rank 0] step=30, skipped=4, lr=[4.9e-05], mom=[(0.9, 0.95)]"
PROGRESS_STEP = Step(iteration=30, skipped=4, offset=7)

LINES = {
    "since 0.8": (NEWEST, [NEWEST_STEP]),
    "0.7": (
        WITH_COUNTERS.format("0/20"),
        [
            Step(
                iteration=20,
                samples_per_second=869.5,
                running_samples_per_second=743.25,
                memory_allocated_gib=0.39,
                max_memory_allocated_gib=0.41,
                offset=7,
            )
        ],
    ),
    "0.6": (
        "[timer.py:193] 2/100, SamplesPerSec=12.5, MemAllocated=0.14GB, MaxMemAllocated=0.23GB",
        [
            Step(
                iteration=100,
                running_samples_per_second=12.5,
                memory_allocated_gib=0.14,
                max_memory_allocated_gib=0.23,
                offset=7,
            )
        ],
    ),
    "0.1 to 0.5": (
        "[timer.py:157:stop] 0/100, SamplesPerSec=1.25e+03",
        [Step(iteration=100, running_samples_per_second=1250.0, offset=7)],
    ),
    "progress": (PROGRESS, [PROGRESS_STEP]),
    "progress, momentum as lists": (
        "[Rank 0] step=5, skipped=0, lr=[0.0003], mom=[[0.9, 0.95]]",
        [Step(iteration=5, skipped=0, offset=7)],
    ),
    "an infinite average is unknown": (
        NEWEST.replace("743.25", "-inf").replace("869.5", "inf"),
        [
            Step(
                iteration=10,
                memory_allocated_gib=0.39,
                max_memory_allocated_gib=0.41,
                offset=7,
            )
        ],
    ),
    "two reports glued": (NEWEST + NEWEST, [NEWEST_STEP, NEWEST_STEP]),
    "both kinds glued": (PROGRESS + NEWEST, [NEWEST_STEP, PROGRESS_STEP]),
}

NO_STEPS = (
    "",
    "[Rank 0] step=0, skipped=0, lr=[0.0003], mom=[[0.9, 0.95]]",  # printed when the engine is made
    "micro_step=5, skipped=0, lr=[0.1]",
    "step=5, skipped=0, loss=1.0",
    "step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,",
    "epoch=0/micro_step=20/global_step=10, vm %: 12.5, swap %: 0.0",
    "0/100, vm percent: 12.3, swap percent: 0.0",
    "0/100, SamplesPerSec=",
    "SamplesPerSec=12.5",
    "/100, SamplesPerSec=12.5",
    "global_step=10, SamplesPerSec=12.5",
    "epoch=0/micro_step=20/global_step=, RunningAvgSamplesPerSec=1.0, CurrSamplesPerSec=1.0",
    "train_samples_per_second = 12.5",
    NEWEST.removesuffix("1GB"),
    NEWEST[: NEWEST.index("869") + 1],
    NEWEST[: NEWEST.index(", Curr")],
    '"{}/{}, SamplesPerSec={}".format(epoch, step, speed), skipped=',
)


@cases(LINES, NO_STEPS)
def test_a_line_is_read_as_the_steps_that_it_reports(text: str, records: list[object]) -> None:
    """A line gives the steps that it reports, with any rank label; torn lines give none."""
    assert parse(DEEPSPEED_TIMER, text) == records


@pytest.mark.train
def test_the_current_rate_is_that_of_the_reported_step_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DeepSpeed's current rate is that of the reported step only, not a mean of several steps.

    The test calls the timer of the installed DeepSpeed with a clock that the test sets.
    """
    timer_module = pytest.importorskip("deepspeed.utils.timer", exc_type=ImportError)
    config = pytest.importorskip("deepspeed.utils.config").DeepSpeedThroughputTimerConfig
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(timer_module, "time", SimpleNamespace(time=lambda: clock.now))
    printed: list[str] = []
    timer = timer_module.ThroughputTimer(
        config(), batch_size=8, steps_per_output=4, logging_fn=printed.append
    )
    # Steps 1 and 2 are warm-up; step 4, of two micro-batches, is reported.
    for micro_batches in ((9.0,), (9.0,), (3.0,), (0.5, 1.5)):
        for number, seconds in enumerate(micro_batches, start=1):
            timer.start()
            clock.now += seconds
            timer.stop(global_step=number == len(micro_batches))
            clock.now += 100  # the script fetches its next batch
    (line,) = printed
    (step,) = parse(DEEPSPEED_TIMER, line)
    assert isinstance(step, Step)
    assert step.iteration == 4
    assert step.samples_per_second == pytest.approx(8 / (0.5 + 1.5), rel=1e-5)
    assert step.running_samples_per_second == pytest.approx(2 * 8 / (3 + 0.5 + 1.5), rel=1e-5)
