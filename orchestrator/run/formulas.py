"""Compute formulas from their text: a sum of products, e.g. `96·B·s·l·h² + 6·B·s·h·V`.

The user sees the same text, so teralog computes exactly the formula that it shows.
"""

import math
import re
from collections.abc import Mapping
from functools import cache

_SYMBOL = re.compile(r"(?P<symbol>[A-Za-z])(?P<square>²?)")


def value(formula: str, symbols: Mapping[str, int]) -> int:
    """Return the value of a formula; a letter may be squared.

    symbols: the number for each letter. Raises KeyError if `symbols` lacks a letter of the
    formula.
    """
    return sum(
        coefficient * math.prod(map(symbols.__getitem__, letters))
        for coefficient, letters in _terms(formula)
    )


def substitute_numbers(formula: str, symbols: Mapping[str, int]) -> str:
    """Replace the letters of a formula by numbers: `6·B·s·h²` becomes e.g. `6·4·64·512²`."""
    return _SYMBOL.sub(lambda match: f"{symbols[match['symbol']]}{match['square']}", formula)


def symbols_used(formula: str, symbols: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of `symbols` whose letters the formula contains, in the same order."""
    used = {letter for _, letters in _terms(formula) for letter in letters}
    return {letter: number for letter, number in symbols.items() if letter in used}


@cache
def _terms(formula: str) -> tuple[tuple[int, str], ...]:
    """Return each product of a formula as a pair: the number and the letters of the product.

    For example, `96·B·s·l·h²` becomes (96, "Bslhh").
    """
    return tuple(_term(product.split("·")) for product in formula.split(" + "))


def _term(factors: list[str]) -> tuple[int, str]:
    numbers = [int(factor) for factor in factors if factor.isdecimal()]
    letters = (factor for factor in factors if not factor.isdecimal())
    return math.prod(numbers), "".join(
        letter[0] * (2 if letter.endswith("²") else 1) for letter in letters
    )
