"""Write numbers into cells of a markdown table, in the cell's format and width."""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.markdown.document.tables import cell_text
from orchestrator.markdown.meaning.cells import NotUnderstoodError, as_number, is_blank

_NUMBER = re.compile(rb"(?<![\w.,+-])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![\w,])")
_DIGIT = re.compile(rb"[0-9]")


class Form(NamedTuple):
    """The format of a number.

    decimals: how many decimals. commas: whether commas separate thousands. scale: 100 for percent,
    otherwise 1. sign: the text after the number, "%" or nothing.
    """

    decimals: int
    commas: bool = False
    scale: float = 1.0
    sign: str = ""

    def number(self, value: float) -> str:
        """Format a value, without "%"."""
        return f"{value * self.scale:{',' if self.commas else ''}.{self.decimals}f}"

    def text(self, value: float) -> str:
        """Format a value, with "%" if `sign` is "%"."""
        return self.number(value) + self.sign


class NumberInCell(NamedTuple):
    """The only number of a cell.

    begin, end: its offsets in the bytes of the cell.
    """

    begin: int
    end: int
    text: str
    has_percent: bool

    def form(self, is_share: bool, in_percent: bool) -> Form:
        """Return the format of the number.

        is_share: whether the number is a fraction of one, e.g. an MFU. in_percent: whether the
        column's title contains percent. A fraction is written in percent if the title or the cell
        has `%`. Raises NotUnderstoodError if a fraction that is not in percent is above 1.
        """
        decimals = len(self.text.partition(".")[2])
        percent = is_share and (in_percent or self.has_percent)
        if is_share and not percent and as_number(self.text) > 1:
            raise NotUnderstoodError(
                f"{self.text} is above 1; if it is a percentage, write {self.text} %"
            )
        return Form(
            decimals=decimals,
            commas="," in self.text,
            scale=100 if percent else 1,
            sign="%" if percent and self.has_percent else "",
        )


def number_in(raw: bytes) -> NumberInCell | None:
    """Return the number of a cell such as `52.8`, `**1,024**` or `~22 %`; None for a blank cell.

    Raises NotUnderstoodError if the cell contains other text, or more than one number.
    """
    match = _NUMBER.search(raw)
    rest = raw[: match.start()] + raw[match.end() :] if match else raw
    if match and not _DIGIT.search(rest):
        begin, end = match.span()
        text = match[0].decode()
        return NumberInCell(begin, end, text, b"%" in rest)
    if is_blank(cell_text(raw)):
        return None
    raise NotUnderstoodError(f"{cell_text(raw)!r} is not a single number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnForm:
    """The format of a column's numbers.

    is_share: whether the numbers are fractions of one.
    in_percent: whether the column's title says percent.
    to_right: whether the column is right-aligned.
    decimals: how many decimals to write; None to write as many as each cell has.
    blank: the format for cells without a number.
    """

    is_share: bool
    in_percent: bool
    to_right: bool
    decimals: int | None
    blank: Form

    def written(self, raw: bytes, value: float) -> bytes:
        """Return a cell's bytes with `value` in place of the number, in the number's format.

        A blank cell is filled. Raises NotUnderstoodError if another cell does not contain exactly
        one number.
        """
        number = number_in(raw)
        form = number.form(self.is_share, self.in_percent) if number else self.blank
        if self.decimals is not None:
            form = form._replace(decimals=self.decimals)
        if number:
            new = form.number(value).encode()
            if new == raw[number.begin : number.end]:
                return raw
            return exchanged(raw, number.begin, number.end, new, to_right=self.to_right)
        return filled(raw, form.text(value).encode(), to_right=self.to_right)


def common_form(raws: Iterable[bytes], is_share: bool, in_percent: bool) -> Form | None:
    """Return the most frequent number format of some cells; None if no cell has a number."""
    forms: Counter[Form] = Counter()
    for raw in raws:
        # A text without a number has no format.
        with suppress(NotUnderstoodError):
            if number := number_in(raw):
                forms[number.form(is_share, in_percent)] += 1
    return forms.most_common(1)[0][0] if forms else None


def exchanged(raw: bytes, begin: int, end: int, new: bytes, *, to_right: bool) -> bytes:
    """Replace the bytes of a cell from `begin` to `end` by `new`; keep its width if possible.

    To keep the cell's width, blanks are added or removed on the side that has more blanks. If both
    sides have equally many, the left side is used if `to_right` (the column is right-aligned),
    otherwise the right side. If too few blanks can be removed there, blanks on the other side are
    removed, too. One blank is kept at each pipe that had one.
    """
    before, after = raw[:begin], raw[end:]
    grown = len(new) - len(raw[begin:end].decode("utf-8", "replace"))
    left = len(before) - len(before.lstrip(b" "))
    right = len(after) - len(after.rstrip(b" "))
    on_left = left > right or (left == right and to_right)
    if grown < 0 and (left or right):
        blanks = b" " * -grown
        return blanks + before + new + after if on_left else before + new + after + blanks
    for side in (on_left, not on_left):
        if grown > 0 and side:
            taken = min(grown, max(left - 1, 0))
            before, grown = before[taken:], grown - taken
        elif grown > 0:
            taken = min(grown, max(right - 1, 0))
            after, grown = after[: len(after) - taken], grown - taken
    return before + new + after


def filled(raw: bytes, new: bytes, *, to_right: bool) -> bytes:
    """Fill a blank cell with `new`; keep the cell's width if possible."""
    shown = raw.strip(b" ")
    if shown:
        begin = raw.index(shown)
        return exchanged(raw, begin, begin + len(shown), new, to_right=to_right)
    if not raw:
        return new
    text = b" " + new + b" "
    return text.rjust(len(raw)) if to_right else text.ljust(len(raw))
