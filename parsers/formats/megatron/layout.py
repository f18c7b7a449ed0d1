"""Parse Megatron's lines with one pattern, because lines of one log have one layout.

A pattern that contains the fields in their order reads a line in a tenth of the time that reading
it field by field takes. Such a pattern is made if two lines in a row have the same fields. It reads
lines that differ from these two only in numbers; the caller reads all other lines field by field.
Many lines in a row are read at once, column by column.
"""

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from parsers.formats.megatron.fields import Fields, column

_MOST_LAYOUTS = 4

# Whether it is a number is left to those who read it.
_VALUE = r" *([^ |#\r\n/:=]+) *"
# The value of a field that means nothing here: nothing in which a name could begin, or a comment.
_ANY = r"[^|#\r\n/:=]*"
# Reports with these fields are corrected by `closed_fields` and `step_values`.
_WITH_CARE = (" s samples/sec:", "samples per second:")
_NO_FIELD = r"[^|#\r\n]*"
# A line may end with two bytes if many lines are read at once; \r alone does not end a line.
_END = r"(?:\r(?=\n))?$"


Convert = Callable[[str], Any]
Field = tuple[str, Convert]


class Layout:
    """The order of the fields in a report. A field is identified by its head, e.g. ` lm loss:`."""

    def __init__(
        self,
        header: re.Pattern[str],
        in_front: Sequence[Field],
        heads: Sequence[str],
        fields: Fields,
    ) -> None:
        """Prepare to read lines that contain one report.

        in_front: one pair for the text before the header, and one pair per group of the header. A
        pair is the field of Step, and the function that converts the text to its value. heads: for
        each field after the header, the text before its value, e.g. ` lm loss:`. fields: one pair
        of the same kind per known field, by the field's printed name.
        """
        read = [*in_front]
        pieces = [f"({_NO_FIELD}?)", header.pattern]
        for head in heads:
            field, value = fields.get(head[:-1].strip()), _ANY
            # If several names mean the same, the first one counts.
            if field and field[0] not in [name for name, _ in read]:
                read.append(field)
                value = _VALUE
            pieces.append(rf"{re.escape(head)}{value}\|")
        pattern = re.compile("".join(["^", *pieces, _NO_FIELD, _END]), re.MULTILINE)
        self._match, self._rows, self.begins = pattern.fullmatch, pattern.findall, pattern.match
        self._names, self._converts = zip(*read, strict=True)

    def read(self, line: str) -> dict[str, Any] | None:
        """Return the values of a line.

        Returns None if the line has another layout, or if a value cannot be converted.
        """
        if not (match := self._match(line)):
            return None
        try:
            # As many as the pattern has groups.
            triples = zip(self._names, self._converts, match.groups(), strict=True)
            return {name: convert(text) for name, convert, text in triples}
        except ValueError:
            return None

    def read_lines(self, text: str, count: int) -> dict[str, Sequence[Any]] | None:
        """Return the columns of the first lines of a text, up to a line with another layout.

        Returns None if the first line has another layout, or if a value cannot be converted. count:
        how many lines the text has.
        """
        rows = self._rows(text)
        if len(rows) != count:
            rows = rows[: sum(1 for _ in takewhile(self._match, text.split("\n")))]
        if not rows:
            return None
        try:
            triples = zip(self._names, self._converts, zip(*rows, strict=True), strict=True)
            return {name: column(convert, texts) for name, convert, texts in triples}
        except ValueError:
            return None


class KnownLayouts:
    """The layouts of recently read lines. Several threads may use it."""

    def __init__(self, header: re.Pattern[str], in_front: Sequence[Field], fields: Fields) -> None:
        """Begin without any layout; the arguments are those of `Layout`."""
        self._header, self._in_front, self._fields = header, in_front, fields
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._before: tuple[str, ...] = ()

    def read(self, line: str) -> dict[str, Any] | None:
        """Return the values of a line; None if no known layout fits it."""
        for layout in self._layouts.values():
            if (values := layout.read(line)) is not None:
                return values
        return None

    def read_lines(self, text: str, count: int) -> dict[str, Sequence[Any]] | None:
        """Return the columns of the first lines of a text.

        Returns None if no known layout fits the first line, or if a value cannot be converted.
        count: how many lines the text has.
        """
        layout = next(
            (candidate for candidate in self._layouts.values() if candidate.begins(text)), None
        )
        return layout.read_lines(text, count) if layout else None

    def learn(self, report: str) -> None:
        """Add the layout of a report if the previous report had the same fields.

        report: the text after the header of the report.
        """
        heads = _heads(report)
        if heads and heads == self._before and heads not in self._layouts:
            layout = Layout(self._header, self._in_front, heads, self._fields)
            latest = [*self._layouts.items()][1 - _MOST_LAYOUTS :]
            self._layouts = dict([*latest, (heads, layout)])
        self._before = heads


def _heads(report: str) -> tuple[str, ...]:
    """Return the text before the value, e.g. ` lm loss:`, of each field that ends with a bar (`|`).

    Returns an empty tuple if a field has no value, or if `closed_fields` or `step_values` may have
    to correct the report.
    """
    heads = []
    for piece in report.split("|")[:-1]:
        separator = ":" if ":" in piece else "="
        name, delimiter, _ = piece.partition(separator)
        if not delimiter:
            return ()
        heads.append(name + delimiter)
    return () if any(word in report for word in _WITH_CARE) else tuple(heads)
