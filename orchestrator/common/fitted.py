"""Fit a table into the width of a terminal, without cutting a number.

Columns without a value are left out. A column with the same value in all rows is moved to a
line above the table. If the other columns are too wide, titles wrap, and texts wrap or are cut
to one line. Of each id, only the first digits are shown. If that is not enough, columns are
left out, and a line below the table names them. Columns marked as minor (`Table.minor`) are
left out first, from right to left, and then the others, also from right to left. Two columns
always stay: the first, and the last that is not minor. If a table with a single row is too
wide, each column gets a line.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.common.tables import DASH, Table, numeric_columns, shown_rows

_GAP = "  "
_LEAST_TEXT = 14
_LEAST_ID = 4
# The first columns identify a row.
_IDENTITY = ("run_id", "label")
_UNIT = re.compile(r"(?P<name>.*) \((?P<unit>[^()]+)\)")
_QUOTED = re.compile(r"`[^`]*`")
_ANY_SPACE = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table as lines of text.

    above, below: the lines above and below the table. titles: the lines of the titles, and the line
    of hyphens under them. rows: the lines of each row.
    """

    above: tuple[str, ...]
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    below: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return all lines of the table."""
        rows = [line for row in self.rows for line in row]
        return [*self.above, *self.titles, *rows, *self.below]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column of a table as text, with the widths that it can have.

    number: whether the column contains numbers. minor: whether it is left out first if the terminal
    is too narrow. cut: whether long texts are cut to one line; otherwise they wrap.
    """

    title: str
    name: str
    cells: tuple[str, ...]
    number: bool
    minor: bool
    cut: bool

    @property
    def natural(self) -> int:
        """The smallest width at which each cell, and each word of the title, stays on one line."""
        return max(map(len, (*self.cells, *_title_words(self.title))))

    @property
    def roomy(self) -> int:
        """The smallest width at which each cell, and the title, stays on one line.

        If the title ends with a unit in parentheses, the unit is on a second line.
        """
        return max(map(len, (*self.cells, *self.title.replace(" (", "\n(").split("\n"))))

    @property
    def least(self) -> int:
        """The smallest width at which the column is readable.

        For a column of numbers, the result is the width `natural`. For a column of texts, it is the
        smaller of `natural` and `_LEAST_TEXT`.
        """
        return self.natural if self.number else min(self.natural, _LEAST_TEXT)


def fitted_text(table: Table, width: int | None, *, wide_option: bool = True) -> str:
    """Return a table as text in at most `width` characters per line; with None, the whole table.

    wide_option: whether the command has the option `--wide`. If so, the line about the columns
    that are not shown suggests this option.
    """
    from orchestrator.common.tables import as_text

    if width is None:
        return as_text(table)
    return "\n".join(fitted(table, width, wide_option=wide_option).lines())


def fitted(table: Table, width: int, *, wide_option: bool = True) -> FittedTable:
    """Fit a table into lines of at most `width` characters, by the rules in the module's docstring.

    wide_option: whether the command has the option `--wide`. If so, the line about the columns
    that are not shown suggests this option.
    """
    columns = _columns(table)
    # Rows that are all the same still count as several rows.
    first = columns[0] if all(map(_is_same, columns)) else None
    same = [column for column in columns if _is_same(column) and column is not first]
    above = _same_line(same, width)
    left = [column for column in columns if column not in same]
    if len(table.rows) == 1 and _total(column.natural for column in left) > width:
        return FittedTable((), (), (tuple(_lines_of_one(columns, width)),), ())
    hidden: list[_Shown] = []
    if _total(column.natural for column in left) > width:
        left = [_with_short_ids(column) for column in left]
    while _total(column.least for column in left) > width and len(left) > 2:
        hidden.append(left.pop(_least_wanted(left)))
    below = []
    if hidden:
        names = ", ".join(
            column.title for column in columns if column.name in {two.name for two in hidden}
        )
        remedy = "; `--wide` shows all columns" if wide_option else ""
        below = wrapped(f"not shown: {names}{remedy}", width)
    titles, rows = _drawn(left, _widths(left, width), len(table.rows))
    return FittedTable(tuple(above), titles, rows, tuple(below))


def wrapped(sentence: str, width: int | None) -> list[str]:
    """Return the lines of a sentence; text in backquotes stays on one line."""
    if width is None or len(sentence) <= width:
        return [sentence]
    whole = _QUOTED.sub(lambda match: match[0].replace(" ", _ANY_SPACE), sentence)
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_ANY_SPACE, " ") for line in lines]


def _columns(table: Table) -> list[_Shown]:
    """Return the columns that have a value in some row; all columns if no row has a value."""
    rows, numbers = shown_rows(table), numeric_columns(table)
    minor = table.minor or (False,) * len(table.titles)
    every = [
        _Shown(
            title, name, tuple(row[at] for row in rows), numbers[at], minor[at], name in table.cut
        )
        for at, (title, name) in enumerate(zip(table.titles, table.names, strict=True))
    ]
    return [column for column in every if any(cell != DASH for cell in column.cells)] or every


def _is_same(column: _Shown) -> bool:
    return len(column.cells) > 1 and len(set(column.cells)) == 1 and column.name not in _IDENTITY


def _same_line(columns: Sequence[_Shown], width: int) -> list[str]:
    """Return the lines above a table: the values that all rows share, then an empty line.

    For example, `in all rows: nodes 1, memory 4 GiB`. columns: the columns with one value for
    all rows; if there are none, the result is empty.
    """
    if not columns:
        return []
    return [*wrapped(f"in all rows: {', '.join(map(_with_unit, columns))}", width), ""]


def _with_unit(column: _Shown) -> str:
    match = _UNIT.fullmatch(column.title)
    if match is None:
        return f"{column.title} {column.cells[0]}"
    return f"{match['name']} {column.cells[0]} {match['unit']}"


def _lines_of_one(columns: Sequence[_Shown], width: int) -> list[str]:
    """Return a line for each column of a table that has only one row."""
    most = max(len(column.title) for column in columns)
    indent = " " * (most + len(_GAP))
    return [
        line
        for column in columns
        for line in textwrap.wrap(
            f"{column.title.ljust(most)}{_GAP}{column.cells[0]}", width, subsequent_indent=indent
        )
    ]


def _with_short_ids(column: _Shown) -> _Shown:
    """Shorten the ids in a column of run ids to their first digits, which must stay unique.

    Commands accept the first digits of an id in place of the id. A column without ids is returned
    unchanged.
    """
    if column.name != "run_id":
        return column
    longest = max(map(len, column.cells), default=0)
    size = next(
        (
            size
            for size in range(_LEAST_ID, longest)
            if len({cell[:size] for cell in column.cells}) == len(column.cells)
        ),
        longest,
    )
    return replace(column, cells=tuple(cell[:size] for cell in column.cells))


def _least_wanted(columns: Sequence[_Shown]) -> int:
    """Return the index of the column to leave out next.

    If there are minor columns, the result is the last of them; otherwise, the last column but one.
    Two columns are never left out: the first column, and the last column that is not minor.
    """
    last = max((at for at, column in enumerate(columns) if not column.minor), default=0)
    return max(range(1, len(columns)), key=lambda at: (columns[at].minor, at != last, at))


def _total(widths: Iterable[int]) -> int:
    all_widths = tuple(widths)
    return sum(all_widths) + len(_GAP) * (len(all_widths) - 1)


def _widths(columns: Sequence[_Shown], width: int) -> list[int]:
    """Return the width of each column, so that the table fits into `width` if possible.

    Columns become narrower one character at a time, always the widest column first.
    """
    widths = [column.roomy for column in columns]
    if _total(widths) <= width:
        return widths
    widths = [column.natural for column in columns]
    while _total(widths) > width:
        able = [at for at, column in enumerate(columns) if widths[at] > column.least]
        if not able:
            break
        widest = max(able, key=lambda at: widths[at])
        widths[widest] -= 1
    return widths


def _title_words(title: str) -> list[str]:
    """Return the parts of a title that stay on one line: words, and a unit in parentheses.

    A line may also break after a hyphen. It may break after a slash only if a word of at least
    three characters follows: in TFLOPs/GPU, but not in tokens/s.
    """
    return re.sub(r"-(?=\w)|/(?=\w{3})", r"\g<0> ", title).split()


def _drawn(
    columns: Sequence[_Shown], widths: Sequence[int], count: int
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the lines of the titles, with hyphens as the last line, and the lines of each row.

    columns: the columns to show. widths: their widths. count: the number of rows.
    """
    pairs = list(zip(columns, widths, strict=True))
    titles = _beside(
        [(_wrapped_title(column.title, wide), wide, column.number) for column, wide in pairs]
    )
    rule = _GAP.join("-" * wide for wide in widths)
    rows = (
        _beside([(_cell_lines(column, row, wide), wide, column.number) for column, wide in pairs])
        for row in range(count)
    )
    return (*titles, rule), tuple(tuple(row) for row in rows)


def _wrapped_title(title: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in _title_words(title):
        if lines and len(lines[-1]) + len(word) + 1 <= width and not word.startswith("("):
            lines[-1] += word if lines[-1].endswith(("-", "/")) else f" {word}"
        else:
            lines.append(word)
    return lines


def _cell_lines(column: _Shown, row: int, width: int) -> list[str]:
    text = column.cells[row]
    if column.cut:
        return [text if len(text) <= width else f"{text[: width - 1]}…"]
    return _wrapped_cell(text, width)


def _wrapped_cell(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken after spaces, slashes or plus signs if possible."""
    lines = [""]
    for piece in re.findall(r"[^\s/+]*(?:[/+]+|\s+)|[^\s/+]+", text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        parts = [piece[at : at + width] for at in range(0, len(piece.rstrip()), width)]
        lines[-1] += piece if len(parts) < 2 else parts[0]
        lines += parts[1:] if len(parts) > 1 else []
    return [line.rstrip() for line in lines]


def _beside(cells: Sequence[tuple[list[str], int, bool]]) -> list[str]:
    """Join cells side by side, given each cell's lines, width, and whether it is right-aligned."""
    height = max(len(lines) for lines, _, _ in cells)
    padded = [(lines + [""] * (height - len(lines)), wide, right) for lines, wide, right in cells]
    return [
        _GAP.join(
            lines[at].rjust(wide) if right else lines[at].ljust(wide)
            for lines, wide, right in padded
        ).rstrip()
        for at in range(height)
    ]
