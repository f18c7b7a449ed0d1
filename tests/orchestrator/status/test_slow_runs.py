"""Find slow runs: their step times are much longer than those of comparable runs."""

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.status.slow_runs import (
    FACTOR,
    SlowRun,
    StepTimes,
    TimedRun,
    deviation,
    kind_of,
    slow_run_lines,
    slow_runs,
    stands_out,
)


def run(seconds: float | None, *, deviation: float = 0.0, **values: Any) -> TimedRun:
    """Return a run with this median step time, in seconds.

    deviation: the median deviation of its steps. values: more fields, e.g. `kind`: runs with equal
    kinds are siblings. By default, all runs have the same kind.
    """
    times = None if seconds is None else StepTimes(seconds, deviation)
    return TimedRun(**{"label": "a", "kind": "k", "times": times, **values})


def slow(*seconds: float | None, deviation: float = 0.0) -> list[int]:
    """Return the indices of the slow runs among siblings with these step times."""
    runs = {
        str(place): run(step_seconds, deviation=deviation)
        for place, step_seconds in enumerate(seconds)
    }
    return [int(place) for place in slow_runs(runs)]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([0.21, 0.20, 0.41, 0.21, 0.22], [2]),
        ([0.21, 0.20, 0.41, 0.21, 0.42], [2, 4]),
        # One sibling is enough if its own steps hardly vary.
        ([0.21, 0.41], [1]),
        # If two siblings differ widely, neither is known to be the usual one.
        ([0.21, 0.41, 0.41], []),
        ([0.20, 0.20, 0.24, 0.20, 0.20], []),
        ([0.20, 0.10, 0.20, 0.20, 0.20], []),
        # A quarter more is not unusual among runs that vary so much.
        ([0.20, 0.26, 0.32, 0.23, 0.36], []),
        ([0.41], []),
        ([0.41, None, None], []),
        ([], []),
    ],
)
def test_a_run_is_slow_if_it_is_an_outlier_among_its_siblings(
    seconds: list[float | None], expected: list[int]
) -> None:
    """A run is slow if its step time is over 1.25 times the median of its siblings.

    It must also be more than three standard deviations above that median.
    """
    assert slow(*seconds) == expected


def test_a_machine_whose_steps_vary_much_makes_no_run_slow() -> None:
    """If the steps within each run vary much, a longer step time does not make a run slow.

    The step time of a slow run is several deviations above the usual one. The deviation used is at
    least as large as that of the steps within a run.
    """
    assert slow(0.20, 0.20, 0.30) == [2]
    assert slow(0.20, 0.20, 0.30, deviation=0.05) == []


def test_only_runs_of_one_kind_are_compared() -> None:
    """Only runs of the same configuration are compared.

    E.g. a run of a larger model takes longer, but is not slow.
    """
    runs = {"a": run(0.2), "b": run(0.2), "c": run(0.8, kind="other"), "d": run(0.8, kind="other")}
    assert slow_runs(runs) == {}


def test_runs_are_siblings_that_differ_only_in_repeat(run_of) -> None:
    """Runs that differ only in `repeat` are siblings; their time limits and labels may differ."""
    first = run_of(seed=1, repeat=1)
    assert kind_of(first) == kind_of(run_of(seed=1, repeat=5, time_limit=7))
    assert kind_of(first) != kind_of(run_of(seed=2, repeat=1))


def test_a_run_without_siblings_is_compared_with_its_earlier_attempts() -> None:
    """A run without siblings is compared with its own earlier attempts.

    The same holds for a run whose siblings are all as slow as the run itself.
    """
    before = (StepTimes(0.20, 0.0), StepTimes(0.22, 0.0))
    alone = {"a": run(0.42, earlier=before)}
    assert slow_runs(alone)["a"].others == "earlier attempts"
    assert slow_runs(alone)["a"].ratio == pytest.approx(2.0)
    assert list(slow_runs({**alone, "b": run(0.42)})) == ["a"]
    assert slow_runs({"a": run(0.21, earlier=before)}) == {}


def test_a_run_is_compared_with_other_campaigns_if_no_closer_runs_exist() -> None:
    """If all runs of a campaign are equally slow, they are compared with runs of other campaigns.

    A run with earlier attempts is compared with these instead.
    """
    before = (StepTimes(0.20, 0.0), StepTimes(0.22, 0.0))
    all_slow = {"a": run(0.42, elsewhere=before), "b": run(0.43, elsewhere=before)}
    assert {slow_run.others for slow_run in slow_runs(all_slow).values()} == {"earlier runs"}
    assert slow_runs({"a": run(0.21, elsewhere=before)}) == {}
    nearer = run(0.42, elsewhere=before, earlier=before)
    assert slow_runs({"a": nearer})["a"].others == "earlier attempts"


SLOW = SlowRun(
    label="zero1 r3",
    node_list="gpu002",
    step_seconds=0.4056,
    usual_seconds=0.21,
    others="siblings",
    count=4,
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "zero1 r3 on gpu002: slow: 0.41 s per step, 1.9 x the 0.21 s of its 4 siblings"),
        (
            {"count": 1},
            "zero1 r3 on gpu002: slow: 0.41 s per step, 1.9 x the 0.21 s of its sibling",
        ),
        (
            {"node_list": None},
            "zero1 r3: slow: 0.41 s per step, 1.9 x the 0.21 s of its 4 siblings",
        ),
        (
            {"others": "earlier attempts", "count": 1, "step_seconds": 12.6, "usual_seconds": 1.0},
            "zero1 r3 on gpu002: slow: 13 s per step, 13 x the 1.0 s of its earlier attempt",
        ),
        (
            {"others": "earlier attempts", "count": 2, "node_list": "gpu[001-004]"},
            (
                "zero1 r3 on gpu[001-004]: slow: "
                "0.41 s per step, 1.9 x the 0.21 s of its 2 earlier attempts"
            ),
        ),
        (
            {"label": "a\x1b[2J", "node_list": "\x07"},
            "a�[2J on �: slow: 0.41 s per step, 1.9 x the 0.21 s of its 4 siblings",
        ),
    ],
)
def test_a_sentence_names_the_run_its_nodes_and_both_times(
    changes: dict[str, Any], sentence: str
) -> None:
    """The sentence about a slow run has its label and nodes, its step time and the usual one.

    Terminal control codes in label and nodes are replaced.
    """
    text = str(replace(SLOW, **changes))
    assert text.replace("\N{MULTIPLICATION SIGN}", "x") == sentence


def test_the_slowest_is_named_first() -> None:
    """The slowest run is named first, in any order of the campaign."""
    worse = replace(SLOW, label="worse", step_seconds=0.9)
    assert [line.partition(" on")[0] for line in slow_run_lines([SLOW, worse])] == [
        "worse",
        "zero1 r3",
    ]


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        ([], None),
        ([0.1, 0.2], None),
        ([0.0, 0.0, 0.0], None),
        ([0.1, 0.2, 0.4], StepTimes(0.2, 0.1)),
        ([0.2, 0.2, 9.0, 0.2], StepTimes(0.2, 0.0)),
    ],
)
def test_times_are_those_of_three_reports_or_more(
    seconds: list[float], times: StepTimes | None
) -> None:
    """From three step reports on, a run has a median step time and a median deviation.

    One slow step changes neither of the two.
    """
    step_times = StepTimes.of(seconds)
    if times is None:
        assert step_times is None
    else:
        assert step_times is not None
        assert step_times.median_seconds == pytest.approx(times.median_seconds)
        assert step_times.deviation_seconds == pytest.approx(times.deviation_seconds)


sound = st.floats(0.1, 10.0)


@given(value=sound, others=st.lists(sound, min_size=1, max_size=9), scale=st.floats(0.01, 100.0))
def test_the_rule_does_not_know_units_and_rises_with_the_time(
    value: float, others: list[float], scale: float
) -> None:
    """Whether a run is slow does not depend on the unit of the step times, e.g. ms or s.

    If a step time is too long, a longer one is too long as well.
    """
    is_outlier = stands_out(value, others)
    bounds = (
        FACTOR * statistics.median(others),
        statistics.median(others) + 4.4478 * deviation(others),
    )
    if all(abs(value / bound - 1) > 1e-9 for bound in bounds):
        assert stands_out(value * scale, [other * scale for other in others]) == is_outlier
    if is_outlier:
        assert stands_out(value * 2, others)
        assert value > FACTOR * min(others)


@given(
    usual=st.lists(st.floats(0.98, 1.02), min_size=3, max_size=9),
    bad=st.floats(1.6, 100.0),
)
def test_a_minority_of_slow_siblings_hides_no_slow_run(usual: list[float], bad: float) -> None:
    """A slow run is found as long as fewer than half of its siblings are slow.

    A minority of slow siblings barely changes the median and the median deviation.
    """
    worse = [bad] * ((len(usual) - 1) // 2)
    assert stands_out(bad, [*usual, *worse])
