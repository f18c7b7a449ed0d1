"""Read printed numbers as intervals: all numbers that round to them, in exact fractions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from orchestrator.markdown.meaning.cells import LONGEST, NUMERAL
from orchestrator.markdown.meaning.columns import without_markup

_NUMBER = re.compile(rf"(?:{NUMERAL})(?:e[+-]?\d\d?(?!\w))?", re.IGNORECASE)
# Units differ by factors such as 1/1000, 60 or 10**9. Larger denominators are errors of floats.
_LARGEST_DENOMINATOR = 10**6
_SCALES = {
    *(Fraction(1000) ** power for power in range(-2, 5)),
    *(Fraction(60) ** power for power in range(-2, 3)),
}


@dataclass(frozen=True, slots=True)
class NumberRange:
    """All numbers from `low` to `high`.

    `low` and `high` must be above zero if ranges are multiplied or divided.
    """

    low: Fraction
    high: Fraction

    def __mul__(self, other: "NumberRange") -> "NumberRange":
        """Return the range of the product."""
        return NumberRange(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: "NumberRange") -> "NumberRange":
        """Return the range of the quotient."""
        return NumberRange(self.low / other.high, self.high / other.low)

    def meets(self, other: "NumberRange") -> bool:
        """Return whether both ranges have a number in common."""
        return self.low <= other.high and other.low <= self.high

    @property
    def middle(self) -> Fraction:
        """The number in the middle of the range."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed number.

    unit: the value of 1 in its last digit, e.g. 0.01 for `3.28`; 0 for a count, which is exact.
    """

    value: Fraction
    unit: Fraction = Fraction(0)

    def interval(self, units: Fraction = Fraction(1, 2)) -> NumberRange:
        """Return the range of numbers that round to this one.

        units: the largest rounding error, in units of the last digit.
        """
        if not self.unit:
            return NumberRange(self.value, self.value)
        # The range does not reach below zero: a quantity that is printed as 0.0 is not negative.
        low = max(self.value - units * self.unit, self.value / 1000)
        return NumberRange(low, self.value + units * self.unit)

    def rounded(self, other: Fraction) -> str:
        """Format another number with as many decimals as this one."""
        decimals = 0
        while self.unit and self.unit * 10**decimals < 1:
            decimals += 1
        return f"{float(other):.{decimals}f}"


def exact_count(value: int) -> Printed:
    """Return an integer as an exact number."""
    return Printed(Fraction(value))


def printed_number(text: str, value: float | None = None) -> Printed | None:
    """Return the number in a cell, and the value of its last place, e.g. 0.1 for `7.5`.

    Returns None if the cell contains no number, or only 0.

    value: the cell's full value with its unit, e.g. 7.5e9 for `7.5B`. If the cell has several
    numbers, the result is the one from which `value` was computed, e.g. the last number in
    `GPT-2 XL (1.5B)`.
    """
    if len(text) > LONGEST:
        return None
    numbers = [
        (Fraction(digits), _last_digit(digits))
        for each in _NUMBER.findall(without_markup(text))
        if Fraction(digits := each.replace(",", ""))
    ]
    if value is None or not numbers:
        return Printed(*numbers[0]) if numbers else None
    scaled = [(_scale(value, literal), literal, unit) for literal, unit in numbers]
    scale, literal, unit = next((each for each in scaled if each[0] in _SCALES), scaled[0])
    return Printed(literal * scale, unit * scale)


def _last_digit(digits: str) -> Fraction:
    """Return the value of 1 in the last digit, e.g. 0.01 for `3.28` and 1 for `3.28e+02`."""
    mantissa, _, exponent = digits.lower().partition("e")
    return Fraction(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _scale(value: float, literal: Fraction) -> Fraction:
    return Fraction(value / float(literal)).limit_denominator(_LARGEST_DENOMINATOR)


def most_common(intervals: Iterable[NumberRange]) -> tuple[int, NumberRange]:
    """Return the largest number of intervals that have a range in common, and that range.

    If several ranges are equally common, the lowest is returned. At least one interval is required.
    """
    # At equal numbers, False is first: an interval begins before another one ends.
    ends = sorted(end for each in intervals for end in ((each.low, False), (each.high, True)))
    best, best_at, open_now = 0, 0, 0
    for at, (_, is_high) in enumerate(ends):
        open_now += -1 if is_high else 1
        if open_now > best:
            best, best_at = open_now, at
    return best, NumberRange(ends[best_at][0], ends[best_at + 1][0])
