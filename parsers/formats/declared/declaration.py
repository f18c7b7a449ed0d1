"""Declare a format of one line for each report: its anchor, its fields, and what makes it whole.

A declaration is data. From it come the reader of a line and the check whether a line looks like a
report, so a program's module has no code. Numbers may have thousands commas, a suffix such as K or
M, or be a call of numpy's, as in `np.float64(0.1)`; a value such as `N/A` is none.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parsers.fields import COUNT, line_parts
from parsers.records import Step
from parsers.scan.reader import LogFormat

NUMBER = (
    r"(?:np\.float(?:32|64)\()?"
    r"(?P<{name}>[-+]?(?:[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,3}})?|nan|inf))\)?"
)
_SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
# Values that may be nan or inf: that is a fact of the log.
_ANY_NUMBER = frozenset({"loss", "grad_norm"})
_COUNTS = frozenset({"consumed_samples", "consumed_tokens", "global_batch_size"})

SECONDS, MILLISECONDS = 1.0, 1e-3
GIB, MIB_OF_GIB, BYTES_OF_GIB = 1.0, 1 / 1024, 1 / 2**30
PERCENT = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value of a report.

    name: of the field of `Step`; or `interval_seconds` and `steps_per_second`, of which the step
    time is made if a report times the steps since the last one together. before: what is in front
    of the value, a regular expression. after: what follows it on a whole line. scale: what makes
    the unit of the line that of the field. needed: a line without it is no report.
    """

    name: str
    before: str
    after: str = ""
    scale: float = 1.0
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A format of one line for each report.

    name: for people. anchors: byte strings of which each such line has one. head: a regular
    expression of how a report begins, with the group `iteration`, perhaps also `iterations`.
    fields: in any order. whole: what only a line that is not torn has; a regular expression.
    never: what only lines have that report something else, e.g. a validation. log_interval: 1 if
    each report is of one iteration. counted: the line has no number of the iteration, which is then
    the number of such lines so far.
    """

    name: str
    anchors: tuple[bytes, ...]
    head: str
    fields: tuple[Field, ...]
    whole: str
    never: str = r"(?!)"
    log_interval: int | None = None
    counted: bool = False


def line_format(declaration: Declaration) -> LogFormat:
    """Return the format that reads the lines of a declaration."""
    return LogFormat(
        name=declaration.name,
        anchors=declaration.anchors,
        parse=_LineReader(
            declaration,
            head=re.compile(declaration.head),
            whole=re.compile(declaration.whole),
            never=re.compile(declaration.never),
            patterns=tuple((one, _pattern(one)) for one in declaration.fields),
        ),
        report=re.compile(rf"{declaration.head}(?!.*(?:{declaration.never}))"),
        counted=declaration.counted,
    )


@dataclass(frozen=True, slots=True)
class _LineReader:
    """Reads the lines of a declaration; other processes can be sent it, unlike a closure."""

    declaration: Declaration
    head: re.Pattern[str]
    whole: re.Pattern[str]
    never: re.Pattern[str]
    patterns: tuple[tuple[Field, re.Pattern[str]], ...]

    def __call__(self, offset: int, line: str) -> Iterator[Step]:
        """Yield the steps that a line reports."""
        for part in line_parts(line):
            begun = self.head.search(part)
            if begun is None or self.never.search(part):
                continue
            values = self._values(part, begun.start())
            if values is None or not self.whole.search(part, begun.start()):
                continue
            groups = begun.groupdict()
            iterations = groups.get("iterations")
            yield Step(
                iteration=0 if self.declaration.counted else int(groups["iteration"]),
                iterations=int(iterations) if iterations else None,
                offset=offset,
                **values,
            )

    def _values(self, part: str, begin: int) -> dict[str, Any] | None:
        """Return the fields of a report; None if one that it needs is not there."""
        values: dict[str, Any] = {"log_interval": self.declaration.log_interval}
        for one, pattern in self.patterns:
            match = pattern.search(part, begin)
            value = None if match is None else _value(one, match)
            if value is not None:
                values.setdefault(one.name, value)
            elif one.needed:
                return None
        _spread_interval(values)
        return values


def _spread_interval(values: dict[str, Any]) -> None:
    """Make the time of an interval that of a step, by the steps per second of the same line."""
    seconds = values.pop("interval_seconds", None)
    rate = values.pop("steps_per_second", None)
    if seconds is not None:
        count = max(round(seconds * rate), 1) if rate else 1
        values |= {"step_seconds": seconds / count, "log_interval": count}


def _pattern(one: Field) -> re.Pattern[str]:
    number = NUMBER.format(name="value")
    return re.compile(rf"(?:{one.before}){number}(?P<suffix>[KMBT](?![\w/]))?(?:{one.after})")


def _value(one: Field, match: re.Match[str]) -> float | int | None:
    """Return the number of a match in the field's unit; None for nan and inf, unless it may be."""
    number = float(match["value"].replace(",", "")) * _SUFFIXES.get(match["suffix"] or "", 1.0)
    if not math.isfinite(number):
        return number if one.name in _ANY_NUMBER else None
    scaled = number * one.scale
    if one.name in _COUNTS:
        return int(scaled)
    # A division keeps the digits that a product with 0.001 loses.
    return number / round(1 / one.scale) if 0 < one.scale < 1 else scaled


ITERATION = rf"(?P<iteration>{COUNT})"
ITERATIONS = rf"(?P<iterations>{COUNT})"
