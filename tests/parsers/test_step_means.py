"""Find the iterations that a mean step time covers; Megatron also reports the first alone."""

import io
import statistics

import pytest

from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.records import Record, Setting, Step
from parsers.runs.reading import read
from parsers.runs.run import LogRun
from parsers.steps.merge import merged_steps

DUMP = (
    "------------------------ arguments ------------------------\n"
    "  log_interval .................................... {}\n"
    "  micro_batch_size ................................ 4\n"
    "-------------------- end of arguments ---------------------\n"
)
LOADED = "  successfully loaded checkpoint from /save [ t 1/2, p 1/1 ] at iteration {}\n"


def duration_ms(iteration: int) -> float:
    """Return the duration of an iteration in milliseconds; all are different."""
    return 1000.0 + iteration


def core_016(interval: int, start: int, end: int, *, dump: bool) -> str:
    """Return the output of Megatron core 0.16 for the iterations `start + 1` to `end`.

    Megatron prints an extra line after the first iteration of a launch. Then it prints a mean per
    `interval` iterations; the first mean also covers the first iteration.

    interval: the log interval.
    start: if not 0, the iteration of the checkpoint from which the launch continues.
    dump: whether the output begins with the list of arguments.
    """
    text = DUMP.format(interval) if dump else "using torch.float16 for parameters ...\n"
    if start:
        text += LOADED.format(start)
    since = start
    for iteration in range(start + 1, end + 1):
        regular = iteration % interval == 0
        if not regular and iteration != start + 1:
            continue
        mean = statistics.fmean(map(duration_ms, range(since + 1, iteration + 1)))
        text += (
            f" [2026-03-04 05:06:07.123456] iteration {iteration:8d}/{1000:8d} |"
            f" consumed samples: {iteration * 64:12d} |"
            f" elapsed time per iteration (ms): {mean:.1f} |"
            f" throughput per GPU (TFLOP/s/GPU): 400.1 | learning rate: 1.500000E-04 |"
            f" global batch size: {64:5d} | lm loss: 2.500000E+00 | loss scale: 1.0 |"
            " grad norm: 0.500 | number of skipped iterations:   0 |"
            " number of nan iterations:   0 |\n"
        )
        if regular:
            since = iteration
    return text


def run_of(log: str) -> LogRun:
    """Return the only run of a log."""
    (run,) = read(io.BytesIO(log.encode()))
    return run


def total_ms(steps: list[Step]) -> float:
    """Return the sum of all step times in milliseconds.

    Each mean step time counts as often as the number of iterations that it covers.
    """
    return sum(1000 * (step.step_seconds or 0) * (step.log_interval or 0) for step in steps)


@pytest.mark.parametrize("dump", [True, False])
@pytest.mark.parametrize("start", [0, 500, 499, 503])
@pytest.mark.parametrize("reports", [2, 3, 7])
@pytest.mark.parametrize("interval", [1, 5, 100])
def test_each_iteration_is_counted_once(interval: int, reports: int, start: int, dump: bool):
    """Each iteration is in exactly one mean, whether the log interval is known or not.

    The run begins at iteration 0 or at a checkpoint.
    """
    end = (start // interval + reports) * interval
    run = run_of(core_016(interval, start, end, dump=dump))
    regular = [n for n in range(start + 1, end + 1) if n % interval == 0]
    assert [step.iteration for step in run.steps] == regular
    assert [step.log_interval for step in run.steps] == [
        iteration - max(start, iteration - interval) for iteration in regular
    ]
    expected = sum(duration_ms(iteration) for iteration in range(start + 1, end + 1))
    assert total_ms(run.steps) == pytest.approx(expected, abs=0.1 * (end - start))


@pytest.mark.parametrize("dump", [True, False])
@pytest.mark.parametrize("start", [0, 500])
def test_the_first_iteration_s_line_counts_where_it_is_the_only_one(start: int, dump: bool):
    """If the extra line of the first iteration is a run's only report, the run's numbers use it.

    Megatron core prints this line before the reports with means. If such a report follows, the
    extra line is left out.
    """
    (step,) = run_of(core_016(100, start, start + 7, dump=dump)).steps
    assert (step.iteration, step.log_interval) == (start + 1, 1)
    assert total_ms([step]) == pytest.approx(duration_ms(start + 1))


@pytest.mark.parametrize("dump", [True, False])
def test_each_launch_of_a_run_has_its_own_first_line(dump: bool):
    """After a restart, which repeats iterations, the extra first line is recognized again."""
    run = run_of(
        core_016(5, 0, 23, dump=dump) + "Killing subprocess 7\n" + core_016(5, 20, 30, dump=dump)
    )
    assert [[step.iteration for step in segment.steps] for segment in run.segments] == [
        [5, 10, 15, 20],
        [25, 30],
    ]
    assert {step.log_interval for step in run.steps} == {5}


def megatron(iteration: int, *, seconds: float | None = 2.0) -> Step:
    """Return the record of a Megatron line."""
    return Step(
        iteration=iteration, iterations=100, step_seconds=seconds, skipped_iterations=0, offset=0
    )


def pipeline(iteration: int) -> Step:
    """Return the record of a line of DeepSpeed's pipeline engine."""
    line = f"steps: {iteration} loss: 2.5000 iter time (s): 2.000 samples/sec: 32.000"
    (step,) = DEEPSPEED_PIPELINE.parse(0, line)
    assert isinstance(step, Step)
    return step


def log_interval(value: str) -> Setting:
    """Return the record of a log interval in Megatron's list of arguments."""
    return Setting(name="log_interval", value=value, source="arguments", offset=0)


INTERVALS: dict[str, tuple[list[Record], int | None, list[int | None]]] = {
    "since the report before": ([megatron(10), megatron(20), megatron(30)], None, [10, 10, 10]),
    "the first report, with a printed interval": ([log_interval("10"), megatron(40)], None, [10]),
    "of an interval that is not printed": ([megatron(40), megatron(50)], None, [None, 10]),
    "the very first iteration": ([megatron(1), megatron(2)], None, [1, 1]),
    "behind a checkpoint": ([megatron(40), megatron(50)], 37, [3, 10]),
    "a checkpoint further back than the interval": (
        [log_interval("10"), megatron(40)],
        20,
        [10],
    ),
    "a missing report and a printed interval": (
        [log_interval("10"), megatron(10), megatron(30), megatron(40)],
        None,
        [10, 10, 10],
    ),
    "a line without a time is not a report of a time": (
        [megatron(10), megatron(20, seconds=None), megatron(30)],
        None,
        [None, None, 20],
    ),
    "two programs that report at different intervals": (
        [pipeline(5), pipeline(10), megatron(10), pipeline(15), pipeline(20), megatron(20)],
        None,
        [5, 10, 5, 10],
    ),
    "another program's interval is not Megatron's": (
        [log_interval("10"), pipeline(20), pipeline(24)],
        None,
        [None, 4],
    ),
    "a value that is not a number": ([log_interval("many"), megatron(40)], None, [None]),
    "no interval at all": ([log_interval("0"), megatron(10), megatron(20)], None, [10, 10]),
}


@pytest.mark.parametrize(
    ("records", "resumed_from", "intervals"), INTERVALS.values(), ids=INTERVALS
)
def test_a_mean_s_interval_follows_from_the_reports_around_it(
    records: list[Record], resumed_from: int | None, intervals: list[int | None]
):
    """The number of iterations that a mean covers follows from one of three sources.

    These are the previous report, the printed log interval, and the checkpoint at the start. If
    none of them shows the number, it is None.
    """
    steps = merged_steps(records, resumed_from=resumed_from).steps()
    assert [step.log_interval for step in steps] == intervals


def test_of_two_means_the_more_precise_keeps_its_own_interval():
    """If two programs report mean times of a step, the more precise mean counts.

    The number of iterations that this mean covers is computed only from reports of the same
    program. If these reports do not show the number, it is None.
    """
    records = [pipeline(35), pipeline(40), megatron(40)]
    assert [step.log_interval for step in merged_steps(records).steps()] == [None, None]
