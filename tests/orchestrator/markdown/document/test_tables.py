"""Find tables in markdown, and the byte range of each cell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.markdown.document.tables import Document, Edit, MarkdownRow, edited, read_document

TABLE = b"| a | b |\n| - | -: |\n| 1 | 2 |\n"
BITS = ["| a | b |", "|-|-|", "a|b", "-|-", "```", "~~~", "<!--", "-->", "> ", "- ", "\\|", "`"]
BITS += ["<pre>", "</pre>", "    ", "\n", "\r\n", "\xff", "\ufeff", "#", " "]


def texts(data: bytes) -> list[list[list[str]]]:
    """Return the texts of all cells of all tables; each table's titles come first."""
    return [
        [[cell.text for cell in row.cells] for row in (table.header, *table.rows)]
        for table in read_document(data).tables
    ]


def rows(document: Document) -> list[MarkdownRow]:
    """Return all rows of all tables, including the titles and the lines of dashes."""
    tables = ((table.header, table.delimiter, *table.rows) for table in document.tables)
    return [row for table in tables for row in table]


@pytest.mark.parametrize(
    "data",
    [
        b"| a | b |\n| - | - |\n| 1 | 2 |\n",
        b"| a | b |\r\n| - | - |\r\n| 1 | 2 |\r\n",
        b"\xef\xbb\xbf| a | b |\n| - | - |\n| 1 | 2 |",
        b"a | b\n--|--\n1 | 2\n",
        b"|a|b|\n|-|-|\n|1|2|\n",
        b"text\n| a | b |\n|:-:|---:|\n| 1 | 2 |\n\n| 3 | 4 |\n",
        b"   | a | b |\n   | - | - |\n   | 1 | 2 |\n",
        b"- item\n\n  | a | b |\n  | - | - |\n  | 1 | 2 |\n",
        b"1. item\n\n     | a | b |\n     | - | - |\n     | 1 | 2 |\n",
        b"- item\n  - inner\n\n    more\n\n    | a | b |\n    | - | - |\n    | 1 | 2 |\n",
        b"> | a | b |\n> | - | - |\n> | 1 | 2 |\n| 3 | 4 |\n",
        b"- | a | b |\n  | - | - |\n  | 1 | 2 |\n",
        b"| a | b |\n| - | - |\n| 1 | 2 |\n# next\n",
        b"| a | b |\n| - | - |\n| 1 | 2 |\n```\n| 3 | 4 |\n```\n",
        b"| a | b |\n| - | - |\n| 1 | 2 |\n- item\n",
        b"<!-- one line --> \n| a | b |\n| - | - |\n| 1 | 2 |\n",
    ],
)
def test_a_table_is_found_whatever_its_looks(data: bytes) -> None:
    """A table is found with any line endings and indentation, in quotes and lists.

    Pipes at the ends of its lines may be missing.
    """
    assert texts(data) == [[["a", "b"], ["1", "2"]]]


@pytest.mark.parametrize(
    "data",
    [
        b"```\n" + TABLE + b"```\n",
        b"~~~~ text\n" + TABLE + b"~~~\n" + TABLE,
        b"- ```\n  " + TABLE.replace(b"\n", b"\n  ") + b"```\n",
        b"<!--\n" + TABLE + b"-->\n",
        b"<!-- begun\n" + TABLE,
        b"<pre>\n" + TABLE + b"</pre>\n",
        b"text\n\n    | a | b |\n    | - | - |\n    | 1 | 2 |\n",
        b"- item\n\n      | a | b |\n      | - | - |\n      | 1 | 2 |\n",
        b"> ```\n> " + TABLE.replace(b"\n", b"\n> ") + b"```\n",
        b"| a | b |\n| - |\n| 1 | 2 |\n",
        b"| a | b |\n\n| - | - |\n| 1 | 2 |\n",
        b"> | a | b |\n| - | - |\n",
        b"a\n---\nb\n",
        b"a | b\n- | -\n",
        b"| - | - |\n",
    ],
)
def test_text_according_to_github_is_not_a_table(data: bytes) -> None:
    """Lines that GitHub shows as text are not a table.

    E.g. code, comments, raw HTML, and text that only begins like a table.
    """
    assert texts(data) == []


def test_a_table_after_code_is_found_again() -> None:
    """A table after code is found; code ends at its fence, or at the end of the quote around it."""
    for before in (
        b"```\nx\n```\n",
        b"\xef\xbb\xbf```\nx\n```\n",
        b"\xef\xbb\xbf",
        b"> ```\n> x\n",
        b"> <!--\n",
        b"> <!-- x\n> y -->\n\n",
        b"> <pre>\n\n",
        b"`` `\n",
        b"```a`\n\n",
        b"<!-- x\n-->\n",
    ):
        assert len(texts(before + TABLE)) == 1


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (rb"| a\|b | c |", ["a|b", "c"]),
        (rb"| a\\| c |", ["a\\\\", "c"]),
        (b"| `a|b` | c |", ["`a|b`", "c"]),
        (b"| `a|b | c |", ["`a", "b", "c"]),
        (b"| `a | b` |", ["`a", "b`"]),
        (b"|  | c |", ["", "c"]),
        (b"| a |", ["a"]),
        (b"a | c", ["a", "c"]),
        (b"| a | c", ["a", "c"]),
        (b"| a | c | d |", ["a", "c", "d"]),
        (b"plain", ["plain"]),
        (b"| \xff | c |", ["\N{REPLACEMENT CHARACTER}", "c"]),
        (b"|", [""]),
    ],
)
def test_a_row_is_split_at_its_pipes(row: bytes, cells: list[str]) -> None:
    """A row is split into cells at its pipes, but not at a pipe with a backslash before it.

    A pipe in code splits the row only if the row then has as many cells as titles.
    """
    assert texts(b"| x | y |\n| - | - |\n" + row)[0][1] == cells


def test_lines_are_counted_as_editors_do() -> None:
    """The line numbers of rows and comments are counted from one, as in editors."""
    document = read_document(b"text\r\n\r\n<!-- x\ny -->\r\n\r\n" + TABLE + b"\n" + TABLE)
    assert [row.line for row in rows(document)] == [6, 7, 8, 10, 11, 12]
    assert [text.line for text in document.texts] == [3]


@given(st.lists(st.sampled_from(BITS)).map("".join).map(str.encode) | st.binary(max_size=200))
def test_cells_stand_where_they_say(data: bytes) -> None:
    """For any bytes of a page, the byte range of each cell contains the cell's text.

    The byte ranges of two cells do not overlap.
    """
    document = read_document(data)
    end = 0
    for row in rows(document):
        assert data[row.begin : row.begin + len(row.content)] == row.content
        assert data.count(b"\n", 0, row.begin) + 1 == row.line
        for cell in row.cells:
            assert data[cell.begin : cell.end] == cell.raw
            assert cell.begin >= end
            end = cell.end
    begins = [block.begin for block in document.blocks]
    assert begins == sorted(begins)


def test_edits_exchange_bytes_and_nothing_else() -> None:
    """An edit replaces only the bytes in its range; the old or the new bytes may be empty."""
    edits = [Edit(0, 0, b"<"), Edit(1, 3, b"xyz"), Edit(4, 5, b"")]
    assert edited(b"abcdef", edits) == b"<axyzdf"
    assert edited(b"abc", []) == b"abc"
