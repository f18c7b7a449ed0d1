"""Find HTML tables in markdown and in HTML pages, and the byte range of each cell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.document.html_tables import HtmlTable
from orchestrator.markdown.document.tables import read_document
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.settings import PageSettings
from orchestrator.markdown.regenerate.page import regenerate

PLAIN = """<table>
  <tr><th>a</th><th>b</th></tr>
  <tr><td>1</td><td>2</td></tr>
</table>
"""
GRID = [["a", "b"], ["1", "2"]]


def texts(page: str) -> list[list[list[str]]]:
    """Return the texts of all cells of all tables; each table's titles come first."""
    return [
        [[cell.text for cell in row.cells] for row in (table.header, *table.rows)]
        for table in read_document(page.encode()).tables
    ]


@pytest.mark.parametrize(
    ("page", "tables"),
    [
        (PLAIN, [GRID]),
        (f"<div align=center>\n<details>{PLAIN}</details></div>", [GRID]),
        (f"<!DOCTYPE html><html><body>text {PLAIN}</body></html>", [GRID]),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", [GRID]),
        ("<table><tr><td>a<td>b<tr><td>1<td>2", [GRID]),
        (
            "<TABLE><thead><tr><th colspan=2>ab</th></tr><tr><th>a</th><th>b</th></tr></thead>\
<tbody><tr><th>1</th><td>2</td></tr></tbody></TABLE>",
            [GRID],
        ),
        (
            "<table><tr><th>a</th><th>b</th></tr><tr><td rowspan='2'>x</td><td>1</td></tr>\
<tr><td>2</td></tr><tr><td colspan=2>3</td></tr></table>",
            [[["a", "b"], ["x", "1"], ["x", "2"], ["3", "3"]]],
        ),
        (
            "<table><tr><th>a&nbsp;&lt;b</th></tr><tr><td><b>1</b><br>\n <i>2</i></td></table>",
            [[["a <b"], ["1 2"]]],
        ),
        (
            "<table><tr><td>\n<table><tr><th>a</th></tr><tr><td>1</td></tr></table>\n</td></tr>\
<tr><td>x</td></tr></table>",
            [[["a"], ["1"]]],
        ),
        (f"```html\n{PLAIN}```\n", []),
        (f"<!--\n{PLAIN}-->\n", []),
        (f"text <!-- \n{PLAIN}-->\n", []),
        (f"<pre>\n{PLAIN}</pre>\n", []),
        ("Write `<table><tr><td>1</td></tr><tr><td>2</td></tr></table>` here\n", []),
        ("<table></table>", []),
        ("<table><tr><th>a</th></tr></table>", []),
        (f"| c |\n|---|\n| 3 |\n\n{PLAIN}", [[["c"], ["3"]], GRID]),
        (f"<table><tr><td>\n\n| c |\n|---|\n| 3 |\n\n</td></tr></table>\n\n{PLAIN}",
         [[["c"], ["3"]], GRID]),
    ],
)  # fmt: skip
def test_tables_are_read_as_a_browser_shows_them(page: str, tables: list[list[list[str]]]) -> None:
    """HTML tables are read as a browser shows them.

    End tags may be missing, and code is not a table. A cell with rowspan or colspan appears at each
    place that it covers.
    """
    assert texts(page) == tables


def test_the_places_of_cells_are_bytes_of_the_page() -> None:
    """The byte range of a cell contains exactly the cell, also after multi-byte characters."""
    page = f"Größe ≈ 7\n\n{PLAIN}".encode()
    [table] = read_document(page).tables
    assert [row.line for row in (table.header, *table.rows)] == [4, 5]
    for row in (table.header, *table.rows):
        for cell in row.cells:
            assert page[cell.begin : cell.end].decode() == cell.text


BITS = [
    "<table>",
    "</table>",
    "<tr>",
    "</tr>",
    "<td>",
    "<th>",
    "</td>",
    "<td colspan=3>",
    "<thead>",
]
BITS += ["<td rowspan=2>", "<!--", "-->", "<!", "<![x", "<?", "&amp;", "12", "\n", "ä", "|-|", "<"]


@given(st.lists(st.sampled_from(BITS), max_size=40).map("".join))
def test_any_html_is_read(page: str) -> None:
    """Broken tags raise no error, and the byte range of every cell contains the cell's text."""
    data = page.encode()
    for table in read_document(data).tables:
        assert table.header.cells
        for row in (table.header, *table.rows):
            for cell in row.cells:
                assert data[cell.begin : cell.end] == cell.raw


def test_a_table_of_too_many_cells_is_none() -> None:
    """A table with too many spanned cells is left out, so that it does not fill the memory."""
    row = "<tr>" + "<td colspan=1000 rowspan=1000>" * 9
    assert texts("<table>" + row + "<tr>" * 1000) == []


LLAMA = """### Model: Llama3 70B

<table>
  <thead><tr>
    <th>System</th> <th># GPUs</th> <th>Seq&nbsp;Length</th>
    <th>Tokens / sec / GPU</th> <th>Model TFLOP / sec / GPU</th>
  </tr></thead>
  <tbody>
    <tr><td rowspan=2>DGX-H100</td><td>64</td><td>8K</td><td>1,621</td><td>{first}</td></tr>
    <tr><td>64</td><td>8192</td><td>810</td><td class="n2"><b>{second}</b></td></tr>
  </tbody>
</table>
"""


def test_check_tables_reads_html() -> None:
    """A contradiction in an HTML table is found, with the line of its row."""
    assert check_page(read_page(LLAMA.format(first=728, second=364).encode())) == []
    [finding] = check_page(read_page(LLAMA.format(first=728, second=464).encode()))
    assert finding.line == 10
    assert "implies 572.8 GFLOPs per token" in finding.message


def test_regenerate_corrects_only_numbers_of_html() -> None:
    """In HTML, only the wrong number changes; tags, attributes and blanks stay."""
    wrong = LLAMA.format(first=728, second=464).encode()
    made = regenerate(wrong, PageSettings())
    assert made.data == LLAMA.format(first=728, second=364).encode()
    assert [(change.line, change.old, change.new) for change in made.changes] == [
        (10, "464", "364")
    ]
    assert regenerate(made.data, PageSettings()).data == made.data


def test_what_cannot_be_rewritten_is_reported() -> None:
    """Some numbers cannot be replaced; they stay, and a message reports them.

    E.g. a number in a cell with rowspan, or one with tags between its digits.
    """
    shared = LLAMA.replace("<td>{first}</td>", '<td rowspan="2">728</td>').replace(
        '<td class="n2"><b>{second}</b></td>', ""
    )
    styled = LLAMA.format(first=728, second='464<sup id="f1">1</sup>')
    for page, why in ((shared, "spans several rows"), (styled, "not a single number")):
        made = regenerate(page.encode(), PageSettings())
        assert made.data == page.encode()
        assert any(why in remark.text for remark in made.unclear)


def test_no_column_is_added_to_html() -> None:
    """No column is added to an HTML table; a message reports it."""
    page = LLAMA.format(first=728, second=364).encode()
    made = regenerate(page, PageSettings(gpu_peak_tflops=989.5), ["mfu"])
    assert made.data == page
    assert [remark.text for remark in made.unclear] == [
        ("no column is added, because this is an HTML table; only markdown tables can get columns")
    ]


def test_html_tables_have_their_own_type() -> None:
    """HTML tables have the type HtmlTable, because they lack a markdown table's row of dashes."""
    assert [type(table) for table in read_document(PLAIN.encode()).tables] == [HtmlTable]
