"""Declare a format with one line per report: its anchors, its fields, and how a whole line ends.

A declaration is data. teralog makes from it the reader of a line, and the check whether a line
looks like a report. So the module of a program contains no code. A number may have commas between
thousands, or end with a letter such as K or M. It may also be printed as a numpy call, e.g.
`np.float64(0.1)`. A value such as `N/A` is not a number.
"""

import math
import re
from array import array
from collections.abc import Container, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any

from parsers.fields import COUNT, NUMBER_ENDS, line_parts
from parsers.formats.declared.blocks import (
    Example,
    LinePattern,
    LinePatterns,
    ReadField,
    example_pattern,
)
from parsers.records import COUNT_FIELDS, NOT_FINITE_FIELDS, Step
from parsers.scan.reader import LogFormat
from parsers.steps.blocks import StepBlock

NUMBER = (
    r"(?:np\.float(?:32|64)\()?"
    r"(?P<{name}>[-+]?(?:[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,3}})?|nan|inf|NAN|INF))\)?"
)
# The whole number ends here, and has no suffix.
_NO_SUFFIX = rf"{NUMBER_ENDS}(?![KMBT](?![\w/]))"
_SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_NEVER = r"(?!)"

# A little more than half of the last digit. Numbers have four decimals; rates have three in logs of
# 2022. A number with fewer decimals ends with zeros, or is damaged.
_FOUR_DECIMALS, _THREE_DECIMALS = 0.6e-4, 0.6e-3

SECONDS, MILLISECONDS = 1.0, 1e-3
GIB, MIB_OF_GIB, BYTES_OF_GIB = 1.0, 1 / 1024, 1 / 2**30
PERCENT, THOUSANDTHS = 1e-2, 1e-3


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a report: where it is on a line, and which field of `Step` gets it.

    name: the field of `Step`. Two other names are possible: `interval_seconds` and
    `steps_per_second`. From them teralog computes the step time if a report gives only the time
    of several steps together.
    before: a regular expression for the text before the value.
    after: a regular expression for the text after the value on a line that is not torn.
    scale: the number by which the printed value is multiplied to get the field's unit.
    needed: True if every report contains this value; a line without it is then not a report.
    """

    name: str
    before: str
    after: str = ""
    _: KW_ONLY
    scale: float = 1.0
    needed: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Declaration:
    """A format with one line per report, and a callable that reads its lines.

    name: the name that users see.
    anchors: byte strings; each line of the format contains at least one.
    head: a regular expression for the start of a report. It has the group `iteration`, and may
    have the group `iterations`.
    fields: the values of a report; they may be in any order on a line.
    whole: a regular expression for text that every whole line contains, and no torn line.
    never: a regular expression for lines to ignore although `head` matches them, e.g. reports
    of a validation.
    log_interval: 1 if each report is about one iteration; None if unknown.
    counted: True if lines have no iteration number. Then teralog numbers the lines of a launch
    from 1. It ignores these lines if other lines of the launch have iteration numbers.
    """

    name: str
    anchors: tuple[bytes, ...]
    head: str
    fields: tuple[Field, ...]
    whole: str
    never: str = _NEVER
    log_interval: int | None = None
    counted: bool = False
    line_patterns: LinePatterns = field(init=False, default_factory=LinePatterns)

    @cached_property
    def _head(self) -> re.Pattern[str]:
        return re.compile(self.head)

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self.whole)

    @cached_property
    def _never(self) -> re.Pattern[str]:
        return re.compile(self.never)

    @cached_property
    def _patterns(self) -> list[tuple[Field, re.Pattern[str]]]:
        return [(declared_field, _pattern(declared_field)) for declared_field in self.fields]

    def read_lines(self, offsets: Sequence[int], text: str) -> StepBlock | None:
        """Return the steps of the first lines of `text`, as columns.

        The columns end before the first line that differs from the lines above in more than its
        numbers. offsets: for each line, the byte of the log at which it starts. Returns None if the
        lines must be read one by one.
        """
        text = text.replace("\r\n", "\n")
        if "\r" in text or "#" in text or "+ " in text or self._never.search(text):
            return None
        if self._may_have_two_reports(text, len(offsets)):
            return None
        columns = self.line_patterns.columns(
            text, len(offsets), self._pattern_for, self._other_field
        )
        if columns is None:
            return None
        count = len(next(iter(columns.values())))
        if self.counted:
            columns["iteration"] = range(1, count + 1)
        if "interval_seconds" in columns:
            _spread_intervals(columns)
        elif self.log_interval is not None:
            columns["log_interval"] = [self.log_interval] * count
        return StepBlock({**columns, "offset": array("q", offsets[:count])})

    def _may_have_two_reports(self, text: str, count: int) -> bool:
        """Return whether one of the lines in `text` contains an anchor twice.

        count: how many lines `text` has; each contains at least one anchor.
        """
        anchors = [anchor.decode() for anchor in self.anchors]
        return sum(map(text.count, anchors)) > count and any(
            line.count(anchor) > 1 for line in text.split("\n") for anchor in anchors
        )

    def _other_field(self, names: Container[str], text: str) -> int:
        """Return where in `text` the first declared field is that is not in `names`.

        If there is none, returns the length of `text`.
        """
        found = (
            pattern.search(text) for field, pattern in self._patterns if field.name not in names
        )
        return min((match.start() for match in found if match), default=len(text))

    def _pattern_for(self, line: str) -> LinePattern | None:
        """Return a pattern for lines that differ from this line only in their numbers.

        Returns None if the line is not one whole report.
        """
        try:
            example = self._example(line)
            return None if example is None else example_pattern(example)
        except ValueError:
            return None

    def _example(self, line: str) -> Example | None:
        """Return a line, with its fields, as the example from which a pattern is made.

        Returns None if the line is not one whole report.
        """
        heads = [*self._head.finditer(line)]
        begun = heads[0] if len(heads) == 1 else None
        whole = begun and self._whole.search(line, begun.start())
        if begun is None or whole is None or None in begun.groupdict().values():
            return None
        read: dict[str, ReadField] = {}
        for declared_field, pattern in self._patterns:
            match = pattern.search(line, begun.start())
            if match is None and declared_field.needed:
                return None
            if match is None or declared_field.name in read:
                continue
            suffix = match["suffix"] or ""
            end = match.end("suffix" if suffix else "value")
            value = NUMBER.format(name="value").replace("?P<value>", "")
            read[declared_field.name] = ReadField(
                name=declared_field.name,
                pattern=rf"(?:{declared_field.before}){value}{suffix or _NO_SUFFIX}"
                rf"(?={declared_field.after})",
                begin=match.start(),
                end=end + line.startswith(")", end),
                convert=partial(_column, declared_field, _SUFFIXES.get(suffix, 1.0)),
            )
        return Example(
            line=line,
            head=self.head,
            head_begin=begun.start(),
            counts=tuple(begun.groupdict()),
            whole=self.whole,
            whole_begin=whole.start(),
            fields=tuple(read.values()),
        )

    def __call__(self, offset: int, line: str) -> Iterator[Step]:
        """Yield the steps that a line reports."""
        for part in line_parts(line):
            heads = [*self._head.finditer(part)]
            if not heads or self._never.search(part):
                continue
            # The line break between two reports may be missing.
            ends = [*(head.start() for head in heads[1:]), len(part)]
            for head, end in zip(heads, ends, strict=True):
                values = self._values(part, head.start(), end)
                if values is None or not self._whole.search(part, head.start(), end):
                    continue
                groups = head.groupdict()
                iterations = groups.get("iterations")
                yield Step(
                    iteration=0 if self.counted else int(groups["iteration"]),
                    iterations=int(iterations) if iterations else None,
                    offset=offset,
                    **values,
                )

    def _values(self, part: str, begin: int, end: int) -> dict[str, Any] | None:
        """Return the fields of a report; None if a needed field is missing.

        part: the text that contains the report from `begin` to `end`.
        """
        values: dict[str, Any] = {"log_interval": self.log_interval}
        for declared_field, pattern in self._patterns:
            match = pattern.search(part, begin, end)
            value = None if match is None else _value(declared_field, match)
            if value is not None:
                values.setdefault(declared_field.name, value)
            elif declared_field.needed:
                return None
        _spread_interval(values)
        return values


def line_format(declaration: Declaration) -> LogFormat:
    """Return the format that reads the lines of a declaration."""
    return LogFormat(
        name=declaration.name,
        anchors=declaration.anchors,
        parse=declaration,
        parse_lines=declaration.read_lines,
        only=_only(declaration),
        report=re.compile(
            rf"(?:^|\r)(?![^\r\n]*(?:{declaration.never}))[^\r\n]*?(?:{declaration.head})"
        ),
        ordered=not declaration.counted,
        counted=declaration.counted,
    )


def _spread_interval(values: dict[str, Any]) -> None:
    """Replace the time of several steps in `values` by the mean time of one step, in place.

    values: the fields of one report. The number of steps is the product of the report's
    `interval_seconds` and `steps_per_second`, which were rounded when they were printed. If no
    integer, or more than one, can be the exact product, the time is left out. It is also left out
    if one of the two numbers is absent.
    """
    seconds = values.pop("interval_seconds", None)
    rate = values.pop("steps_per_second", None)
    if seconds is None or rate is None:
        return
    count = round(seconds * rate)
    decimals = len(f"{rate!r}".partition(".")[2])
    error = seconds * (_THREE_DECIMALS if decimals == 3 else _FOUR_DECIMALS) + rate * _FOUR_DECIMALS
    if count and error < 1 / 2 and abs(seconds * rate - count) <= error:
        values |= {"step_seconds": seconds / count, "log_interval": count}


def _pattern(field: Field) -> re.Pattern[str]:
    number = NUMBER.format(name="value")
    suffix = r"(?P<suffix>[KMBT](?![\w/]))?"
    # `$` is the end of any line, because `_other_field` searches many lines.
    return re.compile(rf"(?:{field.before}){number}{suffix}(?:{field.after})", re.MULTILINE)


def _value(field: Field, match: re.Match[str]) -> float | int | None:
    """Return the number that a match contains, converted to the unit of the field.

    Returns None for a count that is not an integer, and for a number too large for a float. A
    printed nan or inf is returned only if the field is a loss or a gradient norm; otherwise None.
    """
    number = float(match["value"].replace(",", "")) * _SUFFIXES.get(match["suffix"] or "", 1.0)
    if not math.isfinite(number):
        allowed = field.name in NOT_FINITE_FIELDS and not _is_too_large(number, match["value"])
        return number if allowed else None
    if field.name in COUNT_FIELDS and not number.is_integer():
        return None
    return _scaled(field, [number])[0]


def _is_too_large(number: float, text: str) -> bool:
    """Return whether a printed number is finite, but too large for a float.

    text: the printed number. number: the float that Python makes from it: infinite if it is too
    large.
    """
    return math.isinf(number) and not text.lower().endswith("inf")


def _scaled(field: Field, numbers: Sequence[float]) -> Sequence[float] | Sequence[int]:
    """Convert finite numbers from the printed unit to the unit of the field."""
    if field.name in COUNT_FIELDS:
        return [int(number * field.scale) for number in numbers]
    if 0 < field.scale < 1:
        # A division keeps the digits that a product with 0.001 loses.
        divisor = round(1 / field.scale)
        return [number / divisor for number in numbers]
    return numbers if field.scale == 1 else [number * field.scale for number in numbers]


def _column(field: Field, factor: float, texts: Sequence[str]) -> Sequence[float] | Sequence[int]:
    """Convert the printed values of one field to numbers in the field's unit.

    Raises ValueError if a count is not an integer, or if a number is too large for a float. Also
    raises ValueError for nan and inf, except in the fields of losses and gradient norms.
    """
    joined = " ".join(texts)
    if "," in joined:
        texts = joined.replace(",", "").split(" ")
    numbers = array("d", map(float, texts))
    if not math.isfinite(sum(numbers)) and (
        field.name not in NOT_FINITE_FIELDS or any(map(_is_too_large, numbers, texts))
    ):
        raise ValueError(field.name)
    if field.name in COUNT_FIELDS and not all(map(float.is_integer, numbers)):
        raise ValueError(field.name)
    return _scaled(field, numbers if factor == 1 else [number * factor for number in numbers])


def _spread_intervals(columns: dict[str, Sequence[Any]]) -> None:
    """Replace the times of several steps in `columns` by the mean times of one step, in place.

    columns: for each field, its values in several reports. Each report is converted as in
    `_spread_interval`.
    """
    names = [name for name in ("interval_seconds", "steps_per_second") if name in columns]
    texts = zip(*(columns.pop(name) for name in names), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in texts]
    for row in rows:
        _spread_interval(row)
    columns |= {name: [row.get(name) for row in rows] for name in ("step_seconds", "log_interval")}


def _only(declaration: Declaration) -> re.Pattern[bytes] | None:
    """Return a pattern that finds the lines which the declaration's `never` does not match.

    Returns None if the declaration has no `never`. The pattern also finds every line with a
    carriage return or with a terminal's escape code. teralog splits and cleans these lines
    later, and then checks `never` again.
    """
    if declaration.never == _NEVER:
        return None
    return re.compile(rf"^(?!.*(?:{declaration.never}))|[\r\x1b]".encode(), re.MULTILINE)


ITERATION = rf"(?P<iteration>{COUNT})"
ITERATIONS = rf"(?P<iterations>{COUNT})"
