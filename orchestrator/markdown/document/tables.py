"""Read the tables of a markdown document, with the byte offset of each cell.

A table is what GitHub shows as a table: an HTML table, or a table in markdown. A markdown table has
a row of titles and a row of dashes, both with the same number of cells. Its other rows are all
lines up to a blank line or another block of markdown. Tables within code, HTML comments or
preformatted text count as text. Documents stay bytes, whatever their encoding, so that one cell
can be replaced without a change of any other byte.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from orchestrator.markdown.document.html_tables import HtmlRow, HtmlTable, html_tables

# A byte-order mark, signs of quotes and list items. Possessive: a line may have only blanks.
_MARKERS = rb"(?:\xef\xbb\xbf)?[ \t]*+(?:(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])[ \t]*+)*+"
_BLOCK = re.compile(
    rb"^(?P<prefix>" + _MARKERS + rb")(?:"
    rb"(?P<fence>```++(?=[^`\n]*$)|~~~++)"
    rb"|<(?P<raw>!--|(?:pre|script|style|textarea)\b)"
    rb"|(?P<delimiter>[|:-][-|: \t]*+)\r?$)",
    re.MULTILINE | re.IGNORECASE,
)
_PREFIX = re.compile(_MARKERS)
_QUOTE = re.compile(rb"[ \t]*+(?:>[ \t]*+)*+")
_NO_QUOTE = rb"^(?![ \t]*+>)"
_DASHES = re.compile(rb"[ \t]*+:?-++:?[ \t]*+")
# A line that is not a row, although it is directly below a row.
_OTHER_BLOCK = re.compile(
    rb"\s*+(?:$|#{1,6}(?:\s|$)|```|~~~|(?:[-*+]|\d{1,9}[.)])[ \t]"
    rb"|<(?:!--|/?(?:center|details|div|h[1-6r]|p|pre|summary|table)\b))",
    re.IGNORECASE,
)
_ITEM = re.compile(rb"(?:[-*+]|\d{1,9}[.)])[ \t]+")
_CELL = re.compile(rb"(?:[^\\|]++|\\.?)*+", re.DOTALL)
_CELL_SPARING_CODE = re.compile(rb"(?:[^\\|`]++|\\.?|(`++).+?(?<!`)\1(?!`)|`++)*+", re.DOTALL)
# How many lines up to search for the list item to which an indented table belongs.
_LINES_UP = 500


class MarkdownCell(NamedTuple):
    """A cell of a markdown table; `raw` are the bytes between its two pipes, with all blanks.

    begin: the offset of the first byte in the document.
    """

    begin: int
    raw: bytes

    @property
    def end(self) -> int:
        """The offset of the first byte after the cell, from the start of the document."""
        return self.begin + len(self.raw)

    @property
    def text(self) -> str:
        """The text of the cell as a reader sees it."""
        return cell_text(self.raw)

    @property
    def is_shared(self) -> bool:
        """Whether the cell spans several rows or columns, which is impossible in markdown."""
        return False


class MarkdownRow(NamedTuple):
    """A line of a table: its `content`, without indentation and trailing blanks.

    begin: the offset of the content in the document. line: its number, from 1. columns: how many
    columns the table has; the row may have more cells, or fewer.
    """

    line: int
    begin: int
    content: bytes
    columns: int

    @property
    def raw_cells(self) -> list[bytes]:
        """The bytes of the cells, split as GitHub does: at each pipe that is not escaped.

        If the number of cells then differs from the number of columns, the row is split again. This
        second split ignores pipes within `code`. Its result is returned only if it has the right
        number of cells.
        """
        raws = split_cells(self.content)
        if len(raws) != self.columns and b"`" in self.content:
            sparing = split_cells(self.content, _CELL_SPARING_CODE)
            if len(sparing) == self.columns:
                return sparing
        return raws

    @property
    def cells(self) -> list[MarkdownCell]:
        """The cells of the row, each with its offset in the document."""
        raws = self.raw_cells
        begin = self.begin + self.content.startswith(b"|")
        begins = accumulate(map(len, raws), lambda at, length: at + length + 1, initial=begin)
        return list(map(MarkdownCell, begins, raws))


def cell_text(raw: bytes) -> str:
    """Return a cell's text without the blanks around it, and with `|` for each escaped pipe."""
    return raw.decode("utf-8", "replace").strip().replace("\\|", "|")


def split_cells(content: bytes, pattern: "re.Pattern[bytes]" = _CELL) -> list[bytes]:
    """Return the bytes between the pipes of a line; `pattern` matches one cell."""
    if b"\\" not in content and pattern is _CELL:
        raws = content.split(b"|")
    else:
        raws, position = [], 0
        while position <= len(content):
            match = pattern.match(content, position)
            end = match.end() if match else len(content)
            raws.append(content[position:end])
            position = end + 1
    if content.startswith(b"|"):
        del raws[0]
    if len(raws) > 1 and not raws[-1].strip():
        del raws[-1]
    return raws


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownTable:
    """A table: its titles, the row of dashes, and the rows below it."""

    header: MarkdownRow
    delimiter: MarkdownRow
    rows: tuple[MarkdownRow, ...]

    def is_right_aligned(self, index: int) -> bool:
        """Return whether the dashes of a column align its numbers to the right."""
        dashes = self.delimiter.raw_cells[index].strip()
        return dashes.endswith(b":") and not dashes.startswith(b":")

    @property
    def begin(self) -> int:
        """The offset of the row of titles, from the start of the document."""
        return self.header.begin

    @property
    def end(self) -> int:
        """The offset of the end of the last row, from the start of the document."""
        last = self.rows[-1] if self.rows else self.delimiter
        return last.begin + len(last.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A part of a document in which no markdown is read: code, a comment or raw HTML.

    begin, end: its offsets in the document.
    """

    line: int
    begin: int
    end: int
    is_comment: bool


@dataclass(frozen=True, slots=True)
class Document:
    """The tables, code, comments and raw HTML of a document, in their order."""

    blocks: tuple[MarkdownTable | HtmlTable | Text, ...]

    @property
    def tables(self) -> tuple[MarkdownTable | HtmlTable, ...]:
        """The tables of the document."""
        return tuple(block for block in self.blocks if not isinstance(block, Text))

    @property
    def texts(self) -> tuple[Text, ...]:
        """The code, the comments and the raw HTML of the document."""
        return tuple(block for block in self.blocks if isinstance(block, Text))


def read_document(data: bytes) -> Document:
    """Return the tables, code, comments and raw HTML of a document. Any bytes are accepted."""
    blocks = list(_blocks(data))
    covered = [(block.begin, block.end) for block in blocks]
    # If an HTML table contains a markdown table, only the markdown table is read.
    html = [
        table
        for table in html_tables(data, covered)
        if not any(
            isinstance(block, MarkdownTable) and table.begin < block.begin < table.end
            for block in blocks
        )
    ]
    return Document(tuple(sorted([*blocks, *html], key=lambda block: block.begin)))


Table = MarkdownTable | HtmlTable
Row = MarkdownRow | HtmlRow


class Edit(NamedTuple):
    """An edit: `new` replaces the bytes from `begin` to `end`."""

    begin: int
    end: int
    new: bytes


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Return a document with the edits applied. They must be in order, and must not overlap."""
    parts: list[bytes] = []
    position = 0
    for edit in edits:
        parts += (data[position : edit.begin], edit.new)
        position = edit.end
    return b"".join((*parts, data[position:]))


def _blocks(data: bytes) -> Iterator[MarkdownTable | Text]:
    begin, line, counted = 0, 1, 0
    while match := _BLOCK.search(data, begin):
        line += data.count(b"\n", counted, match.start())
        counted = match.start()
        if match["delimiter"] is not None:
            table = _table(data, match, begin, line)
            end = table.end if table else match.end()
            if table:
                yield table
        else:
            end = _end(data, match)
            is_comment = match["raw"] == b"!--"
            yield Text(line=line, begin=match.end("prefix"), end=end, is_comment=is_comment)
        begin = _next_line(data, end)
        if begin >= len(data):
            return


def _next_line(data: bytes, position: int) -> int:
    return data.find(b"\n", position) + 1 or len(data)


def _end(data: bytes, match: "re.Match[bytes]") -> int:
    """Return the offset at which code, a comment or raw HTML ends.

    If it is not closed, it ends with the quote that contains it, or at the end of the document.
    """
    fence, raw = match["fence"], match["raw"]
    if fence:
        closing = rb"^[ \t>]*+%b{%d,}+[ \t]*+\r?$" % (re.escape(fence[:1]), len(fence))
        begin = _next_line(data, match.end())
    else:
        closing = rb"-->" if raw == b"!--" else rb"</%b>" % raw
        begin = match.start("raw") + 1
    if b">" in match["prefix"]:
        closing = rb"(?P<left>%b)|%b" % (_NO_QUOTE, closing)
    closed = re.compile(closing, re.MULTILINE | re.IGNORECASE).search(data, begin)
    if closed is None:
        return len(data)
    return closed.start() - 1 if closed.groupdict().get("left") is not None else closed.end()


def _table(data: bytes, match: "re.Match[bytes]", after: int, line: int) -> MarkdownTable | None:
    """Return the table whose row of dashes is `match`; None if the line above has no titles.

    The line above must have as many cells as the row of dashes.

    after: the lowest offset at which the titles may begin. line: the line number of the row of
    dashes.
    """
    prefix = match["prefix"]
    if match.start() <= after or prefix.strip(b" \t>"):
        return None
    columns = _columns(match["delimiter"])
    quotes = prefix.count(b">")
    begin = data.rfind(b"\n", after, match.start() - 1) + 1 or after
    title_prefix = _PREFIX.match(data, begin, match.start())
    if not columns or not title_prefix or title_prefix[0].count(b">") != quotes:
        return None
    content = data[title_prefix.end() : match.start()].rstrip()
    header = MarkdownRow(line - 1, title_prefix.end(), content, columns)
    indentation = 0 if title_prefix[0].strip() else _width(title_prefix[0])
    if len(header.raw_cells) != columns or (
        indentation > 3 and not _in_item(data, begin, indentation)
    ):
        return None
    delimiter = MarkdownRow(line, match.start("delimiter"), match["delimiter"].rstrip(), columns)
    rows = tuple(_rows(data, _next_line(data, match.end()), line + 1, columns, quotes))
    return MarkdownTable(header=header, delimiter=delimiter, rows=rows)


def _columns(delimiter: bytes) -> int:
    """Return how many columns a row of dashes has; 0 if the line is not such a row."""
    if b"|" not in delimiter:
        return 0
    raws = split_cells(delimiter.rstrip())
    return len(raws) if all(map(_DASHES.fullmatch, raws)) else 0


def _rows(data: bytes, begin: int, line: int, columns: int, quotes: int) -> Iterator[MarkdownRow]:
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        content = data[begin:end].rstrip()
        start = begin
        if not content.startswith(b"|"):
            prefix = _QUOTE.match(content)
            skipped = prefix.end() if prefix else 0
            content, start = content[skipped:], begin + skipped
            if (prefix and prefix[0].count(b">") != quotes) or _OTHER_BLOCK.match(content):
                return
        elif quotes:
            return
        yield MarkdownRow(line, start, content, columns)
        begin, line = end + 1, line + 1


def _width(indentation: bytes) -> int:
    return len(indentation.expandtabs(4))


def _in_item(data: bytes, begin: int, indentation: int) -> bool:
    """Return whether a line that is indented by four or more blanks belongs to a list item.

    If it does not, the line is code.
    """
    limit = indentation
    for _ in range(_LINES_UP):
        if begin == 0:
            return False
        end = begin - 1
        begin = data.rfind(b"\n", 0, end) + 1
        content = data[begin:end].lstrip(b" \t")
        width = _width(data[begin : end - len(content)])
        if not content.strip() or width >= limit:
            continue
        limit = width
        item = _ITEM.match(content)
        if item and width + len(item[0]) <= indentation:
            return indentation - width - len(item[0]) < 4
        if not item and width == 0:
            return False
    return False
