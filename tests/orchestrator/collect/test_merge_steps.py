"""Merge all lines of a log about one iteration into one step."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.records import Record, RunTotals, Setting, Step, Timers, Usage, UsageSource
from parsers.steps.merge import merged_steps


def step(iteration: int, **values: Any) -> Step:
    """Return a step report of an iteration; its position in the log does not matter here."""
    return Step(iteration=iteration, offset=0, **values)


MERGED: dict[str, tuple[list[Record], list[Step]]] = {
    "nothing": ([], []),
    "one line each": (
        [step(1, step_seconds=1.0), step(2, step_seconds=2.0)],
        [step(1, step_seconds=1.0, log_interval=1), step(2, step_seconds=2.0, log_interval=1)],
    ),
    "DeepSpeed's two lines and the program's own": (
        [
            step(1, loss=6.5, step_seconds=0.25),
            step(1, skipped=0),
            step(1, samples_per_second=32.0, memory_allocated_gib=0.5),
        ],
        [
            step(
                1,
                loss=6.5,
                step_seconds=0.25,
                log_interval=1,
                skipped=0,
                samples_per_second=32.0,
                memory_allocated_gib=0.5,
            )
        ],
    ),
    "every rank's line": ([step(1, loss=6.5), step(1, loss=6.6)], [step(1, loss=6.5)]),
    "nan is something said": (
        [step(1, loss=math.inf), step(1, loss=2.0)],
        [step(1, loss=math.inf)],
    ),
    "a value of 0 counts": ([step(1, skipped=0), step(1, skipped=3)], [step(1, skipped=0)]),
    "ranks that overtake each other": (
        [step(2, loss=2.0), step(1, loss=1.0), step(2, step_seconds=0.2)],
        [step(1, loss=1.0), step(2, loss=2.0, step_seconds=0.2)],
    ),
    "records that are not steps": (
        [
            RunTotals(parameters=5, offset=0),
            step(1, loss=1.0),
            Usage(source=UsageSource.TORCH, iteration=1, memory_allocated_gib=3.0, offset=0),
            Timers(seconds=(("forward", 0.1),), offset=0),
            Setting(name="seed", value="1", source="arguments", offset=0),
        ],
        [step(1, loss=1.0)],
    ),
}


@pytest.mark.parametrize(("records", "steps"), MERGED.values(), ids=MERGED)
def test_an_iteration_counts_once_however_often_it_is_reported(
    records: list[Record], steps: list[Step]
):
    """All reports of one iteration give one step.

    Later reports add only the values that earlier reports of the iteration lack.
    """
    assert merged_steps(records).steps() == steps


some = st.none() | st.floats(0, 10)
reports = st.builds(
    Step, iteration=st.integers(1, 4), step_seconds=some, loss=some, offset=st.just(0)
)


@given(st.lists(reports, max_size=12))
def test_merging_keeps_the_first_value_of_each_field(records: list[Step]):
    """If several reports of an iteration have a value of one field, the first value is kept.

    The steps are in the order of their iterations. Merging them again changes nothing.
    """
    merged = merged_steps(records).steps()
    assert [step.iteration for step in merged] == sorted({record.iteration for record in records})
    assert merged_steps(merged).steps() == merged
    for step in merged:
        for name in ("step_seconds", "loss"):
            values = [getattr(r, name) for r in records if r.iteration == step.iteration]
            assert getattr(step, name) == next(
                (value for value in values if value is not None), None
            )
