"""Read numbers in the cells of people's tables: sizes, counts, times and rates."""

import re
from typing import NamedTuple

from orchestrator.markdown.meaning.columns import without_markup
from orchestrator.markdown.meaning.units import (
    Quantity,
    Unit,
    length_unit,
    pace_unit,
    size_unit,
)

NUMERAL = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_BLANK = re.compile(
    r"[\s?.:\u2026\u2014\u2013\u2212-]*|n\.?/?a\.?|none|tbd|todo|nan|x", re.IGNORECASE
)
_FAILED = re.compile(
    r"\b(?:oom|out of memory|fail(?:s|ed|ure)?|crash(?:es|ed)?|error|timeout|timed out|killed"
    r"|cancel(?:l?ed)?|hangs?|hung|did not run|does not fit)\b",
    re.IGNORECASE,
)
# Text that may surround the only number of a cell: "about", a deviation, a remark in parentheses.
_ABOUT = r"\s*(?:~|≈|≃|ca\.?|about|approx\.?)?\s*"
_REMARK = r"(?:\s*(?:±|\+/-|\+-)\s*[\d.]+\s*[a-zµ]*)?(?:\s*\(.*\))?\s*"
_SIZE = re.compile(rf"{_ABOUT}(?P<number>{NUMERAL})\s*(?P<unit>[a-z ]*?){_REMARK}", re.IGNORECASE)
_SIZE_IN_NAME = re.compile(rf"(?<![\w.,])(?P<number>{NUMERAL})\s?(?P<unit>[bmt])\b", re.IGNORECASE)
_COUNT = re.compile(rf"(?P<number>{NUMERAL})(?P<times>(?:\s*[x\u00d7*]\s*\d+)*)(?P<rest>.*)")
# What is counted, e.g. `V100` or `(16 nodes)`. `2K` is 2000 or 2048, so it is not read as a count.
_THINGS = re.compile(
    r"(?!\s*[kmbKMB]i?\b)(?:\s*[x\u00d7]?\s*[A-Z][\w./-]*)*(?:\s+[a-z]+)?(?:\s*\(.*\))?\s*"
)
_LENGTH = re.compile(
    rf"(?P<number>{NUMERAL})\s*(?P<unit>ki?)?(?:[\s-]*tokens)?(?:\s*\(.*\))?\s*", re.IGNORECASE
)
_PACE = re.compile(
    rf"{_ABOUT}(?P<number>{NUMERAL})(?:e(?P<exponent>[+-]?\d\d?))?"
    rf"\s*(?P<unit>[a-zµμ][a-zµμ/ ]*?)?{_REMARK}",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?:{NUMERAL})\s*[a-z/]*\s*(?:-|\u2013|\u2014|\.\.+|\u2026|to)\s*(?:{NUMERAL})", re.IGNORECASE
)
# A bare size is in billions, unless it is a count of parameters.
_LEAST_COUNT = 1e6
_LARGEST = 1e18
# More than this is prose.
LONGEST = 100


class NotUnderstoodError(ValueError):
    """Raised if a cell does not contain the number that its column should have."""


class Pace(NamedTuple):
    """A time per iteration or a rate.

    per_gpu: whether it is the rate of one GPU.
    """

    quantity: Quantity
    value: float
    per_gpu: bool


def is_blank(text: str) -> bool:
    """Return whether a cell is empty, or contains only a sign that means "no value"."""
    return _BLANK.fullmatch(text) is not None


def tells_failure(text: str) -> bool:
    """Return whether a cell reports that the run had no result, e.g. `OOM` or `failed`."""
    return _FAILED.search(text) is not None


def as_number(text: str) -> float:
    """Return the value of a text that matches `NUMERAL`; commas separate thousands."""
    return float(text.replace(",", ""))


def read_parameters(text: str, unit: Unit | None = None) -> int:
    """Return the number of parameters in a cell such as `7.5B`, `350M` or `GPT-2 XL (1.5B)`.

    unit: the unit in the title, for cells without a unit. If both lack a unit, 52 means 52B, and a
    number of at least 10**6 is the number of parameters itself. Raises NotUnderstoodError if the
    cell contains no size.
    """
    plain = _plain(text)
    match = _SIZE.fullmatch(plain)
    if match is None or (match["unit"] and not size_unit(match["unit"])):
        named = list(_SIZE_IN_NAME.finditer(plain))
        if len(named) != 1:
            raise NotUnderstoodError(f"{text!r} is not a size such as 7.5B or 350M")
        match = named[0]
    number = as_number(match["number"])
    cell_unit = size_unit(match["unit"]) if match["unit"] else unit
    if cell_unit is None:
        parameters = number if number >= _LEAST_COUNT else number * 1e9
    else:
        parameters = number * cell_unit.scale
    if not 1 <= parameters < _LARGEST:
        raise NotUnderstoodError(f"{text!r} is not a size such as 7.5B or 350M")
    return round(parameters)


def read_count(text: str) -> int:
    """Return the integer in a cell: 1024 for `1,024`, 128 for `16x8`, 64 for `64 V100`.

    Raises NotUnderstoodError if the cell contains no integer above zero.
    """
    match = _COUNT.fullmatch(_plain(text))
    if match is None or not _THINGS.fullmatch(match["rest"]):
        raise NotUnderstoodError(f"{text!r} is not a whole number")
    number = as_number(match["number"])
    for factor in re.findall(r"\d+", match["times"]):
        number *= int(factor)
    if not 1 <= number < _LARGEST or number != int(number):
        raise NotUnderstoodError(f"{text!r} is not a whole number above zero")
    return int(number)


def read_length(text: str, unit: Unit | None = None) -> int:
    """Return the number of tokens in a cell such as `4096`, `4,096` or `8K`; K is 1024.

    unit: the unit in the title, for cells without a unit. Raises NotUnderstoodError if the cell
    contains no number of tokens.
    """
    match = _LENGTH.fullmatch(_plain(text))
    if match is None:
        return read_count(text)
    cell_unit = length_unit(match["unit"]) if match["unit"] else unit
    tokens = as_number(match["number"]) * (cell_unit.scale if cell_unit else 1)
    if not 1 <= tokens < _LARGEST or tokens != int(tokens):
        raise NotUnderstoodError(f"{text!r} is not a number of tokens")
    return int(tokens)


def read_pace(text: str, unit: Unit | None = None) -> Pace:
    """Return the time or rate in a cell such as `0.661s`, `~129 s/it`, `2.5ms` or `104 samples/s`.

    unit: the unit in the title, for cells without a unit. Raises NotUnderstoodError if the cell
    contains no time or rate above zero, or if its unit is not known.
    """
    plain = _plain(text)
    match = _PACE.fullmatch(plain)
    if match is None and _RANGE.search(plain):
        raise NotUnderstoodError(f"{text!r} is a range; one number is needed")
    if match is None:
        raise NotUnderstoodError(
            f"{text!r} is neither a time such as 0.66s nor a rate such as 104 samples/s"
        )
    cell_unit = pace_unit(match["unit"]) if match["unit"] else unit
    if cell_unit is None and match["unit"]:
        raise NotUnderstoodError(f"{text!r}: the unit {match['unit']!r} is not known")
    if cell_unit is None:
        raise NotUnderstoodError(
            f"{text!r} has no unit; write {plain}s, or (s) or (samples/s) in the title"
        )
    value = as_number(match["number"]) * cell_unit.scale
    if match["exponent"]:
        value *= 10.0 ** int(match["exponent"])
    if not 0 < value < float("inf"):
        raise NotUnderstoodError(f"{text!r} is not above zero")
    return Pace(cell_unit.quantity, value, cell_unit.per_gpu)


def _plain(text: str) -> str:
    if len(text) > LONGEST:
        raise NotUnderstoodError(f"{text[:20]!r}… is too long to be a number")
    return without_markup(text)
