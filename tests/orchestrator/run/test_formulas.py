"""Formulas as text: teralog computes a value from the same text that it shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.run.formulas import substitute_numbers, symbols_used, value

SYMBOLS = {"B": 4, "s": 64, "l": 2, "h": 8, "V": 100}


@pytest.mark.parametrize(
    ("formula", "number", "numbers"),
    [
        ("h", 8, "8"),
        ("2·h", 16, "2·8"),
        ("h²", 64, "8²"),
        ("4·2·B·s", 2048, "4·2·4·64"),
        ("12·l·h² + 13·l·h + V·h", 1536 + 208 + 800, "12·2·8² + 13·2·8 + 100·8"),
    ],
)
def test_a_formula_is_a_sum_of_products(formula: str, number: int, numbers: str):
    """A formula is a sum of products of numbers and letters; a letter may be squared."""
    assert value(formula, SYMBOLS) == number
    assert substitute_numbers(formula, SYMBOLS) == numbers


def test_an_unknown_letter_is_an_error():
    """A letter without a value raises KeyError."""
    with pytest.raises(KeyError, match="q"):
        value("2·q", SYMBOLS)


def test_the_letters_of_a_formula_are_reported():
    """`symbols_used` returns each letter of a formula once, with its value.

    The letters are in the order of SYMBOLS.
    """
    assert symbols_used("h·s + h²", SYMBOLS) == {"s": 64, "h": 8}


letters = st.sampled_from([*SYMBOLS, *(f"{letter}²" for letter in SYMBOLS)])
products = st.tuples(st.integers(1, 999), st.lists(letters, min_size=1, max_size=5)).map(
    lambda parts: "·".join((str(parts[0]), *parts[1]))
)


@given(st.lists(products, min_size=1, max_size=5).map(" + ".join))
def test_the_numbers_shown_give_the_value(formula: str):
    """A formula with numbers in place of its letters gives the formula's value."""
    typed = substitute_numbers(formula, SYMBOLS).replace("·", "*").replace("²", "**2")
    assert eval(typed) == value(formula, SYMBOLS)
