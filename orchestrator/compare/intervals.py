"""Compute the confidence interval of a difference from the measured numbers, by permutation.

This module also computes Student's t distribution for whole degrees of freedom. Some intervals
and the module `sample_size` need it.

A permutation test considers all ways in which chance could have distributed the same
numbers. It counts the ways in which the difference is at least as large as the measured
difference. The interval contains every difference that a two-sided permutation test does not
reject. No search is necessary, because the ends of the interval can be computed directly.
`paired_interval` and `unpaired_interval` explain how.

The functions promise a 95 % interval: the test may err in 5 % of cases. But the test is
made at the level 4 %. The difference of 1 % is a reserve, because the test's assumption may
not be exactly true. The assumption is that every way in which chance could have
distributed the numbers is equally likely. It is true if the order within pairs is drawn at
random, whatever distribution the numbers have. With few pairs, no test has a level of
exactly 4 %. Then the next possible level above 4 % is used. If this level is above 5 %, as
for 6 pairs, the next possible level below 4 % is used.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# With more degrees of freedom, the normal distribution is equal in the first three digits, and the
# sum below would have many terms.
_NEARLY_NORMAL = 2000


def student_probability(t: float, degrees: int) -> float:
    """Return the probability that a variable T with Student's distribution is at most `t`.

    Let n be the degrees of freedom, and θ = atan(t / √n). The probability of |T| ≤ t is a
    finite sum over powers of cos θ (Abramowitz and Stegun 1964, 26.7.3 for odd n and 26.7.4 for
    even):

        n odd:  2/π · (θ + sin θ · (cos θ + 2/3 cos³θ + … + 2·4…(n-3) / 3·5…(n-2) cos^(n-2) θ))
        n even: sin θ · (1 + 1/2 cos²θ + … + 1·3…(n-3) / 2·4…(n-2) cos^(n-2) θ)

    Let P be this sum; it is negative if t is negative. The result is (1 + P) / 2. If n is above
    `_NEARLY_NORMAL`, the normal distribution is used instead.
    """
    if degrees > _NEARLY_NORMAL:
        return NormalDist().cdf(t)
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for factor in range(2 if odd else 1, degrees, 2):
        total += term
        term *= factor / (factor + 1) * cosine * cosine
    between = math.sin(angle) * total
    if odd:
        between = 2 / math.pi * (angle + between)
    return (1 + between) / 2


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return the value that Student's t exceeds with probability 1 - `probability`.

    probability: at least 1/2 and below 1. degrees: the degrees of freedom.
    """
    if degrees > _NEARLY_NORMAL:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1.0
    while student_probability(high, degrees) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if student_probability(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


Interval = tuple[float, float]

# The test errs on each side in about 1 of CASES_A_SIDE cases. It never errs more often than in 1 of
# FEWEST_CASES_A_SIDE cases.
CASES_A_SIDE = 50
FEWEST_CASES_A_SIDE = 40
QUANTILE = 1 - 1 / CASES_A_SIDE
# The largest numbers of pairs, and of ways to split, for which all cases are enumerated. With more,
# the distribution of the mean is close enough to a normal distribution.
MAX_PAIRS = 16
MAX_DEALS = 200_000


def pairs_suffice(pairs: int) -> bool:
    """Return whether this many pairs are enough for an interval.

    The condition for n pairs is that 2 · (1/2)^n is at most 5 %. So at least 6 pairs are needed.
    """
    return pairs > MAX_PAIRS or _rank_of_pairs(pairs) > 0


def sides_suffice(first: int, second: int) -> bool:
    """Return whether two samples with `first` and `second` values give an interval.

    Let n be the number of ways to split all values into two samples of these sizes. The condition
    is that no sample is empty, and that 2/n is at most 4 %.
    """
    return min(first, second) > 0 and math.comb(first + second, first) >= CASES_A_SIDE


def paired_interval(differences: Sequence[float]) -> Interval | None:
    """Return the 95 % interval for the middle of the differences; None for fewer than 6 pairs.

    differences: the difference of each pair.

    Let d_1 to d_n be the differences. Test the assumption that δ is the middle of their
    symmetric distribution. If this is true, each d_i - δ is as likely as its negative, so all
    2^n choices of the signs are equally likely. Take a set S of the differences, and change the
    signs of d_i - δ in S. The sum of all d_i - δ does not become smaller if Σ_S (d_i - δ) <= 0,
    that is, if mean(d_S) <= δ.

    On each side, the test may err in k of the 2^n choices (`_rank_of_pairs` returns k). One of
    them is the choice that changes no sign. So the test rejects δ as too small if at most k - 1
    non-empty sets have a mean of at most δ. The ends of the interval are therefore the k-th
    smallest and the k-th largest mean of all 2^n - 1 non-empty sets. This is theorem 1 of
    Hartigan 1969, "Using subsample values as typical values". For more than `MAX_PAIRS` pairs,
    the result is Student's interval.
    """
    import numpy as np

    count = len(differences)
    if not pairs_suffice(count):
        return None
    if count > MAX_PAIRS:
        mean, variance = mean_and_variance(differences)
        half = student_quantile(QUANTILE, count - 1) * math.sqrt(variance / count)
        return mean - half, mean + half
    # Sorted by absolute value, so that differences with the opposite signs have the same order.
    sums, sizes = np.zeros(1), np.zeros(1)
    for difference in sorted(differences, key=abs):
        sums = np.concatenate((sums, sums + difference))
        sizes = np.concatenate((sizes, sizes + 1))
    return _ends(sums[1:] / sizes[1:], _rank_of_pairs(count))


def unpaired_interval(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """Return the 95 % interval for the mean of the first sample minus the mean of the second.

    Returns None if the samples have too few values (see `sides_suffice`).

    Let a_i be the numbers of the first sample, and b_j those of the second. Test the assumption
    that the difference is δ. If this is true, every way to split the numbers a_i - δ and b_j into
    two samples is equally likely. Exchange some numbers a_i - δ of the first sample, with i in a
    set S, for as many numbers b_j of the second, with j in a set T. The difference of the means
    does not become smaller if mean(a_S) - mean(b_T) <= δ. As in `paired_interval`, the ends of
    the interval are the k-th smallest and the k-th largest of all mean(a_S) - mean(b_T). Here k
    is the number of ways to split, divided by 50 and rounded down, so the level of the test is at
    most 4 %.

    This permutation test assumes that both samples have the same variance. If the smaller sample
    has a larger variance, the test errs too often (Romano 1990), but Welch's interval does not.
    Welch's interval exists if each sample has two values or more. If both intervals exist, the
    result contains both, so it errs no more often than either of them. For more than `MAX_DEALS`
    ways to split, the result is Welch's interval alone, if it exists.
    """
    import numpy as np

    sizes = len(first), len(second)
    if not sides_suffice(*sizes):
        return None
    welch = _welch(first, second) if min(sizes) > 1 else None
    ways = math.comb(sum(sizes), sizes[0])
    if ways > MAX_DEALS and welch is not None:
        return welch
    apart = [
        np.subtract.outer(_means_of(first, size), _means_of(second, size)).ravel()
        for size in range(1, min(sizes) + 1)
    ]
    low, high = _ends(np.concatenate(apart), ways // CASES_A_SIDE)
    return (low, high) if welch is None else (min(low, welch[0]), max(high, welch[1]))


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the sample variance of two values or more.

    Sums are exact before they are rounded, so that the order of the values does not matter.
    """
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def welch_degrees(first: float, second: float, sizes: tuple[int, int]) -> int:
    """Return the degrees of freedom for a difference of two means (Welch 1947; Satterthwaite 1946).

    first, second: the variances of the two means, each already divided by its sample's size. The
    result is rounded down, which makes the interval wider.
    """
    # Fractions of the sum, because the squares of very small variances would become 0.
    whole = first + second
    if not whole:
        return sum(sizes) - 2
    parts = (first / whole) ** 2 / (sizes[0] - 1) + (second / whole) ** 2 / (sizes[1] - 1)
    return int(1 / parts + 1e-9)


def _welch(first: Sequence[float], second: Sequence[float]) -> Interval:
    (mean, variance), (other_mean, other_variance) = map(mean_and_variance, (first, second))
    of_mean, of_other = variance / len(first), other_variance / len(second)
    degrees = welch_degrees(of_mean, of_other, (len(first), len(second)))
    half = student_quantile(QUANTILE, degrees) * math.sqrt(of_mean + of_other)
    return mean - other_mean - half, mean - other_mean + half


def _means_of(values: Sequence[float], size: int) -> "np.ndarray":
    """Return the mean of every subset of `size` values."""
    import numpy as np

    means: np.ndarray = np.asarray(values)[_choices(len(values), size)].mean(axis=1)
    return means


@cache
def _choices(count: int, size: int) -> "np.ndarray":
    """Return every way to choose `size` of the indices 0 to `count` - 1; each way is a row."""
    import numpy as np

    return np.array(list(combinations(range(count), size)))


def _rank_of_pairs(pairs: int) -> int:
    """Return the k by which `paired_interval` chooses its ends; 0 for too few pairs.

    The ends are the k-th smallest and the k-th largest of the means of all sets of differences;
    n pairs have 2^n - 1 such sets. k is 2^n/50 rounded up, but at most 2^n/40 rounded down. So
    the level of the test, 2k/2^n, is at most 5 %. It is 3.1 % with 6 pairs, 4.7 % with 7 or 8
    pairs, and between 4 % and 4.3 % with more pairs. k is rounded up, because rounding down gives
    a level below 4 %, e.g. 3.9 % with 8 pairs.
    """
    ways: int = 2**pairs
    return min(math.ceil(ways / CASES_A_SIDE), ways // FEWEST_CASES_A_SIDE)


def _ends(apart: "np.ndarray", rank: int) -> Interval:
    """Return the `rank`-th smallest and the `rank`-th largest number: the ends of an interval.

    apart: the numbers. For `paired_interval` they are means of differences, for `unpaired_interval`
    differences of means.
    """
    import numpy as np

    ordered = np.partition(apart, (rank - 1, len(apart) - rank))
    return float(ordered[rank - 1]), float(ordered[len(apart) - rank])
