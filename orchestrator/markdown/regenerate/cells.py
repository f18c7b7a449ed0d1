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
    """How a number is written: `scale` is 100 for per cent, `sign` what follows the number."""

    decimals: int
    commas: bool = False
    scale: float = 1.0
    sign: str = ""

    def number(self, value: float) -> str:
        """Return a value as it is written, without the sign."""
        return f"{value * self.scale:{',' if self.commas else ''}.{self.decimals}f}"

    def text(self, value: float) -> str:
        """Return a value as it is written."""
        return self.number(value) + self.sign


class NumberInCell(NamedTuple):
    """The one number of a cell, which stands from `begin` to `end` of its bytes."""

    begin: int
    end: int
    text: str
    has_percent: bool

    def form(self, is_share: bool, in_percent: bool) -> Form:
        """Return how the number is written.

        A share, which is a part of one, is in per cent if its cell or its column's title says so.
        Raises NotUnderstoodError if neither does and it is more than one.
        """
        decimals = len(self.text.partition(".")[2])
        percent = is_share and (in_percent or self.has_percent)
        if is_share and not percent and as_number(self.text) > 1:
            raise NotUnderstoodError(f"{self.text} is more than 1, and says no %")
        return Form(
            decimals=decimals,
            commas="," in self.text,
            scale=100 if percent else 1,
            sign="%" if percent and self.has_percent else "",
        )


def number_in(raw: bytes) -> NumberInCell | None:
    """Return the number of a cell, `52.8`, `**1,024**`, `~22 %`; None if the cell is blank.

    Raises NotUnderstoodError if it holds something else, or more than one number.
    """
    found = _NUMBER.search(raw)
    rest = raw[: found.start()] + raw[found.end() :] if found else raw
    if found and not _DIGIT.search(rest):
        begin, end = found.span()
        text = found[0].decode()
        return NumberInCell(begin, end, text, b"%" in rest)
    if is_blank(cell_text(raw)):
        return None
    raise NotUnderstoodError(f"{cell_text(raw)!r} is not one number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnForm:
    """How the numbers of a column are written, if their cells do not tell.

    decimals: goes before those that a cell has; blank: the form in a cell that has no number.
    """

    is_share: bool
    in_percent: bool
    to_right: bool
    decimals: int | None
    blank: Form

    def written(self, raw: bytes, value: float) -> bytes:
        """Return a cell's bytes with a value in the place of its number, in that number's form.

        Raises NotUnderstoodError if the cell holds something else than one number.
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
    """Return the form that most numbers in some cells have; None if there is no number."""
    forms: Counter[Form] = Counter()
    for raw in raws:
        # What is no number has no form.
        with suppress(NotUnderstoodError):
            if number := number_in(raw):
                forms[number.form(is_share, in_percent)] += 1
    return forms.most_common(1)[0][0] if forms else None


def exchanged(raw: bytes, begin: int, end: int, new: bytes, *, to_right: bool) -> bytes:
    """Return a cell with `new` for its bytes from `begin` to `end`, as wide as before if it fits.

    Blanks are added or taken on the side where the cell has more of them, and where it has as many
    on both, on the left side of a column that is aligned `to_right`. One blank stays at each pipe
    that had one.
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
    """Return a blank cell with `new` in it, as wide as before if it fits."""
    shown = raw.strip(b" ")
    if shown:
        begin = raw.index(shown)
        return exchanged(raw, begin, begin + len(shown), new, to_right=to_right)
    if not raw:
        return new
    text = b" " + new + b" "
    return text.rjust(len(raw)) if to_right else text.ljust(len(raw))
