"""Read many lines of a declared format at once, as columns.

Lines of one log differ only in their numbers. So teralog reads one line field by field, and makes a
pattern from it for the lines after it. The pattern contains the text of the line, with any numbers
in place of its numbers, and a regular expression for each field. Lines that do not match the
pattern are read one by one.
"""

import re
from array import array
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

_MOST_PATTERNS = 8
# A number as a whole, or digits within a word, with the spaces that align it.
_VARIABLE = re.compile(
    r"(?P<spaces> *)(?:(?P<number>(?<![\w.])[-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?(?!\w))|[0-9]+)"
)
_ANY_NUMBER = r"[-+]?[0-9][-+0-9.,eE]*"


@dataclass(frozen=True, slots=True)
class ReadField:
    """How one field was read in a line that serves as an example.

    pattern: the field's regular expression, with the value as its only group. begin: where the
    field begins in the line. end: where its value ends. convert: makes a column of numbers from the
    texts of the values, or raises ValueError.
    """

    name: str
    pattern: str
    begin: int
    end: int
    convert: Callable[[Sequence[str]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """A line that serves as an example, and how it was read.

    head: the regular expression for the start of a report, which matches at `head_begin`.
    whole: the regular expression for text that only a whole line contains; it matches at
    `whole_begin`.
    counts: the names of the groups in `head`, in order.
    fields: the fields that were read.
    """

    line: str
    head: str
    head_begin: int
    counts: tuple[str, ...]
    whole: str
    whole_begin: int
    fields: tuple[ReadField, ...]


class LinePattern:
    """A pattern for lines that differ from an example line only in their numbers."""

    def __init__(
        self,
        pattern: str,
        names: Sequence[str],
        converts: Sequence[Callable[[Sequence[str]], Sequence[Any]]],
    ) -> None:
        """Compile the regular expression `pattern`, which must match a whole line.

        names: the names of the groups in `pattern`, in order. converts: for each group, a function
        that makes a column of values from the group's texts, or raises ValueError.
        """
        self.names, self.converts = names, converts
        self.pattern = re.compile(pattern, re.MULTILINE)

    def columns(self, text: str, count: int) -> dict[str, Sequence[Any]] | None:
        """Read the lines of `text` up to the first line that does not match; return their columns.

        count: how many lines `text` has. Returns the values of these lines, by the names of the
        groups. Returns None if the first line does not match, or if a value cannot be converted.
        """
        if not self.pattern.match(text):
            return None
        rows = self.pattern.findall(text)
        if len(self.names) == 1:
            rows = [(row,) for row in rows]
        if len(rows) != count:
            lines = takewhile(self.pattern.fullmatch, text.split("\n"))
            rows = rows[: sum(1 for _ in lines)]
        texts = zip(*rows, strict=True)
        try:
            return {
                name: convert(column)
                for name, convert, column in zip(self.names, self.converts, texts, strict=True)
            }
        except ValueError:
            return None


def example_pattern(example: Example) -> LinePattern:
    """Return a pattern for lines that differ from an example line only in their numbers.

    Raises ValueError if fields of the example overlap.
    """
    parts = [
        (example.head_begin, 0, example.head_begin, rf"(?={example.head})"),
        (example.whole_begin, 1, example.whole_begin, rf"(?={example.whole})"),
        *((field.begin, 2, field.end, field.pattern) for field in example.fields),
    ]
    pieces: list[str] = []
    place = 0
    for begin, _, end, pattern in sorted(parts):
        if begin < place:
            raise ValueError("fields overlap")
        pieces += (_alike(example.line[place:begin]), pattern)
        place = end
    fields = sorted(example.fields, key=lambda field: field.begin)
    # Text after the last field is ignored: the first occurrence of each field counts.
    return LinePattern(
        "".join(["^", *pieces, r"[^\n]*$"]),
        [*example.counts, *(field.name for field in fields)],
        [*[_counts] * len(example.counts), *(field.convert for field in fields)],
    )


def _counts(texts: Sequence[str]) -> Sequence[int]:
    return array("q", map(int, texts))


def _alike(text: str) -> str:
    """Return a regular expression that matches `text`, even if its numbers are different."""
    pieces, place = [], 0
    for variable in _VARIABLE.finditer(text):
        pieces.append(re.escape(text[place : variable.start()]))
        pieces.append(" +" if variable["spaces"] else "")
        pieces.append(_ANY_NUMBER if variable["number"] else "[0-9]+")
        place = variable.end()
    return "".join([*pieces, re.escape(text[place:])])


class LinePatterns:
    """The patterns that were made from recently read lines. Several threads may use this object."""

    def __init__(self) -> None:
        """Begin without any patterns."""
        self._patterns: dict[str, LinePattern] = {}

    def columns(
        self,
        text: str,
        count: int,
        make: Callable[[str], LinePattern | None],
        other_field: Callable[[Container[str], str], int] = lambda names, text: len(text),
    ) -> dict[str, Sequence[Any]] | None:
        """Read the first lines of `text` with one pattern; return their columns.

        Returns None if no pattern reads the first line.
        count: how many lines `text` has.
        make: takes a line, and returns a pattern that matches it, or None.
        other_field: takes the names of the columns that a pattern reads, and `text`. Returns where
        the first field without a column begins, or the length of `text`. This field's line is not
        read.
        """
        for pattern in self._patterns.values():
            if columns := _columns(pattern, text, count, other_field):
                return columns
        line = text[: text.index("\n")]
        if (made := make(line)) is None:
            return None
        latest = [*self._patterns.items()][1 - _MOST_PATTERNS :]
        self._patterns = dict([*latest, (line, made)])
        return _columns(made, text, count, other_field)


def _columns(
    pattern: LinePattern,
    text: str,
    count: int,
    other_field: Callable[[Container[str], str], int],
) -> dict[str, Sequence[Any]] | None:
    """Read the first lines of `text` with a pattern; see `LinePatterns.columns`."""
    place = other_field(pattern.names, text)
    if place < len(text):
        text = text[: text.rfind("\n", 0, place) + 1]
        count = text.count("\n")
    return pattern.columns(text, count) if text else None
