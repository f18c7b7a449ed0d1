"""Read the benchmark tables of a markdown page, with the page's notes about their rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.markdown.document.printed_text import printed_text
from orchestrator.markdown.document.tables import read_document
from orchestrator.markdown.meaning.benchmark_rows import (
    BenchmarkColumns,
    BenchmarkRow,
    benchmark_rows,
)
from orchestrator.markdown.meaning.notes import read_notes, read_sections


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTable:
    """A table: its name on the page, its columns, its rows, and the GPU of its runs.

    gpu: the GPU's name in a settings comment above the table; None without one.
    """

    name: str
    columns: BenchmarkColumns
    rows: tuple[BenchmarkRow, ...]
    gpu: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPage:
    """A page: its bytes, its first heading, and its tables."""

    data: bytes
    title: str
    tables: tuple[BenchmarkTable, ...]


def read_page(data: bytes) -> BenchmarkPage:
    """Return a page with its first heading and its tables; blank rows are left out.

    Raises UserError if a comment contains an invalid setting.
    """
    document = read_document(data)
    sections = read_sections(data, document)
    notes = read_notes(data, document, sections)
    tables = []
    for table, name, noted in zip(
        document.tables, _table_names([noted.heading for noted in notes]), notes, strict=True
    ):
        columns = BenchmarkColumns.of(table, noted.sizes, headings=noted.headings)
        rows = tuple(benchmark_rows(table, columns))
        tables.append(BenchmarkTable(name=name, columns=columns, rows=rows, gpu=noted.gpu))
    title = printed_text(sections[1].heading) if len(sections) > 1 else ""
    return BenchmarkPage(data=data, title=title, tables=tuple(tables))


def _table_names(headings: Sequence[str]) -> list[str]:
    """Return a name for each table: the heading above it.

    Several tables below one heading are numbered, and so are tables without a heading.
    """
    above = [printed_text(heading) for heading in headings]
    several, seen = Counter(above), Counter[str]()
    names = []
    for name in above:
        seen[name] += 1
        number = f"table {seen[name]}"
        names.append(number if not name else f"{name}, {number}" if several[name] > 1 else name)
    return names
