"""Find where the numbers of a series change, and test the change by permutations."""

import math
import random
from itertools import permutations

import pytest
from history_simulation import QUIET, REAL, SEED, Cluster, runs_before_change
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.compare.change_point import FEWEST, LEVEL, fewest_on_a_side, find_change

numbers = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 3))


def clearness(values: tuple[float, ...], k: int) -> float:
    """Return how clear a change after the first k values is.

    This is the absolute difference of the means before and after, divided by its standard error.
    The standard error assumes that each value has a standard deviation of 1.
    """
    before, after = values[:k], values[k:]
    difference = math.fsum(after) / len(after) - math.fsum(before) / len(before)
    return abs(difference) / math.sqrt(1 / len(before) + 1 / len(after))


@given(st.lists(numbers, min_size=2, max_size=6, unique=True))
def test_the_p_value_is_the_part_of_all_orders_that_are_as_clear(values: list[float]) -> None:
    """The p-value is a share of all permutations of the numbers.

    It is the share whose clearest change is at least as clear as that of the given numbers. The
    test counts these permutations one by one.
    """
    clearest = [
        max(clearness(order, k) for k in range(1, len(order))) for order in permutations(values)
    ]
    change = find_change(values)
    assert change is not None
    assert change.exact
    least = clearest[0] * (1 - 1e-9)
    assert change.p_value == sum(value >= least for value in clearest) / len(clearest)
    assert clearness(tuple(values), change.index) == pytest.approx(clearest[0])


@given(st.lists(numbers, min_size=2, max_size=7), st.floats(-3, 3), st.floats(0.1, 10))
def test_neither_the_unit_nor_the_level_of_times_matters(
    values: list[float], shift: float, factor: float
) -> None:
    """If all values are multiplied by a factor or shifted by a constant, the p-value stays.

    In `teralog history`, the values are logarithms of step times. So neither the base of the
    logarithms nor the unit of the times matters.
    """
    change, other = find_change(values), find_change([factor * value + shift for value in values])
    assert change is not None
    assert other is not None
    assert other.p_value == pytest.approx(change.p_value)


@pytest.mark.parametrize("n", [2, 3, 5, FEWEST - 1])
def test_fewer_than_eight_numbers_show_no_change_however_large(n: int) -> None:
    """Fewer than eight numbers show no change, however large it is.

    Even the clearest change of so few numbers is likely to occur by chance.
    """
    change = find_change([0.0] * (n // 2) + [9.0] * (n - n // 2))
    assert change is not None
    assert not change.is_shown
    assert fewest_on_a_side(n) is None


@pytest.mark.parametrize(
    ("n", "fewest"), [(FEWEST, 3), (10, 3), (12, 2), (20, 2), (49, 2), (60, 1), (100, 1)]
)
def test_a_change_can_be_shown_as_soon_as_enough_lie_on_each_side(n: int, fewest: int) -> None:
    """A large change is shown once enough numbers are before it and after it.

    Of 8 numbers, 3 must be on each side; of 60 numbers, 1 is enough.
    """
    assert fewest_on_a_side(n) == fewest
    chance = random.Random(n)
    values = [chance.gauss(0, 1e-3) for _ in range(n)]
    change = find_change([*values[:-fewest], *(value + 1 for value in values[-fewest:])])
    assert change is not None
    assert change.is_shown
    assert change.index == n - fewest
    assert change.difference == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("values", [[1.0] * 9, [0.1 + 0.2, 0.3] * 6])
def test_equal_numbers_show_no_change(values: list[float]) -> None:
    """Equal numbers show no change, nor do numbers that differ only by rounding."""
    change = find_change(values)
    assert change is not None
    assert change.p_value == 1


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_number_has_no_change(values: list[float]) -> None:
    """A single number cannot show a change, because no number precedes it."""
    assert find_change(values) is None


def test_drawn_orders_are_the_same_each_time_and_backwards() -> None:
    """Two calls with the same numbers give the same result.

    The numbers in reverse order give the same p-value, and the change at the same point.
    """
    chance = random.Random(1)
    values = [chance.gauss(0, 1) for _ in range(20)]
    change, again, backwards = (find_change(some) for some in (values, values, values[::-1]))
    assert change == again
    assert change is not None
    assert backwards is not None
    assert not change.exact
    assert backwards.p_value == change.p_value
    assert backwards.index == 20 - change.index


# The simulation of tests/benchmarks/history_simulation.py, smaller.
TRIALS = 200


@pytest.mark.parametrize("cluster", QUIET, ids=lambda cluster: cluster.name)
def test_a_history_without_a_change_rarely_shows_one(cluster: Cluster) -> None:
    """Without a real change, a change is shown in at most 5 % of all cases.

    With a fixed seed, the test allows 8 % of 200 trials. If the true rate is 5 %, only 1 in 45
    series of 200 trials has more than 8 %.
    """
    shown = [runs_before_change(cluster, SEED + trial, 0.0) for trial in range(TRIALS)]
    assert sum(change is not None for change in shown) <= 0.08 * TRIALS


@pytest.mark.parametrize("cluster", REAL, ids=lambda cluster: cluster.name)
def test_a_change_well_above_the_noise_is_found_where_it_is(cluster: Cluster) -> None:
    """A change of 10 % after half of the runs is found in 45 of 50 trials, at the right run."""
    places = [runs_before_change(cluster, SEED + trial, 0.1) for trial in range(50)]
    assert places.count(cluster.half) >= 45


def test_the_level_is_what_is_promised() -> None:
    """The significance level in the code is below the 5 % that the docs promise.

    The lower level is a precaution: the assumptions of the test are only approximately true.
    """
    assert LEVEL < 0.05
