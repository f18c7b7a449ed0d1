"""Read many lines of one declaration at once, as columns.

Lines of one log differ only in their numbers. So one line, read field by field, gives a pattern for
the lines after it: the same text with any numbers, each field with its own expression. Lines that
do not match it are left to the reader of single lines.
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

    pattern: the expression of the field, with the value as its only group. begin, end: where it
    begins in the line, and where its value ends. convert: makes a column of the values' texts, or
    raises ValueError.
    """

    name: str
    pattern: str
    begin: int
    end: int
    convert: Callable[[Sequence[str]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """A line, and the places of its parts: the head, the proof that it is whole, fields.

    counts: the names of the head's groups, in order.
    """

    line: str
    head: str
    head_begin: int
    counts: tuple[str, ...]
    whole: str
    whole_begin: int
    fields: tuple[ReadField, ...]


class LinePattern:
    """Reads lines that are like an example."""

    def __init__(
        self,
        pattern: str,
        names: Sequence[str],
        converts: Sequence[Callable[[Sequence[str]], Sequence[Any]]],
    ) -> None:
        """Prepare to read lines.

        pattern: an expression of a whole line, with a group for each of `names`. converts: make a
        column of the texts of each group, or raise ValueError.
        """
        self.names, self.converts = names, converts
        self._pattern = re.compile(pattern, re.MULTILINE)

    def columns(self, text: str, count: int) -> dict[str, Sequence[Any]] | None:
        """Return the values of the first lines, while they are alike; None if the first is not."""
        if not self._pattern.match(text):
            return None
        rows = self._pattern.findall(text)
        if len(self.names) == 1:
            rows = [(row,) for row in rows]
        if len(rows) != count:
            lines = takewhile(self._pattern.fullmatch, text.split("\n"))
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
    """Return a pattern for lines like an example. Raises ValueError if parts of it overlap."""
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
    """Return an expression for this text with any numbers."""
    pieces, place = [], 0
    for variable in _VARIABLE.finditer(text):
        pieces.append(re.escape(text[place : variable.start()]))
        pieces.append(" +" if variable["spaces"] else "")
        pieces.append(_ANY_NUMBER if variable["number"] else "[0-9]+")
        place = variable.end()
    return "".join([*pieces, re.escape(text[place:])])


class LinePatterns:
    """The patterns of recently read lines. Several threads may use them."""

    def __init__(self) -> None:
        """Begin without any patterns."""
        self._patterns: dict[str, LinePattern] = {}

    def columns(
        self,
        text: str,
        count: int,
        make: Callable[[str], LinePattern | None],
        is_all: Callable[[Container[str], str], bool] = lambda names, text: True,
    ) -> dict[str, Sequence[Any]] | None:
        """Return the columns of the first of the lines; None if nothing can be read at once.

        make: takes a line; returns a pattern that fits it. is_all: takes the names of columns and
        their lines; returns whether these have no other field.
        """
        for pattern in self._patterns.values():
            if (columns := pattern.columns(text, count)) and is_all(columns, text):
                return columns
        line = text[: text.index("\n")]
        if (made := make(line)) is None:
            return None
        latest = [*self._patterns.items()][1 - _MOST_PATTERNS :]
        self._patterns = dict([*latest, (line, made)])
        columns = made.columns(text, count)
        return columns if columns and is_all(columns, text) else None
