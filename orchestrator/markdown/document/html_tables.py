"""Read the HTML tables of a document, with the byte offset of each cell.

Markdown pages contain HTML tables as raw HTML. A cell that spans several rows or columns
counts as a cell of each of these rows and columns, as a reader sees it. The parser of
Python's standard library finds the tags. End tags may be missing, as in many HTML pages.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple

_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE
)
_TABLE = re.compile(rb"<(?P<closing>/?)table\b", re.IGNORECASE)
# In markdown, only tags may come before a table on its line; after other text, it may be code.
_BEFORE = re.compile(rb"[ \t]*(?:<[^<>\n]*>[ \t]*)*")
_TAG = re.compile(r"<[^<>]*>")
# Tags that a reader sees as a blank. For other tags, the texts before and after are joined.
_BREAK = re.compile(r"<\s*/?\s*(?:br|p|div|li|ul|ol)\b[^<>]*>", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")
# More than this is an attack, or a mistake.
_MOST_SPANNED = 1000
_MOST_CELLS = 100_000


class HtmlCell(NamedTuple):
    """A cell of an HTML table; `raw` is its content, without blanks at both ends.

    begin: the offset of the content's first byte in the document.
    is_shared: whether the cell spans several rows or columns.
    """

    begin: int
    raw: bytes
    is_shared: bool = False

    @property
    def end(self) -> int:
        """The offset of the first byte after the cell, from the start of the document."""
        return self.begin + len(self.raw)

    @property
    def text(self) -> str:
        """The cell as a reader sees it, without tags."""
        plain = _TAG.sub("", _BREAK.sub(" ", self.raw.decode("utf-8", "replace")))
        return _BLANKS.sub(" ", unescape(plain)).strip()


@dataclass(frozen=True, slots=True)
class HtmlRow:
    """A row of an HTML table: its line, the offset of its tag, and one cell for each column."""

    line: int
    begin: int
    cells: tuple[HtmlCell, ...]

    @property
    def raw_cells(self) -> list[bytes]:
        """The texts of the cells."""
        return [cell.text.encode() for cell in self.cells]

    @property
    def content(self) -> bytes:
        """The texts of all cells of the row, joined by `|`."""
        return b"|".join(self.raw_cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlTable:
    """A table: its titles, and the rows below them."""

    begin: int
    end: int
    header: HtmlRow
    rows: tuple[HtmlRow, ...]

    def is_right_aligned(self, _index: int) -> bool:
        """Return False, because HTML does not align the numbers of a column with blanks."""
        return False


def html_tables(data: bytes, covered: Sequence[tuple[int, int]]) -> Iterator[HtmlTable]:
    """Yield the HTML tables of a document that have titles and rows.

    covered: the parts of the document that are not HTML, e.g. code, in their order. A table that
    contains another table is only layout, so only the inner table is read.
    """
    if b"<t" not in data.lower():
        return
    masked = _masked(data, covered)
    is_page = _PAGE.match(masked) is not None
    opened: list[int] = []
    for tag in _TABLE.finditer(masked):
        if tag["closing"]:
            if opened and (begin := opened.pop()) >= 0:
                end = masked.find(b">", tag.end()) + 1 or len(masked)
                # The tables that contain this table are layout.
                opened = [-1 for _ in opened]
                yield from _read(data, masked, begin, end)
        else:
            line = masked.rfind(b"\n", 0, tag.start()) + 1
            inside = bool(opened) and opened[-1] >= 0
            shown = is_page or inside or _BEFORE.fullmatch(masked, line, tag.start())
            opened.append(tag.start() if shown else -1)
    if opened and opened[-1] >= 0:
        yield from _read(data, masked, opened[-1], len(masked))


def _masked(data: bytes, covered: Sequence[tuple[int, int]]) -> bytes:
    """Return a document of the same length, with blanks in place of `covered` and of comments."""
    parts = bytearray(data)
    comments = [match.span() for match in _COMMENT.finditer(data)]
    for begin, end in (*covered, *comments):
        parts[begin:end] = re.sub(rb"[^\n]", b" ", data[begin:end])
    return bytes(parts)


def _read(data: bytes, masked: bytes, begin: int, end: int) -> Iterator[HtmlTable]:
    parser = _Parser()
    # One character for each byte, so that offsets in the text are offsets in the bytes. The parser
    # raises errors for declarations, which a table does not need.
    text = masked[begin:end].decode("latin-1").replace("<!", "  ").replace("<?", "  ")
    parser.feed(text)
    parser.close()
    parser.end_cell(len(text))
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    grid = _grid(parser.rows)
    if grid is None:
        return
    first = data.count(b"\n", 0, begin) + 1
    rows = [
        HtmlRow(
            line=first + bisect_right(lines, row.begin) - 1,
            begin=begin + row.begin,
            cells=tuple(
                _trimmed(data, begin + cell.begin, begin + cell.end, shared)
                for cell, shared in cells
            ),
        )
        for row, cells in zip(parser.rows, grid, strict=True)
    ]
    titles = _title_rows(parser.rows)
    filled = [row for row in rows if row.cells]
    if titles and len(filled) > titles:
        header = _header(rows[:titles])
        yield HtmlTable(begin=begin, end=end, header=header, rows=tuple(rows[titles:]))


def _trimmed(data: bytes, begin: int, end: int, is_shared: bool) -> HtmlCell:
    """Return the cell between two offsets, without the blanks at both ends."""
    raw = data[begin:end]
    shown = raw.strip()
    return HtmlCell(begin + raw.index(shown), shown, is_shared)


@dataclass(slots=True)
class _Cell:
    """A cell as its HTML tags describe it.

    begin: the offset at which the cell's content begins. end: the offset at which the content ends,
    because the next tag of the table begins. columns, rows: how many columns and rows it spans.
    """

    begin: int
    end: int
    is_title: bool
    columns: int
    rows: int


@dataclass(slots=True)
class _Row:
    begin: int
    in_head: bool
    cells: list[_Cell] = field(default_factory=list)


class _Parser(HTMLParser):
    """Collect the rows of one table, with the offsets of their cells."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.rows: list[_Row] = []
        self._lines: list[int] = [0]
        self._cell: _Cell | None = None
        self._in_head = False

    def feed(self, data: str) -> None:
        """Read the text of a whole table. This method is called only once."""
        self._lines += [match.end() for match in re.finditer("\n", data)]
        super().feed(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin the row or the cell of a tag, and end the cell before it."""
        if tag == "thead":
            self._in_head = True
        elif tag in {"tbody", "tfoot"}:
            self.end_cell()
            self._in_head = False
        elif tag == "tr":
            self.end_cell()
            self.rows.append(_Row(self._place(), self._in_head))
        elif tag in {"td", "th"}:
            self.end_cell()
            if not self.rows:
                self.rows.append(_Row(self._place(), self._in_head))
            inside = self._place() + len(self.get_starttag_text() or "")
            given = dict(attrs)
            self._cell = _Cell(
                begin=inside,
                end=inside,
                is_title=tag == "th",
                columns=_span(given.get("colspan")),
                rows=_span(given.get("rowspan")),
            )
            self.rows[-1].cells.append(self._cell)

    def handle_endtag(self, tag: str) -> None:
        """End a cell at its end tag, or at the end tag of its row or table."""
        if tag in {"td", "th", "tr", "thead", "tbody", "tfoot", "table"}:
            self.end_cell()
        if tag == "thead":
            self._in_head = False

    def end_cell(self, place: int | None = None) -> None:
        """End the open cell, if there is one.

        place: the offset at which the cell ends. None: the cell ends where the current tag begins.
        """
        if self._cell is not None:
            self._cell.end = self._place() if place is None else place
            self._cell = None

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _span(text: str | None) -> int:
    number = int(text) if text and text.strip().isdecimal() and len(text) < 5 else 1
    return min(max(number, 1), _MOST_SPANNED)


def _grid(rows: Sequence[_Row]) -> list[list[tuple[_Cell, bool]]] | None:
    """Return for each row a list with one cell per column.

    A cell that spans several rows or columns is in the lists once for each of them. Each cell
    comes with a bool: whether it spans several rows or columns. Returns None if there are too
    many cells.
    """
    above: dict[int, tuple[_Cell, int]] = {}
    grid = []
    count = 0
    for row in rows:
        cells: list[tuple[_Cell, bool]] = []
        below: dict[int, tuple[_Cell, int]] = {}
        waiting = list(row.cells)
        while waiting or len(cells) in above:
            column = len(cells)
            if column in above:
                cell, left = above[column]
                cells.append((cell, True))
                if left > 1:
                    below[column] = (cell, left - 1)
                continue
            cell = waiting.pop(0)
            shared = cell.columns > 1 or cell.rows > 1
            for _ in range(cell.columns):
                if cell.rows > 1:
                    below[len(cells)] = (cell, cell.rows - 1)
                cells.append((cell, shared))
        grid.append(cells)
        if (count := count + len(cells)) > _MOST_CELLS:
            return None
        above = below
    return grid


def _title_rows(rows: Sequence[_Row]) -> int:
    """Return how many of the first rows are titles: rows in `thead`, or with only `th` cells.

    If there are no such rows, the first row counts as titles.
    """
    count = 0
    for row in rows:
        if not (row.in_head or (row.cells and all(cell.is_title for cell in row.cells))):
            break
        count += 1
    return count or min(len(rows), 1)


def _header(rows: Sequence[HtmlRow]) -> HtmlRow:
    """Combine a table's rows of titles into one row.

    The title of a column is its lowest cell that is not empty.
    """
    width = max((len(row.cells) for row in rows), default=0)
    lowest = []
    for column in range(width):
        cells = [row.cells[column] for row in rows if column < len(row.cells)]
        lowest.append(next((cell for cell in reversed(cells) if cell.text), cells[-1]))
    return HtmlRow(rows[-1].line, rows[0].begin, tuple(lowest))
