"""Check cells that state a change from a number in another row.

E.g. `3849(-1754,↓31.3%)` states that 3849 is 1754, or 31.3 %, less than a number in another row.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkTable
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, plain
from orchestrator.markdown.meaning.cells import LONGEST, NUMERAL
from orchestrator.markdown.meaning.printed_numbers import NumberRange, Printed, printed_number

_VALUE = rf"(?P<value>{NUMERAL})(?P<unit>\s*[A-Za-zµ%][\w/%.]*)?"
_CELL = re.compile(rf"{_VALUE}\s*(?P<change>[(\[].*[)\]])")
_PLAIN = re.compile(rf"{_VALUE}\s*")
_UP, _DOWN = "+↑▲⬆", "-↓▼⬇\N{MINUS SIGN}\N{EN DASH}"
_SIGNS = rf"[{re.escape(_UP + _DOWN)}%\s]*"
_PART = re.compile(rf"{_SIGNS}(?:{NUMERAL}){_SIGNS}")
# The factor for a decrease of 100 %. It is above 0, because rounding may hide a small rest.
_LEAST_PART = Fraction(1, 10**12)
_PARTED = re.compile(r"[,;/]")
_MAY_TELL = re.compile("[(\\[\N{FULLWIDTH LEFT PARENTHESIS}]")
# Chinese and Japanese pages print these at full width.
_WIDE = str.maketrans(
    "\N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH RIGHT PARENTHESIS}\N{FULLWIDTH COMMA}", "(),"
)
# The cells of a column, each with its row.
_Cells = Sequence[tuple[BenchmarkRow, str]]


def relative_changes(tables: Sequence[BenchmarkTable]) -> Iterator[TableFinding]:
    """Find changes in cells, e.g. `3849(-1754)`, that do not follow from another row of the column.

    `3849(-1754)` follows from a row with 5603. A page does not state from which row a change is
    computed. So a change is accepted if it follows from any row, in any table with a column of
    the same title. If it follows from no row, the finding compares the cell with the nearest row
    above, or else with the nearest row below.
    """
    columns: dict[str, list[_Cells]] = {}
    for table in tables:
        rows = [row for row in table.rows if not row.has_extra_cells]
        for column, title in zip(table.columns.in_order, table.columns.titles, strict=True):
            columns.setdefault(title, []).append([(row, row.text(column)) for row in rows])
    for title, same_title in columns.items():
        yield from _changes_below(title, same_title)


def _changes_below(title: str, columns: Sequence[_Cells]) -> Iterator[TableFinding]:
    changes = [
        [(row, change) for row, text in cells if (change := read_change(text, title))]
        for cells in columns
    ]
    if not any(changes):
        return
    numbers = [_numbers_of(cells) for cells in columns]
    everywhere = in_order(number for column in numbers for _, number in column)
    for changed, column in zip(changes, numbers, strict=True):
        for row, change in changed:
            partner = nearest(column, row.line)
            if partner is None or follows_from_any(change, everywhere):
                continue
            line, number = partner
            wrong = misfits(change, number)
            stated = " and ".join(misfit.stated for misfit in wrong)
            follows = " and ".join(misfit.follows for misfit in wrong)
            fits = fitting(change)
            hint = f"; {stated} would be right if line {line} had {_shown(fits)}" if fits else ""
            yield finding(
                row,
                FindingKind.RELATIVE_CHANGE,
                f"{title} {change.text} is {stated}, but computed from {_shown(number)} (line "
                f"{line}) it is {follows}{hint}",
                last_digit_only=all(misfit.last_digit_only for misfit in wrong),
            )


def _numbers_of(cells: _Cells) -> list[tuple[int, Printed]]:
    """Return the line and the number of each cell with only a number, or a number and a change.

    Cells with the number 0 are left out, because a percentage of 0 cannot be computed.
    """
    numbers = ((row.line, plain_number(text)) for row, text in cells)
    return [(line, number) for line, number in numbers if number and number.value]


def _shown(number: Printed) -> str:
    return number.rounded(number.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedChange:
    """A number in a cell, and the change that the cell states, e.g. `3849(-1754,↓31.3%)`.

    The change is relative to a number in another row.

    value: the number, 3849 in the example.
    difference, percent: the size of the change, without sign; None if the cell lacks it.
    sign: 1 if the cell's number is higher than the number in the other row, -1 if it is lower.
    is_of_percents: whether the cell's number is itself a percentage. `percent` may then also mean
        percentage points.
    """

    text: str
    value: Printed
    sign: int
    difference: Printed | None
    percent: Printed | None
    is_of_percents: bool


def read_change(text: str, title: str = "") -> StatedChange | None:
    """Return the change that a cell states; None if it states no clear change.

    Each number of the change must have a sign or an arrow. If the change has a difference and a
    percentage, the two must have the same direction.

    title: the column's title. If it contains `%`, the cell's number is itself a percentage.
    """
    if len(text) > LONGEST or not _MAY_TELL.search(text):
        return None
    plain = _text(text)
    cell = _CELL.fullmatch(plain)
    if cell is None:
        return None
    parts: dict[bool, Printed] = {}
    signs = set()
    for part in _PARTED.split(cell["change"][1:-1]):
        number = printed_number(part)
        signs.add(any(mark in part for mark in _UP) - any(mark in part for mark in _DOWN))
        if number is None or not _PART.fullmatch(part) or ("%" in part) in parts:
            return None
        parts["%" in part] = number
    value = printed_number(cell["value"])
    if value is None or len(signs) != 1 or 0 in signs:
        return None
    return StatedChange(
        text=plain,
        value=value,
        sign=signs.pop(),
        difference=parts.get(False),
        percent=parts.get(True),
        is_of_percents="%" in title or "%" in (cell["unit"] or ""),
    )


def plain_number(text: str) -> Printed | None:
    """Return the number of a cell that contains only a number, or a number and a change.

    Returns None for any other cell, and for the number 0.
    """
    plain = _text(text)
    match = _PLAIN.fullmatch(plain) or _CELL.fullmatch(plain)
    return printed_number(match["value"]) if match else None


def _text(text: str) -> str:
    return plain(text).translate(_WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A wrong difference or percentage in a cell, and the right one, computed from the numbers.

    stated: the difference or percentage in the cell. follows: the computed one. last_digit_only:
    whether the rounding of the numbers, or a difference of one in the last digit of `stated`, would
    explain the contradiction.
    """

    stated: str
    follows: str
    last_digit_only: bool


def misfits(change: StatedChange, other: Printed) -> list[Misfit]:
    """Compare a stated change with the change from the number `other` to the cell's number.

    Returns one contradiction if the stated difference is wrong, and one if the stated
    percentage is wrong. Integers are taken as exact, because readers compute with the printed
    integers. Decimals are taken as rounded. The cell's number and `other` must not be 0.
    """
    value = change.value
    parts = [(change.difference, "", _difference)] if change.difference else []
    if change.percent:
        parts.append((change.percent, "%", _percent))
    contradictions = []
    for number, suffix, worked_out in parts:
        ways = [worked_out, _difference] if suffix and change.is_of_percents else [worked_out]
        if any(_follows(number, change.sign, way(value, other)) for way in ways):
            continue
        follows = worked_out(_as_it_stands(value), _as_it_stands(other)).low
        contradictions.append(
            Misfit(
                stated=f"{_arrow(change.sign)}{number.rounded(number.value)}{suffix}",
                follows=f"{_arrow(follows)}{number.rounded(abs(follows))}{suffix}",
                last_digit_only=_follows(
                    number, change.sign, worked_out(value, other), units=Fraction(3, 2)
                )
                or _follows(number, change.sign, worked_out(value, other, rounded=True)),
            )
        )
    return contradictions


def in_order(numbers: Iterable[Printed]) -> list[Printed]:
    """Return the numbers in ascending order, each once."""
    return sorted(set(numbers), key=_value)


def follows_from_any(change: StatedChange, numbers: Sequence[Printed]) -> bool:
    """Return whether a change in a cell follows from at least one of `numbers`.

    numbers: the numbers from which the change may have been computed, sorted by `in_order`. To
    save time, only numbers near the one that the change implies are compared. For example,
    `3849(-1754)` implies a number near 5603.
    """
    for origin in _origins(change):
        begin = bisect_left(numbers, origin.low, key=_value)
        end = bisect_right(numbers, origin.high, key=_value)
        if any(not misfits(change, number) for number in numbers[begin:end]):
            return True
    return False


def _origins(change: StatedChange) -> Iterator[NumberRange]:
    """Yield ranges that contain every number from which a change may have been computed.

    For example, for `3849(-1754,↓31.3%)` the range is around 3849 + 1754 = 5603. Each range is
    slightly wider than necessary, so that rounding excludes no number.
    """
    value, amount = change.value, change.difference or change.percent
    if amount is None:
        return
    slack = (value.unit + amount.unit + 1) / 2
    if change.difference or change.is_of_percents:
        other = value.value - change.sign * amount.value
        yield NumberRange(other - slack, other + slack)
    if not change.difference:
        part, half = 1 + change.sign * amount.value / 100, amount.unit / 200
        least, most = max(part - half, _LEAST_PART), max(part + half, _LEAST_PART)
        yield NumberRange(
            (value.value - slack) / most - slack, (value.value + slack) / least + slack
        )


def fitting(change: StatedChange) -> Printed | None:
    """Compute the number from which a change was computed: the cell's number minus the difference.

    The result is 5603 for `3849(-1754,↓31.3%)`. Returns None in three cases:

    - the cell lacks the difference or the percentage;
    - the percentage does not follow from the computed number;
    - the computed number is not above 0.
    """
    if change.difference is None or change.percent is None:
        return None
    other = Printed(change.value.value - change.sign * change.difference.value, change.value.unit)
    return other if other.value > 0 and not misfits(change, other) else None


def nearest(candidates: Sequence[tuple[int, Printed]], line: int) -> tuple[int, Printed] | None:
    """Return the candidate on the nearest line above `line`, or else on the nearest line below it.

    candidates: pairs of a line number and the number printed on that line, sorted by line.
    Returns None if no candidate is on another line than `line`.
    """
    at = bisect_left(candidates, line, key=lambda each: each[0])
    others = [*candidates[max(at - 1, 0) : at], *candidates[at : at + 2]]
    return next((each for each in others if each[0] != line), None)


def _value(number: Printed) -> Fraction:
    return number.value


def _arrow(sign: Fraction | int) -> str:
    return "↑" if sign > 0 else "↓"


def _as_it_stands(number: Printed) -> Printed:
    return Printed(number.value)


def _bounds(number: Printed, *, rounded: bool) -> NumberRange:
    return (number if rounded or number.unit < 1 else _as_it_stands(number)).interval()


def _difference(value: Printed, other: Printed, *, rounded: bool = False) -> NumberRange:
    new, old = _bounds(value, rounded=rounded), _bounds(other, rounded=rounded)
    return NumberRange(new.low - old.high, new.high - old.low)


def _percent(value: Printed, other: Printed, *, rounded: bool = False) -> NumberRange:
    ratio = _bounds(value, rounded=rounded) / _bounds(other, rounded=rounded)
    return NumberRange(ratio.low * 100 - 100, ratio.high * 100 - 100)


def _follows(
    amount: Printed, sign: int, worked_out: NumberRange, *, units: Fraction = Fraction(1, 2)
) -> bool:
    low, high = amount.value - units * amount.unit, amount.value + units * amount.unit
    signed = NumberRange(low, high) if sign > 0 else NumberRange(-high, -low)
    return signed.meets(worked_out)
