"""A row of a table in markdown: its cells, and where they stand in the bytes of the document."""

import re
from itertools import accumulate
from typing import NamedTuple

_CELL = re.compile(rb"(?:[^\\|]++|\\.?)*+", re.DOTALL)
_CELL_SPARING_CODE = re.compile(rb"(?:[^\\|`]++|\\.?|(`++).+?(?<!`)\1(?!`)|`++)*+", re.DOTALL)


class Cell(NamedTuple):
    """What stands between two pipes of a row, blanks included: `raw`, which begins at `begin`."""

    begin: int
    raw: bytes

    @property
    def end(self) -> int:
        """Offset in the document of what follows."""
        return self.begin + len(self.raw)

    @property
    def text(self) -> str:
        """The cell as a reader sees it."""
        return cell_text(self.raw)


class Row(NamedTuple):
    """A line of a table: `content` begins at `begin`, without indentation and trailing blanks.

    `line` counts from 1; `columns` is how many the table has, which the row may not keep to.
    """

    line: int
    begin: int
    content: bytes
    columns: int

    @property
    def raw_cells(self) -> list[bytes]:
        """The bytes of the cells, split as GitHub does: at each pipe that is not escaped.

        Where this gives another number than the table has columns, and not splitting within
        `code` gives that number, then that is what was meant.
        """
        raws = split_cells(self.content)
        if len(raws) != self.columns and b"`" in self.content:
            sparing = split_cells(self.content, _CELL_SPARING_CODE)
            if len(sparing) == self.columns:
                return sparing
        return raws

    @property
    def cells(self) -> list[Cell]:
        """The cells with their places."""
        raws = self.raw_cells
        begin = self.begin + self.content.startswith(b"|")
        begins = accumulate(map(len, raws), lambda at, length: at + length + 1, initial=begin)
        return list(map(Cell, begins, raws))


def cell_text(raw: bytes) -> str:
    """Return a cell without the blanks around it; an escaped pipe is a pipe."""
    return raw.decode("utf-8", "replace").strip().replace("\\|", "|")


def split_cells(content: bytes, pattern: "re.Pattern[bytes]" = _CELL) -> list[bytes]:
    """Return the bytes between the pipes of a line; `pattern` is what matches one cell."""
    if b"\\" not in content and pattern is _CELL:
        raws = content.split(b"|")
    else:
        raws, position = [], 0
        while position <= len(content):
            found = pattern.match(content, position)
            end = found.end() if found else len(content)
            raws.append(content[position:end])
            position = end + 1
    if content.startswith(b"|"):
        del raws[0]
    if len(raws) > 1 and not raws[-1].strip():
        del raws[-1]
    return raws
