"""Parse many of Megatron's report lines quickly, because the lines of one log have the same fields.

Reading a line field by field is slow. A pattern with all fields in their order takes a tenth of the
time. teralog makes such a pattern if two lines in a row have the same fields. The pattern reads
lines that differ from these two only in numbers; the caller reads all other lines field by field.
Many lines in a row are read at once, column by column.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from parsers.formats.declared.blocks import LinePattern
from parsers.formats.megatron.fields import Fields, column

_MOST_LAYOUTS = 4

# The functions that convert the value check whether it is a number.
_VALUE = r" *([^ |#\r\n/:=]+) *"
# The value of an unknown field, without characters with which a name or a comment could begin.
_ANY = r"[^|#\r\n/:=]*"
# Reports with these fields are corrected by `closed_fields` and `step_values`.
_WITH_CARE = (" s samples/sec:", "samples per second:")
_NO_FIELD = r"[^|#\r\n]*"
# A line may end with two bytes if many lines are read at once; \r alone does not end a line.
_END = r"(?:\r(?=\n))?$"

Field = tuple[str, Callable[[str], Any]]


class Layout(LinePattern):
    """The fields of a report line in their order, and the pattern that reads such lines."""

    def __init__(
        self,
        header: re.Pattern[str],
        in_front: Sequence[Field],
        heads: Sequence[str],
        fields: Fields,
    ) -> None:
        """Make the pattern that reads lines with one report each.

        header: the pattern of the start of a report.
        in_front: a pair for the text before the header, and a pair for each group of the
        header.
        heads: for each field after the header, the text before its value, e.g. ` lm loss:`.
        fields: for each known field, by its printed name, a pair.

        Each pair has two items: the name of a field of `Step`, and the function that
        converts the printed text to the value of this field, e.g. `("iteration", int)`.
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
        names, self._of_one = zip(*read, strict=True)
        columns = [partial(column, convert) for convert in self._of_one]
        super().__init__("".join(["^", *pieces, _NO_FIELD, _END]), names, columns)

    def read(self, line: str) -> dict[str, Any] | None:
        """Return the values of a line, by the names of Step's fields.

        Returns None if the line has another layout, or if a value cannot be converted.
        """
        if not (match := self.pattern.fullmatch(line)):
            return None
        try:
            # As many as the pattern has groups.
            triples = zip(self.names, self._of_one, match.groups(), strict=True)
            return {name: convert(text) for name, convert, text in triples}
        except ValueError:
            return None


class KnownLayouts:
    """The layouts of recently read lines. Several threads may use this object."""

    def __init__(self, header: re.Pattern[str], in_front: Sequence[Field], fields: Fields) -> None:
        """Begin without any layout; the arguments have the same meaning as those of `Layout`."""
        self._header, self._in_front, self._fields = header, in_front, fields
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._before: tuple[str, ...] = ()

    def read(self, line: str) -> dict[str, Any] | None:
        """Return a line's values, by the names of Step's fields; None if no known layout fits."""
        layouts = self._layouts.values()
        return next(filter(None, (layout.read(line) for layout in layouts)), None)

    def read_lines(self, text: str, count: int) -> dict[str, Sequence[Any]] | None:
        """Read the first lines of `text` with one known layout; return their columns.

        count: how many lines `text` has. Returns None if no known layout fits the first line, or if
        a value cannot be converted.
        """
        layouts = self._layouts.values()
        return next(filter(None, (layout.columns(text, count) for layout in layouts)), None)

    def learn(self, report: str) -> None:
        """Remember the layout of a report if the previous report had the same fields.

        report: the text after the header of the report.
        """
        heads = _heads(report)
        if heads and heads == self._before and heads not in self._layouts:
            layout = Layout(self._header, self._in_front, heads, self._fields)
            latest = [*self._layouts.items()][1 - _MOST_LAYOUTS :]
            self._layouts = dict([*latest, (heads, layout)])
        self._before = heads


def _heads(report: str) -> tuple[str, ...]:
    """Return for each field that ends with a bar (`|`) the text before its value, e.g. ` lm loss:`.

    Returns an empty tuple if the report must be read field by field. This is so if a field has no
    value, or if `closed_fields` or `step_values` may have to correct the report.
    """
    heads = []
    for piece in report.split("|")[:-1]:
        separator = ":" if ":" in piece else "="
        name, delimiter, _ = piece.partition(separator)
        if not delimiter:
            return ()
        heads.append(name + delimiter)
    return () if any(word in report for word in _WITH_CARE) else tuple(heads)
