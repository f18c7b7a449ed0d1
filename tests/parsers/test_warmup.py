"""Check which iterations each kind of warm-up leaves out.

The warm-up `auto` finds the steady state by the rule MSER-5. The rule chooses how
many of the first values to leave out, so that the mean of the other values is most precise.
"""

import contextlib
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.summary.warmup import Warmup, WarmupEnd, steady_state

# By the written rule: iterations of the run, the last iteration left out, the warm-up in words.
WARMUPS = {
    0: (20, 0, "none"),
    5: (20, 5, "the first 5 iterations"),
    30: (20, 30, "the first 30 iterations"),
    "5": (20, 5, "the first 5 iterations"),
    "none": (20, 0, "none"),
    "0%": (20, 0, "none"),
    "10%": (20, 2, "the first 10% of the iterations"),
    " 25% ": (40, 10, "the first 25% of the iterations"),
    "8%": (9, 0, "the first 8% of the iterations"),
    "99%": (100, 99, "the first 99% of the iterations"),
    # 0.29 * 100 is 28.999999999999996 in floating point.
    "29%": (100, 29, "the first 29% of the iterations"),
    " First ": (20, 10, "the first report"),
    "auto": (20, 0, "the reports before the steady state (MSER-5)"),
}


@pytest.mark.parametrize("value", WARMUPS)
def test_a_warm_up_ends_with_an_iteration(value: int | str) -> None:
    """A warm-up such as 5 or 10% determines the last iteration that is left out.

    A percentage is of all iterations, rounded down.
    """
    train_iters, last, words = WARMUPS[value]
    warmup = Warmup.parse(value)
    assert warmup.end([10, 20], [1.0, 1.0], train_iters=train_iters) == WarmupEnd(last)
    assert str(warmup) == words
    assert Warmup.parse(warmup.written) == warmup


def test_a_warm_up_may_end_with_one_of_the_first_reports() -> None:
    """A warm-up of the first three reports does not depend on the iterations of these reports."""
    warmup = Warmup(rule="first", iterations=3)
    assert warmup.end([100, 101, 102, 103], [1.0] * 4) == WarmupEnd(102)
    assert warmup.end([100, 101], [1.0] * 2) == WarmupEnd(101)
    assert (warmup.written, str(warmup)) == (3, "the first 3 reports")


@pytest.mark.parametrize(
    "value",
    [
        *[-1, "-1", "", "%", "100%", "1.5", "1.5%", "-5%", "10 %", "last", "²", "²%"],
        *["none first", "9" * 5000, "9" * 5000 + "%"],
    ],
    ids=lambda value: str(value)[:10],
)
def test_an_invalid_warm_up_is_refused(value: int | str) -> None:
    """The message about an invalid warm-up contains the value and all valid forms."""
    message = (
        f"{value!r} is not a valid warm-up: give a number of iterations (5), "
        "a percentage below 100 (10%), `first` or `auto`"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        Warmup.parse(value)


@given(st.integers(0, 99), st.integers(1, 10**6))
def test_a_percentage_always_leaves_something(percent: int, train_iters: int) -> None:
    """A percentage below 100 % never leaves out all iterations."""
    assert 0 <= Warmup.parse(f"{percent}%").least_iterations(train_iters) < train_iters


@given(st.text(max_size=8) | st.from_regex(r"\s?\w{1,3}%?\s?"))
def test_any_text_is_a_warm_up_or_refused(text: str) -> None:
    """Any text is a valid warm-up or raises ValueError, even with digits of other alphabets."""
    with contextlib.suppress(ValueError):
        assert Warmup.parse(text).least_iterations(10**6) >= 0


@pytest.mark.parametrize(
    ("value", "last"), [(0, 1000), (5, 1005), ("10%", 1020), ("first", 1010), ("auto", 1000)]
)
def test_iterations_of_a_resumed_launch_count_from_its_checkpoint(
    value: int | str, last: int
) -> None:
    """After a restart, the warm-up begins at the checkpoint.

    A percentage is of the iterations that the launch still has to do.
    """
    warmup = Warmup.parse(value)
    end = warmup.end([1010, 1020], [1.0, 1.0], train_iters=1200, resumed_from=1000)
    assert end == WarmupEnd(last)


@pytest.mark.parametrize(("value", "last"), [(0, -1), (2, 1), ("50%", 1), ("first", 0)])
def test_a_program_may_count_its_iterations_from_zero(value: int | str, last: int) -> None:
    """If a program counts from 0, a warm-up of two iterations leaves out 0 and 1.

    Without a warm-up, iteration 0 counts.
    """
    assert Warmup.parse(value).end([0, 1, 2, 3], [1.0] * 4) == WarmupEnd(last)


@pytest.mark.parametrize("value", ["5", "10%", "first", "auto"])
def test_without_reports_nothing_is_left_out(value: str) -> None:
    """In a log without steps, no warm-up leaves anything out or raises an error."""
    warmup = Warmup.parse(value)
    assert warmup.end([], []) == WarmupEnd(warmup.iterations)


def reports_left_out(times: list[float | None]) -> tuple[int, bool]:
    """Apply the warm-up `auto` to these step times.

    Return how many reports it leaves out, and whether the step times become steady.
    """
    end = Warmup.parse("auto").end(range(1, len(times) + 1), times)
    return end.iteration, end.steady


def noisy(mean: float, count: int, seed: int = 1) -> list[float]:
    """Return `count` step times around this mean, with a spread of one percent."""
    rng = random.Random(seed)
    return [rng.gauss(mean, mean / 100) for _ in range(count)]


@pytest.mark.parametrize(
    ("slow", "steady", "least", "most"),
    [
        ([], 200, 0, 60),
        ([50.0], 200, 5, 60),
        ([4.0, 3.0, 2.5, 2.0, 1.8, 1.5, 1.3], 200, 10, 60),
        ([4.0 - 0.1 * number for number in range(30)], 200, 30, 90),
        ([9.0], 10, 1, 5),
        ([9.0, 4.0, 2.0], 12, 3, 7),
    ],
)
def test_auto_leaves_out_the_slow_beginning(
    slow: list[float], steady: int, least: int, most: int
) -> None:
    """The warm-up `auto` leaves out at least all slow reports, and not many more."""
    left_out, settled = reports_left_out([*slow, *noisy(1.0, steady)])
    assert settled
    assert least <= left_out <= most


def test_auto_ignores_reports_without_a_time() -> None:
    """Reports without a time at the slow beginning are left out with the slow reports."""
    times = [None, 9.0, None, None, 8.0, None, *[1.0] * 12]
    assert reports_left_out(times) == (5, True)


def test_a_run_that_never_settles_is_reported_as_unsteady() -> None:
    """If step times fall until the end, half of the reports are left out.

    The run is then reported as not steady.
    """
    falling = [10.0 - 0.01 * number for number in range(400)]
    assert steady_state(falling) == (200, False)


@pytest.mark.parametrize("count", range(6))
def test_the_automatic_warm_up_leaves_out_none_of_a_few_reports(count: int) -> None:
    """The warm-up `auto` leaves out nothing if the reports are too few to show a steady state."""
    assert steady_state([9.0, 3.0, 1.1, 1.0, 1.2][:count]) == (0, True)


def squared_errors(observations: list[float]) -> list[float]:
    """Return the values that MSER minimizes: one for each possible number k of left-out values.

    For each k it is the sum of the squared deviations of the remaining values from their mean,
    divided by the square of the number of remaining values.
    """
    errors = []
    for left_out in range(len(observations) - 5 + 1):
        rest = observations[left_out:]
        mean = statistics.fmean(rest)
        errors.append(sum((value - mean) ** 2 for value in rest) / len(rest) ** 2)
    return errors


@given(st.lists(st.integers(1, 1000).map(float), min_size=10, max_size=49, unique=True))
def test_the_truncation_is_that_of_the_definition(observations: list[float]) -> None:
    """For fewer than fifty reports, `auto` leaves out the number that minimizes `squared_errors`.

    If the minimum is in the second half, `auto` leaves out half of the reports, and the run is not
    steady.
    """
    errors = squared_errors(observations)
    half = len(observations) // 2
    left_out, steady = steady_state(observations)
    if steady:
        assert errors[left_out] == pytest.approx(min(errors), rel=1e-9)
    else:
        assert left_out == half
        assert min(errors[half + 1 :]) <= min(errors[: half + 1])


@given(st.lists(st.integers(1, 1000).map(float), min_size=10, max_size=40, unique=True))
def test_five_equal_reports_weigh_as_their_mean(means: list[float]) -> None:
    """If there are fifty reports or more, the warm-up `auto` uses one mean per five reports."""
    times = [time for mean in means for time in (mean - 0.5, mean, mean, mean, mean + 0.5)]
    left_out, steady = steady_state(means)
    assert steady_state(times) == (5 * left_out, steady)
