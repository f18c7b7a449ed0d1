"""Merge repeated reports, so that each step counts once."""

from typing import Any

import pytest

from parsers.records import Record, RunTotals, Setting, Step
from parsers.steps.merge import merge_settings, merge_totals, merged_steps


def megatron(iteration: int, seconds: float = 2.0, **values: Any) -> Step:
    """Return the record of a Megatron line."""
    return Step(
        iteration=iteration,
        iterations=100,
        step_seconds=seconds,
        skipped_iterations=0,
        offset=0,
        **values,
    )


def log_interval(value: str) -> Setting:
    """Return the record of a log interval in Megatron's list of arguments."""
    return Setting(name="log_interval", value=value, source="arguments", offset=0)


def test_of_two_programs_the_one_that_reports_the_end_is_believed() -> None:
    """If Megatron and DeepSpeed's pipeline engine report the same step, Megatron's values count.

    Megatron prints more digits. The samples per second are the engine's, because only the engine
    prints them.
    """
    pipeline = Step(
        iteration=1, step_seconds=150.471, samples_per_second=6.805, loss=12.79, offset=0
    )
    line = megatron(1, 150.4713, loss=12.79023)
    assert merged_steps([pipeline, line]).steps() == merged_steps([line, pipeline]).steps()
    (step,) = merged_steps([pipeline, line]).steps()
    assert (step.step_seconds, step.loss, step.samples_per_second) == (150.4713, 12.79023, 6.805)


FIRST_LINES: dict[str, tuple[list[Record], list[int]]] = {
    "the extra line": ([megatron(1), megatron(10), megatron(20)], [10, 20]),
    "the extra line after a restart": (
        [megatron(501), megatron(510), megatron(520)],
        [510, 520],
    ),
    "the interval is printed": ([log_interval("2"), megatron(1), megatron(2)], [2]),
    "every iteration is reported": ([megatron(1), megatron(2), megatron(3)], [1, 2, 3]),
    "every iteration, as is printed": ([log_interval("1"), megatron(1), megatron(2)], [1, 2]),
    "two lines of which the first may be the extra one": ([megatron(1), megatron(10)], [10]),
    "two lines of which neither is the first": ([megatron(7), megatron(10)], [7, 10]),
    "two lines of which it may not": ([megatron(1), megatron(2)], [1, 2]),
    "begun within an interval": ([megatron(510), megatron(520), megatron(530)], [510, 520, 530]),
    "one line": ([megatron(1)], [1]),
    "another program, whose lines are of one iteration": (
        [Step(iteration=iteration, step_seconds=1.0, offset=0) for iteration in (1, 10, 20)],
        [1, 10, 20],
    ),
}


@pytest.mark.parametrize(("records", "kept"), FIRST_LINES.values(), ids=FIRST_LINES)
def test_megatrons_extra_first_line_does_not_count(records: list[Record], kept: list[int]) -> None:
    """Megatron's extra first line is left out, because the next line's mean includes it."""
    assert [step.iteration for step in merged_steps(records).steps()] == kept


def result(seconds: float, rate: float, **values: Any) -> RunTotals:
    """Return the record of a result that a node prints at the end of a training."""
    return RunTotals(train_seconds=seconds, samples_per_second=rate, offset=0, **values)


TOTALS = {
    "one a node": ([result(273.0148, 3.663), result(272.9369, 3.664), result(273.0125, 3.663)], 1),
    "of a short training": ([result(1.05, 95.2), result(1.4, 71.4)], 1),
    "of two trainings": ([result(100.0, 10.0), result(150.0, 6.7)], 2),
    "nan is like nan": ([result(9.0, 1.0, mean_loss=float("nan"))] * 2, 1),
    "without its last iteration": ([result(9.0, 1.0, last_iteration=9), result(9.0, 1.0)], 1),
    "of two iterations": ([result(9.0, 1.0, last_iteration=at) for at in (8, 9)], 2),
    "of different things": (
        [
            RunTotals(phase="learn", samples_per_second=5.0, offset=0),
            RunTotals(phase="make_experience", samples_per_second=5.0, offset=0),
            RunTotals(phase="learn", samples_per_second=5.0, per_gpu=True, offset=0),
            RunTotals(parameters=100, offset=0),
        ],
        4,
    ),
    "counts that differ are not copies": (
        [RunTotals(parameters=1000, offset=0), RunTotals(parameters=1001, offset=0)],
        2,
    ),
}


@pytest.mark.parametrize(("records", "count"), TOTALS.values(), ids=TOTALS)
def test_a_result_that_every_node_prints_counts_once(records: list[RunTotals], count: int) -> None:
    """The result that each node prints counts once, although the nodes' times differ slightly."""
    assert len(merge_totals(records)) == count
    assert merge_totals(records)[0] == records[0]


def test_the_program_is_believed_before_the_script() -> None:
    """If a script and a program print a setting, the program's value counts.

    If the program prints several values, the first one counts. But of hosts and GPUs, all different
    values are kept, as one text with commas.
    """
    facts = [
        ("micro_batch_size", "4", "echo"),
        ("hidden_size", "8192", "echo"),
        ("micro_batch_size", "8", "arguments"),
        ("micro_batch_size", "16", "arguments"),
        ("host", "n1", "host"),
        ("host", "n2", "host"),
        ("host", "n1", "host"),
    ]
    settings = [
        Setting(name=name, value=value, source=source, offset=0) for name, value, source in facts
    ]
    assert merge_settings(settings) == {
        "micro_batch_size": "8",
        "hidden_size": "8192",
        "host": "n1, n2",
    }
