"""Compute the TFLOPs columns of a page's tables again; change nothing else of the page."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.common.errors import UserError
from orchestrator.markdown.document.tables import Document, Table, Text, edited, read_document
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.columns import Meaning, title_key
from orchestrator.markdown.meaning.flops_per_token import RatedRow, rated_rows, ways_of_page
from orchestrator.markdown.meaning.notes import read_sections
from orchestrator.markdown.meaning.settings import (
    PageSettings,
    overridden,
    stated_seq_length,
    with_comment,
)
from orchestrator.markdown.regenerate.table import (
    ChangedCell,
    RegeneratedTable,
    Remark,
    regenerate_table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerated:
    """A page with its TFLOPs columns computed again, and the changes in its tables.

    data: the bytes of the new page. tables: the changes, table by table. notes: information for the
    user that is not an error, e.g. that the page overrides an option.
    """

    data: bytes
    tables: tuple[RegeneratedTable, ...]
    notes: tuple[Remark, ...]

    @property
    def rows(self) -> int:
        """How many rows were computed again."""
        return sum(table.rows for table in self.tables)

    @property
    def new_columns(self) -> int:
        """How many columns were added."""
        return sum(table.new_columns for table in self.tables)

    @property
    def changes(self) -> list[ChangedCell]:
        """The cells whose content changed, except those of new columns."""
        return [change for table in self.tables for change in table.changes]

    @property
    def unclear(self) -> list[Remark]:
        """The rows and tables that look like results but could not be parsed, and why."""
        return [remark for table in self.tables for remark in table.unclear]


def regenerate(data: bytes, options: PageSettings, add: Sequence[str] = ()) -> Regenerated:
    """Compute a page's TFLOPs columns, and the columns of `add`, again; return the changes.

    add: names of columns, e.g. `mfu`. If a markdown table lacks one of these columns, it is
    inserted after the last column of TFLOPs, times or rates. No column is inserted into an HTML
    table.

    The page's comments take precedence over `options`, and `options` over the page's prose.
    Raises UserError with all problems, each with its line.
    """
    document = read_document(data)
    rated = _rated_rows(data)
    notes: list[Remark] = []
    problems: list[str] = []
    first_lines: dict[str, int] = {}
    tables: list[RegeneratedTable] = []
    sections = read_sections(data, document)
    begins = [section.line for section in sections]
    for table, settings in _with_settings(document, data, options, notes, problems):
        section = sections[bisect_right(begins, table.header.line) - 1]
        counted = _with_ways(settings, rated)
        try:
            made = regenerate_table(table, counted, add, section.headings)
        except UserError as error:
            for problem in error.problems:
                first_lines.setdefault(problem, table.header.line)
        else:
            tables.append(made)
            notes += made.notes
    problems += (f"{line}: {problem}" for problem, line in first_lines.items())
    if problems:
        raise UserError(*problems)
    edits = [edit for table in tables for edit in table.edits]
    return Regenerated(data=edited(data, edits), tables=tuple(tables), notes=tuple(sorted(notes)))


def _rated_rows(data: bytes) -> list[RatedRow]:
    """Return the page's rows that name a model, and whose FLOPs per token can be computed.

    Returns no rows if a comment of the page contains an invalid setting.
    """
    try:
        return rated_rows(read_page(data).tables)
    except UserError:
        # The invalid setting is reported when the comment is read.
        return []


def _with_ways(settings: PageSettings, rated: Sequence[RatedRow]) -> PageSettings:
    """Return the settings, with a way to count FLOPs for each published model in the rows."""
    return replace(settings, ways=ways_of_page(rated, settings.attention)) if rated else settings


def title_keys(data: bytes) -> set[str]:
    """Return the titles in all tables of a page as keys: their letters and digits in lower case."""
    tables = read_document(data).tables
    return {title_key(cell.text) for table in tables for cell in table.header.cells}


def _with_settings(
    document: Document, data: bytes, options: PageSettings, notes: list[Remark], problems: list[str]
) -> Iterator[tuple[Table, PageSettings]]:
    """Yield each table with the settings that apply to it.

    notes: gets a remark for each option that a comment of the page overrides, and for a sequence
        length that is read from the page's prose.
    problems: gets a sentence for each invalid setting in a comment.
    """
    settings = options
    if Meaning.SEQ_LENGTH not in options.constants:
        settings = _with_stated_seq_length(document, data, options, notes)
    for block in document.blocks:
        if not isinstance(block, Text):
            yield block, settings
        elif block.is_comment:
            try:
                new_settings = with_comment(settings, block, data)
            except UserError as error:
                problems += error.problems
                continue
            if new_settings is not settings:
                notes += (
                    Remark(
                        block.line, f"the page's setting {setting} overrides the command's option"
                    )
                    for setting in overridden(options, new_settings)
                )
            settings = new_settings


def _with_stated_seq_length(
    document: Document, data: bytes, options: PageSettings, notes: list[Remark]
) -> PageSettings:
    stated_length = stated_seq_length(document, data)
    if stated_length is None:
        return options
    length, line = stated_length
    notes.append(Remark(line, f"this line sets seq_length={length} for the whole page"))
    return replace(options, constants={**options.constants, Meaning.SEQ_LENGTH: length})
