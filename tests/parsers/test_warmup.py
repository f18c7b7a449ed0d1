"""Warm-up: which reports a policy leaves out, and where MSER-5 finds the steady state."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.summary.warmup import Truncation, WarmupPolicy, steady_state

TIMES = [9.0, 5.0, 1.0, 1.1, 0.9, 1.0]


@pytest.mark.parametrize(
    ("text", "left_out", "shown"),
    [
        ("none", 0, "none"),
        ("0", 0, "none"),
        ("first", 1, "first"),
        (" First ", 1, "first"),
        ("1", 1, "first"),
        ("4", 4, "4"),
        ("100", 6, "100"),
    ],
)
def test_a_policy_leaves_out_the_first_reports(text: str, left_out: int, shown: str) -> None:
    """A launch of six reports loses no more than six."""
    policy = WarmupPolicy.parse(text)
    assert policy.truncation(TIMES) == Truncation(left_out)
    assert str(policy) == shown
    assert WarmupPolicy.parse(str(policy)) == policy


@pytest.mark.parametrize("text", ["", "-1", "1.5", "10%", "last", "²", "none first"])
def test_what_is_no_policy_is_said_to_be_none(text: str) -> None:
    """The sentence names what would be one."""
    with pytest.raises(ValueError, match="none, first, auto, or a number"):
        WarmupPolicy.parse(text)


def noisy(mean: float, count: int, seed: int = 1) -> list[float]:
    """Return step times with a spread of one percent."""
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
    """At least all that is slow, and not much more."""
    policy = WarmupPolicy.parse("auto")
    truncation = policy.truncation([*slow, *noisy(1.0, steady)])
    assert truncation.steady
    assert least <= truncation.reports <= most
    assert str(policy) == "auto"


def test_auto_passes_over_reports_without_a_time() -> None:
    """They are left out with the slow ones before and behind them."""
    times = [None, 9.0, None, None, 8.0, None, *[1.0] * 12]
    assert WarmupPolicy.parse("auto").truncation(times) == Truncation(5)


def test_a_run_that_never_settles_is_said_to_be_unsteady() -> None:
    """Its step time falls to the end; half of it is left out, and the number is no measure."""
    falling = [10.0 - 0.01 * number for number in range(400)]
    assert steady_state(falling) == Truncation(200, steady=False)


@pytest.mark.parametrize("count", range(6))
def test_of_a_handful_of_reports_none_is_left_out(count: int) -> None:
    """They are too few to say what is steady; alone, the last one would look so."""
    assert steady_state([9.0, 3.0, 1.1, 1.0, 1.2][:count]) == Truncation(0)


def squared_errors(observations: list[float]) -> list[float]:
    """Return what the rule makes least, for each truncation, by its definition, term by term."""
    errors = []
    for left_out in range(len(observations) - 5 + 1):
        rest = observations[left_out:]
        mean = statistics.fmean(rest)
        errors.append(sum((one - mean) ** 2 for one in rest) / len(rest) ** 2)
    return errors


@given(st.lists(st.integers(1, 1000).map(float), min_size=10, max_size=49, unique=True))
def test_the_truncation_is_that_of_the_definition(observations: list[float]) -> None:
    """For fewer than fifty reports, each is an observation."""
    errors = squared_errors(observations)
    half = len(observations) // 2
    found = steady_state(observations)
    if found.steady:
        assert errors[found.reports] == pytest.approx(min(errors), rel=1e-9)
    else:
        assert found.reports == half
        assert min(errors[half + 1 :]) <= min(errors[: half + 1])


@given(st.lists(st.integers(1, 1000).map(float), min_size=10, max_size=40, unique=True))
def test_five_equal_reports_weigh_as_their_mean(means: list[float]) -> None:
    """From fifty on, means of five are the observations."""
    times = [time for mean in means for time in (mean - 0.5, mean, mean, mean, mean + 0.5)]
    one_by_one = steady_state(means)
    assert steady_state(times) == Truncation(5 * one_by_one.reports, one_by_one.steady)
