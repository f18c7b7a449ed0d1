"""Find the point where a series of numbers changed once, with a permutation test.

Subtract the mean of all n numbers from each number. Let C_k be the sum of the first k results. A
change after the first k numbers divides the series into two parts, with k and n - k numbers. The
mean of the second part minus the mean of the first part is -C_k · n/(k(n - k)). The variance of
this difference is the variance of one number times n/(k(n - k)). So chance makes the value
|C_k| · sqrt(n/(k(n - k))) equally large at every k. The change is placed at the k with the largest
value. For normally distributed numbers, this is the likelihood ratio test for a shift of the mean
(Worsley 1979).

The test compares the given order with other orders (Antoch and Hušková 2001). If nothing changed,
every order of the same numbers is equally likely, whatever their distribution and however few they
are. The p-value is the share of all orders whose largest value is at least as large as that of the
given order. In every order, the test searches for the k with the largest value. So the p-value
accounts for the search.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# The largest p-value of a significant change. The promise is 5 %, but the test is made at the level
# 4 %, as in `intervals`.
LEVEL = 0.04
# With fewer numbers, no change can be significant, whatever the numbers are.
FEWEST = 8
# With at most this many numbers, all their orders are tried (40,320 for 8 numbers). With more
# numbers, a sample of the orders is tried.
MAX_EXACT = 8
DRAWS = 9_999
SEED = 20261121
# Smaller differences can come from rounding.
_ROUNDING = 1e-9
# The largest number of cells in memory at once.
_MAX_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """The largest change in n numbers.

    index: the index of the first number after the change, from 0. difference: the mean after the
    change minus the mean before it. p_value: the probability that chance produces an equally clear
    or clearer change. exact: whether p_value was computed from all orders of the numbers; if not,
    it was computed from a sample of the orders.
    """

    n: int
    index: int
    difference: float
    p_value: float
    exact: bool

    @property
    def is_shown(self) -> bool:
        """Whether the change is significant: p_value is at most `LEVEL`."""
        return self.p_value <= LEVEL


def fewest_on_a_side(n: int) -> int | None:
    """Return how many of n numbers must at least be before, and after, a significant change.

    The n numbers have n! orders. The p-value is the share of those orders that show a change at
    least as clear as the given order. Suppose that m numbers are on one side of a change. Every
    order in which the same m numbers come first, or last, shows the same change. There are 2 · m!
    (n - m)! such orders, so the p-value is at least 2 · m! (n - m)! / n!. Returns None if this
    bound exceeds `LEVEL` for every m, i.e. if n is less than `FEWEST`.
    """
    possible = range(1, n // 2 + 1)
    return next((m for m in possible if 2 / math.comb(n, m) <= LEVEL), None)


def find_change(values: Sequence[float], *, draws: int = DRAWS) -> Change | None:
    """Return the largest change in a series of numbers; None for fewer than two numbers.

    values: the numbers in order of time. For more than `MAX_EXACT` numbers, the p-value comes from
    a sample of orders: the given order and `draws` random orders. Such a test errs no more often
    than a test with all orders (Phipson and Smyth 2010). The random orders have a fixed seed, so
    equal numbers give equal results.
    """
    import numpy as np

    n = len(values)
    if n < 2:
        return None
    numbers = np.asarray(values, dtype=float)
    sizes = _clearness(numbers[np.newaxis])[0]
    index = int(sizes.argmax()) + 1
    difference = float(numbers[index:].mean() - numbers[:index].mean())
    exact = n <= MAX_EXACT
    if sizes.max() <= _ROUNDING:
        return Change(n, index, difference, 1.0, exact)
    least = sizes.max() * (1 - _ROUNDING)
    orders = _all_orders(numbers) if exact else _drawn_orders(numbers, draws)
    as_clear = sum(int((_clearness(some).max(axis=1) >= least).sum()) for some in orders)
    p_value = as_clear / math.factorial(n) if exact else (1 + as_clear) / (1 + draws)
    return Change(n, index, difference, p_value, exact)


def _clearness(rows: "np.ndarray") -> "np.ndarray":
    """Return how clear a change after the first k numbers is, for each row and each k.

    The clearness is |C_k| · sqrt(n/(k(n - k))), as defined in the module's docstring. rows: in each
    row, the n numbers in another order. The result has a column for each k from 1 to n - 1.
    """
    import numpy as np

    n = rows.shape[1]
    k = np.arange(1, n)
    sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)[:, :-1]
    clear: np.ndarray = np.abs(sums) * np.sqrt(n / (k * (n - k)))
    return clear


def _all_orders(numbers: "np.ndarray") -> "Iterator[np.ndarray]":
    yield numbers[_orders(len(numbers))]


@cache
def _orders(n: int) -> "np.ndarray":
    import numpy as np

    return np.array(list(permutations(range(n))))


def _drawn_orders(numbers: "np.ndarray", draws: int) -> "Iterator[np.ndarray]":
    import numpy as np

    # Sorted, so that the random orders do not depend on the given order.
    numbers = np.sort(numbers)
    chance = np.random.default_rng(SEED)
    at_once = max(1, _MAX_CELLS // len(numbers))
    for begin in range(0, draws, at_once):
        rows = np.tile(numbers, (min(at_once, draws - begin), 1))
        yield chance.permuted(rows, axis=1)
