"""Compare the speeds of A and B: what the runs can show, and what they cannot."""

import math
import random
from dataclasses import replace
from itertools import combinations, product
from statistics import fmean

import pytest
from compare_simulation import DRIFT, SEED, Design, apart, in_a_row, interleaved, steady, wandering
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.compare.intervals import (
    QUANTILE,
    paired_interval,
    student_probability,
    student_quantile,
    unpaired_interval,
)
from orchestrator.compare.sample_size import (
    MOST_RUNS,
    POWER,
    blocks_to_find,
    more_pairs,
    runs_to_find,
)
from orchestrator.compare.verdict import Comparison, Timing, Verdict, compare_timings

FASTER, SLOWER, CANNOT_TELL = Verdict.FASTER, Verdict.SLOWER, Verdict.CANNOT_TELL
OPPOSITE = {FASTER: SLOWER, SLOWER: FASTER, CANNOT_TELL: CANNOT_TELL}

speeds = st.floats(0.01, 100, allow_subnormal=False)
timings = st.builds(
    Timing,
    speeds,
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 2, 3, 4]),
)
samples = st.lists(timings, max_size=9)


def blocks(ratios: list[float], *, in_one: bool = False) -> tuple[list[Timing], list[Timing]]:
    """Return the runs of A and of B, in blocks A B B A with a drift of 5 % per run.

    ratios: for each block, the speed of A divided by that of B. in_one: whether all blocks are in
    one allocation.
    """
    sides: tuple[list[Timing], list[Timing]] = ([], [])
    for block, ratio in enumerate(ratios):
        for place, side in enumerate((0, 1, 1, 0), 1):
            speed = (1 + block) * math.exp(DRIFT * place) * (1 if side else ratio)
            sides[side].append(Timing(speed, "one" if in_one else str(block), block, place))
    return sides


def alone(values: list[float]) -> list[Timing]:
    """Return runs with these speeds, whose allocations are not known."""
    return [Timing(value) for value in values]


def test_a_steady_drift_within_blocks_and_speeds_of_allocations_cancel() -> None:
    """Blocks A B B A give the true ratio, although runs drift and blocks differ in speed."""
    comparison = compare_timings(*blocks([1.05] * 6))
    assert comparison.ratio == pytest.approx(1.05)
    assert (comparison.low, comparison.high) == (pytest.approx(1.05), pytest.approx(1.05))
    assert (comparison.verdict, comparison.paired, comparison.units) == (FASTER, True, (6, 6))
    assert (comparison.balanced, comparison.allocations, comparison.more) == (6, 6, None)


@pytest.mark.parametrize(
    ("count", "verdict", "more"),
    [(1, CANNOT_TELL, 5), (3, CANNOT_TELL, 3), (5, CANNOT_TELL, 1), (6, FASTER, None)],
)
def test_fewer_than_six_blocks_show_nothing_however_alike(
    count: int, verdict: Verdict, more: int | None
) -> None:
    """A verdict needs at least six blocks, even if one side is faster in every block.

    If A and B are equal, one side is faster in all n blocks in 2 of 2^n cases: in 6 % for 5 blocks,
    in 3 % for 6.
    """
    ratios = [1.5 + 0.01 * block for block in range(count)]
    comparison = compare_timings(*blocks(ratios))
    assert (comparison.verdict, comparison.more, comparison.least) == (
        verdict,
        more,
        more is not None,
    )
    assert (comparison.low is None) == (verdict is CANNOT_TELL)


@pytest.mark.parametrize(
    ("sizes", "verdict", "more"),
    [
        ((3, 3), CANNOT_TELL, 1),
        ((4, 4), FASTER, None),
        ((3, 5), FASTER, None),
        ((2, 8), CANNOT_TELL, 1),
        ((2, 9), FASTER, None),
        ((1, 48), CANNOT_TELL, 1),
        ((1, 49), FASTER, None),
    ],
)
def test_separate_runs_need_at_least_fifty_ways_to_deal_them(
    sizes: tuple[int, int], verdict: Verdict, more: int | None
) -> None:
    """For a verdict, there must be at least fifty ways to assign the separate runs to A and B.

    With fewer ways, the runs of A are the fastest, or the slowest, by chance in more than 4 % of
    all cases.
    """
    a = [2 + 0.001 * place for place in range(sizes[0])]
    b = [1 + 0.001 * place for place in range(sizes[1])]
    comparison = compare_timings(alone(a), alone(b))
    assert (comparison.verdict, comparison.more) == (verdict, more)
    assert compare_timings(alone(b), alone(a)).verdict is OPPOSITE[verdict]


def test_runs_of_an_allocation_that_has_only_one_side_count_once() -> None:
    """If all runs of A are in one allocation, and all of B in another, each side counts as one run.

    The test has eight runs per side.
    """
    a = [Timing(2.0 + 0.001 * run, "7") for run in range(8)]
    b = [Timing(1.0 + 0.001 * run, "8") for run in range(8)]
    comparison = compare_timings(a, b)
    assert (comparison.runs, comparison.units, comparison.verdict) == ((8, 8), (1, 1), CANNOT_TELL)
    assert (comparison.more, comparison.least) == (3, True)


def test_all_of_a_and_then_all_of_b_in_one_allocation_is_one_block() -> None:
    """All runs of A and then all of B in one allocation give no verdict, however many they are.

    Any drift would look like a difference.
    """
    a = [Timing(1 + 0.01 * place, "7", None, place) for place in range(8)]
    b = [Timing(1 + 0.01 * place, "7", None, place) for place in range(8, 16)]
    comparison = compare_timings(a, b)
    assert (comparison.paired, comparison.units, comparison.balanced) == (True, (1, 1), 0)
    assert (comparison.verdict, comparison.more, comparison.least) == (CANNOT_TELL, 5, True)


def test_runs_without_a_partner_are_left_out_and_counted() -> None:
    """If there are enough blocks, runs without a partner in a block are left out.

    The comparison contains the number of these runs for A and for B.
    """
    a, b = blocks([1.1] * 7)
    comparison = compare_timings([*a, Timing(99.0, "elsewhere"), Timing(99.0)], b[:-2])
    assert (comparison.units, comparison.left_out) == ((6, 6), (4, 0))
    assert comparison.ratio == pytest.approx(1.1)


def test_enough_separate_runs_are_preferred_to_too_few_blocks() -> None:
    """If ten separate runs of each side give a verdict, a single further block is left out."""
    a, b = blocks([1.0])
    comparison = compare_timings([*alone([2.0] * 10), *a], [*alone([1.0] * 10), *b])
    assert (comparison.paired, comparison.verdict, comparison.left_out) == (False, FASTER, (2, 2))


@pytest.mark.parametrize("sides", [([], []), ([1.0], []), ([], [1.0, 2.0])])
def test_without_runs_of_both_there_is_no_ratio(sides: tuple[list[float], list[float]]) -> None:
    """With runs of only one side there is neither a ratio nor a verdict."""
    comparison = compare_timings(alone(sides[0]), alone(sides[1]))
    assert (comparison.ratio, comparison.low, comparison.verdict) == (None, None, CANNOT_TELL)


def test_equal_runs_suggest_no_difference() -> None:
    """If A and B are equally fast, no number of further runs is suggested.

    Rounding errors do not count as a difference.
    """
    a, b = blocks([1.0] * 9)
    comparison = compare_timings(a, b)
    assert (comparison.verdict, comparison.more) == (CANNOT_TELL, None)
    assert compare_timings(alone([1.1, 1.2, 1.3, 1.4]), alone([1.1, 1.2, 1.3, 1.4])).more is None


def test_one_published_figure_takes_49_runs_of_the_other_side() -> None:
    """A published figure cannot be repeated, so a verdict needs 49 runs of the other side.

    The figure must be among the lowest 2 % or the highest 2 % of all numbers. With 49 runs there
    are 50 numbers, and 2 % of them are one number.
    """
    comparison = compare_timings(alone([1.0, 1.01, 1.02]), alone([2.0]), repeatable=False)
    assert (comparison.verdict, comparison.more, comparison.least) == (CANNOT_TELL, 46, True)
    many = [1 + 0.001 * run for run in range(49)]
    assert compare_timings(alone(many), alone([2.0]), repeatable=False).verdict is SLOWER
    inside = compare_timings(alone(many), alone([1.02]), repeatable=False)
    assert (inside.verdict, inside.more) == (CANNOT_TELL, None)


@pytest.mark.parametrize(
    ("ratio", "by", "slower"), [(0.9, 0.05, True), (0.96, 0.05, False), (1.1, 0.0, False)]
)
def test_slower_by_more_than_a_percentage_means_the_whole_interval(
    ratio: float, by: float, slower: bool
) -> None:
    """A is slower than B by more than a percentage only if the whole interval shows it.

    E.g. A is slower by more than 5 % if the whole interval of A's speed divided by B's is below
    0.95.
    """
    assert compare_timings(*blocks([ratio] * 8)).is_slower_by(by) is slower


def test_without_an_interval_nothing_is_slower_by_anything() -> None:
    """Without an interval A never counts as slower, e.g. with only three blocks."""
    assert not compare_timings(*blocks([0.5] * 3)).is_slower_by(0.0)


def test_the_gain_of_pairs_is_a_ratio_of_variances() -> None:
    """The gain is the factor by which the variance would grow if the same runs were not paired.

    The variance is that of the difference between the logarithms of A's and B's speeds. In this
    test the gain is large: allocations differ much in speed, but A and B within one allocation
    differ little.
    """
    comparison = compare_timings(*blocks([1.05, 1.06] * 4))
    assert comparison.gain is not None
    assert comparison.gain > 1000


def inverse(comparison: Comparison) -> Comparison:
    """Return the comparison of B with A, given the comparison of A with B."""
    flipped = {name: getattr(comparison, name)[::-1] for name in ("runs", "left_out", "units")}
    return replace(
        comparison,
        **flipped,
        ratio=None if comparison.ratio is None else 1 / comparison.ratio,
        low=None if comparison.high is None else 1 / comparison.high,
        high=None if comparison.low is None else 1 / comparison.low,
        verdict=OPPOSITE[comparison.verdict],
    )


def assert_same(comparison: Comparison, other: Comparison) -> None:
    """Assert that two comparisons are equal, except for rounding."""
    for name in ("runs", "left_out", "paired", "units", "allocations", "balanced", "verdict"):
        assert getattr(comparison, name) == getattr(other, name)
    for name in ("ratio", "low", "high"):
        value, expected = getattr(comparison, name), getattr(other, name)
        assert value == (expected if expected is None else pytest.approx(expected, rel=1e-6))


@given(samples, samples)
@settings(max_examples=200)
def test_to_exchange_a_and_b_inverts_ratio_interval_and_verdict(
    a: list[Timing], b: list[Timing]
) -> None:
    """If A and B change places, the ratio and the interval are inverted, and so is the verdict."""
    assert_same(compare_timings(b, a), inverse(compare_timings(a, b)))


@given(samples, samples, st.floats(0.001, 1000))
@settings(max_examples=200)
def test_the_unit_of_speed_changes_nothing(a: list[Timing], b: list[Timing], factor: float) -> None:
    """Steps per second and tokens per hour give the same result."""
    scaled = [[replace(timing, speed=timing.speed * factor) for timing in side] for side in (a, b)]
    assert_same(compare_timings(*scaled), compare_timings(a, b))


@given(samples, samples, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_the_order_of_runs_changes_nothing(
    a: list[Timing], b: list[Timing], chance: random.Random
) -> None:
    """The order of the runs in the list does not change the result."""
    mixed = [chance.sample(side, len(side)) for side in (a, b)]
    assert_same(compare_timings(*mixed), compare_timings(a, b))


@given(samples, samples)
@settings(max_examples=200)
def test_the_interval_contains_the_ratio_and_decides_the_verdict(
    a: list[Timing], b: list[Timing]
) -> None:
    """Every interval contains the ratio, and excludes 1 exactly if there is a verdict."""
    comparison = compare_timings(a, b)
    if comparison.low is None or comparison.high is None or comparison.ratio is None:
        assert comparison.verdict is CANNOT_TELL
        return
    assert comparison.low <= comparison.ratio * (1 + 1e-9)
    assert comparison.ratio <= comparison.high * (1 + 1e-9)
    expected = (
        FASTER
        if comparison.low > 1 + 1e-8
        else SLOWER
        if comparison.high < 1 - 1e-8
        else CANNOT_TELL
    )
    if min(abs(math.log(comparison.low)), abs(math.log(comparison.high))) > 1e-8:
        assert comparison.verdict is expected


@given(st.lists(st.floats(1.01, 2), min_size=6, max_size=12), st.integers(1, 6))
def test_more_of_the_same_never_takes_a_verdict_back(ratios: list[float], copies: int) -> None:
    """If A is faster in all blocks, more such blocks do not change the verdict."""
    assert compare_timings(*blocks(ratios)).verdict is FASTER
    assert compare_timings(*blocks([*ratios, *ratios[:copies]])).verdict is FASTER


@pytest.mark.parametrize(("pairs", "wrong"), [(6, 2), (7, 6), (8, 12), (9, 22), (10, 42)])
def test_a_verdict_of_pairs_is_wrong_in_4_percent_of_all_signs_or_the_next_above(
    pairs: int, wrong: int
) -> None:
    """If A and B are equal, at most 5 % of all combinations of signs give a verdict about pairs.

    The sign of a pair shows whether A or B is faster in it. All combinations are equally likely.
    """
    sizes = [1 + 0.1 * math.sqrt(2 + pair) for pair in range(pairs)]
    intervals = [
        paired_interval(list(map(math.prod, zip(sizes, signs, strict=True))))
        for signs in product((-1, 1), repeat=pairs)
    ]
    assert (
        sum(interval is None or interval[0] > 0 or interval[1] < 0 for interval in intervals)
        == wrong
    )
    assert wrong / 2**pairs <= 0.05


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=9))
def test_the_interval_of_pairs_is_that_of_the_test_by_flipping_signs(
    differences: list[float],
) -> None:
    """The sign-flip test rejects a ratio just outside the interval, and accepts one just inside."""
    interval = paired_interval(differences)
    assert interval is not None
    nudge = 1e-7

    def refused(moved: float) -> bool:
        values = [difference - moved for difference in differences]
        sums = [
            sum(value if signs >> place & 1 else -value for place, value in enumerate(values))
            for signs in range(2 ** len(values))
        ]
        seen = sum(values)
        above = sum(total >= seen - 1e-12 for total in sums) / len(sums)
        below = sum(total <= seen + 1e-12 for total in sums) / len(sums)
        return min(above, below) <= allowed

    allowed = {6: 1 / 64, 7: 3 / 128, 8: 6 / 256, 9: 11 / 512}[len(differences)]
    assert refused(interval[0] - nudge)
    assert refused(interval[1] + nudge)
    if interval[1] - interval[0] > 4 * nudge:
        assert not refused(interval[0] + nudge)
        assert not refused(interval[1] - nudge)


@given(
    st.lists(st.floats(-1, 1), min_size=4, max_size=5),
    st.lists(st.floats(-1, 1), min_size=4, max_size=5),
)
@settings(max_examples=50)
def test_the_interval_of_samples_holds_all_that_the_test_by_dealing_does_not_refuse(
    a: list[float], b: list[float]
) -> None:
    """The interval for separate runs contains every ratio that the permutation test accepts.

    It also covers Welch's interval, so it may contain more ratios.
    """
    interval = unpaired_interval(a, b)
    assert interval is not None
    for moved in (interval[0] - 1e-7, interval[1] + 1e-7):
        together = [value - moved for value in a] + b
        seen = fmean(together[: len(a)]) - fmean(together[len(a) :])
        total = sum(together)
        means = [
            fmean(part) - (total - sum(part)) / len(b) for part in combinations(together, len(a))
        ]
        above = sum(mean >= seen - 1e-12 for mean in means) / len(means)
        below = sum(mean <= seen + 1e-12 for mean in means) / len(means)
        assert min(above, below) <= 0.02


@pytest.mark.parametrize(
    ("probability", "degrees", "quantile"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 7, 2.365),
        (0.975, 30, 2.042),
        (0.8, 4, 0.941),
        (0.95, 5, 2.015),
        (0.975, 10**6, 1.960),
    ],
)
def test_student_s_quantiles_are_those_of_the_tables(
    probability: float, degrees: int, quantile: float
) -> None:
    """The quantiles of Student's t-distribution equal those in printed tables."""
    assert student_quantile(probability, degrees) == pytest.approx(quantile, abs=6e-4)
    assert student_probability(-quantile, degrees) == pytest.approx(1 - probability, abs=1e-4)


# The simulation of tests/benchmarks/compare_simulation.py, smaller: what is asserted is eight
# standard deviations away from what that finds.
TRIALS = 200
QUIET = [
    Design("3 blocks", interleaved(3, steady)),
    Design("6 blocks", interleaved(6, steady)),
    Design("8 blocks", interleaved(8, steady)),
    Design("16 blocks", interleaved(16, steady)),
    Design("8 blocks in one allocation", interleaved(8, steady, allocations=False)),
    Design("12 blocks, wandering", interleaved(12, wandering)),
    Design("in a row", in_a_row(8)),
    Design("4 and 4", apart(4, 4)),
    Design("8 and 8", apart(8, 8)),
    Design("4 and 12", apart(4, 12)),
]


@pytest.mark.parametrize("design", QUIET, ids=lambda design: design.name)
def test_without_a_difference_a_verdict_is_rare(design: Design) -> None:
    """Without a difference, at most 5 % of all comparisons give a verdict.

    With a fixed seed, the test allows 8 % of 200 trials.
    """
    verdicts = [design.verdict(SEED + trial, 0.0).verdict for trial in range(TRIALS)]
    assert TRIALS - verdicts.count(CANNOT_TELL) <= 0.08 * TRIALS


@pytest.mark.parametrize(
    "design",
    [
        Design("8 blocks", interleaved(8, steady)),
        Design("in one allocation", interleaved(8, steady, allocations=False)),
    ],
    ids=lambda design: design.name,
)
def test_eight_blocks_find_5_percent_amid_40(design: Design) -> None:
    """In 80 % of all cases, eight blocks find a difference of 5 %, as the docs promise.

    The simulated allocations differ by 40 %. In 90 % of all cases, the interval contains the true
    ratio.
    """
    comparisons = [design.verdict(SEED + trial, 0.05) for trial in range(TRIALS)]
    assert sum(comparison.verdict is FASTER for comparison in comparisons) >= 0.8 * TRIALS
    held = [
        comparison.low <= 1.05 <= comparison.high
        for comparison in comparisons
        if comparison.low and comparison.high
    ]
    assert sum(held) >= 0.9 * TRIALS


def test_the_planned_number_of_runs_finds_the_difference_in_8_of_10_cases() -> None:
    """The planned number of runs finds the difference in about 8 of 10 cases."""
    runs = runs_to_find(0.05, 0.03)
    count = blocks_to_find(0.05, 0.045)
    noisy = (lambda chance: chance.gauss(0, 0.03),) * 2
    planned = [
        Design("apart", apart(runs, runs, noisy)),
        Design("blocks", interleaved(count, steady, noise=lambda chance: chance.gauss(0, 0.045))),
    ]
    for design in planned:
        verdicts = [design.verdict(SEED + trial, 0.05).verdict for trial in range(TRIALS)]
        assert 0.68 * TRIALS <= verdicts.count(FASTER) <= 0.95 * TRIALS, design.name


def test_the_number_of_runs_needed_is_named_if_a_difference_is_unsure() -> None:
    """Without a verdict, the comparison suggests a number of further runs.

    With these runs, there would be a verdict if the true difference equals the measured one.
    """
    ratios = [1.10, 1.02, 1.08, 0.97, 1.04, 0.98, 1.06, 1.0]
    comparison = compare_timings(*blocks(ratios))
    assert (comparison.verdict, comparison.least) == (CANNOT_TELL, False)
    assert comparison.more is not None
    assert 8 <= comparison.more <= 20


@pytest.mark.parametrize("more", [3, 500_000, 600_000, 900_000, MOST_RUNS, MOST_RUNS + 1])
def test_the_number_of_pairs_needed_is_named_up_to_a_million(more: int) -> None:
    """The number of further pairs is exact; it is None only above `MOST_RUNS`.

    The mean difference is 1. Let q be the sum of the two quantiles. The standard deviation
    is chosen so that q² · variance, the number of pairs needed, is half a pair below
    `count + more`.
    """
    count = max(more // 6, 8) // 2 * 2
    pairs = count + more
    quantiles = student_quantile(QUANTILE, pairs - 1) + student_quantile(POWER, pairs - 1)
    spread = math.sqrt((pairs - 0.5) * (count - 1) / count) / quantiles
    differences = [1 - spread, 1 + spread] * (count // 2)
    assert more_pairs(differences) == (None if more > MOST_RUNS else more, False)
