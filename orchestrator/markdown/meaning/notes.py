"""Read a page's notes about all rows of its tables, such as `- TP=4 in all of entries`.

Only list items in the table's own section, from one heading to the next, are read. An item must
begin with a name, a sign (`=`, `:` or `is`) and a value. It must not add a condition such as
"except for 8B". Other prose is not read, because it may be about plans and limits.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestrator.markdown.document.headings import (
    heading,
    heading_level,
    markdown_lines,
)
from orchestrator.markdown.document.tables import Document
from orchestrator.markdown.meaning.columns import Meaning, read_columns
from orchestrator.markdown.meaning.settings import PageSettings, with_comment

# Sizes that are whole numbers, in a table or next to it.
SIZES = frozenset(
    {
        Meaning.WORLD_SIZE,
        Meaning.NODES,
        Meaning.GPUS_PER_NODE,
        Meaning.DATA_PARALLEL_SIZE,
        Meaning.TENSOR_PARALLEL_SIZE,
        Meaning.PIPELINE_PARALLEL_SIZE,
        Meaning.MICRO_BATCH_SIZE,
        Meaning.NUM_MICROBATCHES,
        Meaning.GLOBAL_BATCH_SIZE,
        Meaning.SEQ_LENGTH,
        Meaning.NUM_LAYERS,
        Meaning.HIDDEN_SIZE,
        Meaning.PADDED_VOCAB_SIZE,
    }
)


class Note(NamedTuple):
    """A size that a note gives for all rows of a table.

    line: the note's line on the page; None if the size is from the settings.
    value: the size; or a meaning, if the size of each row is the number in the column with this
        meaning.
    """

    line: int | None
    name: str
    value: int | Meaning


class Section(NamedTuple):
    """A heading of a page, and the sizes in the list items below it.

    line: the line of the heading.
    sizes: the sizes that the list items give, by meaning.
    headings: this heading and those above it, from the highest level to its own.
    """

    line: int
    heading: str
    sizes: dict[Meaning, Note]
    headings: tuple[str, ...] = ()


class TableNotes(NamedTuple):
    """A page's notes about one table: sizes, the GPU, and the headings above the table."""

    heading: str
    sizes: dict[Meaning, Note]
    gpu: str | None
    headings: tuple[str, ...] = ()


_ITEM = re.compile(r"\s*[-*+]\s+(?P<text>.*)")
_STATED = re.compile(r"(?P<name>[A-Za-z][\w -]*?)\s*(?:=|:|\bis\b)\s*(?P<value>.+)")
# Text that may follow a number that applies to all rows.
_NUMBER = re.compile(
    r"(?P<number>\d{1,18})(?P<unit>[kK])?\b"
    r"(?!.*\b(?:but|except|other|save|unless)\b)"
    r"(?:\s+(?:tokens|for all|in all|everywhere|throughout)\b.*|\s*\([^()\d]*\)|\s*[.;]?)"
)
# A longer line is prose.
_LONGEST = 500
_FACTORS = re.compile(r"\s*[*\N{MULTIPLICATION SIGN}]\s*")
_PRODUCT = {Meaning.MICRO_BATCH_SIZE, Meaning.DATA_PARALLEL_SIZE}


def as_notes(constants: Mapping[Meaning, int]) -> dict[Meaning, Note]:
    """Convert sizes from the settings to notes; these notes have no line.

    constants: the sizes, by meaning.
    """
    return {meaning: Note(None, meaning, value) for meaning, value in constants.items()}


def read_notes(data: bytes, document: Document, sections: Sequence[Section]) -> list[TableNotes]:
    """Return the page's notes about each table of a document, in the order of the tables.

    Comments with settings take precedence over lists. Raises UserError if a comment contains an
    invalid setting.
    """
    begins = [section.line for section in sections]
    comments = [text for text in document.texts if text.is_comment]
    settings = PageSettings()
    set_by_comments: dict[Meaning, Note] = {}
    notes = []
    for table in document.tables:
        while comments and comments[0].begin < table.header.begin:
            comment = comments.pop(0)
            before, settings = settings, with_comment(settings, comment, data)
            for meaning, value in settings.constants.items():
                if before.constants.get(meaning) != value:
                    set_by_comments[meaning] = Note(comment.line, meaning, value)
        section = sections[bisect_right(begins, table.header.line) - 1]
        sizes = {**section.sizes, **set_by_comments}
        notes.append(TableNotes(section.heading, sizes, settings.gpu, section.headings))
    return notes


def read_sections(data: bytes, document: Document) -> list[Section]:
    """Return the part of a document above its first heading, and the part below each heading.

    If list items of a section give different values for a size, `sizes` of the section lacks it.
    """
    sections = [Section(0, "", {})]
    contradicted: set[tuple[int, Meaning]] = set()
    above: list[tuple[int, str]] = []
    for number, line in markdown_lines(data, document):
        if (text := heading(line)) is not None:
            level = heading_level(line)
            above = [*(entry for entry in above if entry[0] < level), (level, text)]
            sections.append(Section(number, text, {}, tuple(each for _, each in above)))
        section = sections[-1]
        for meaning, note in _notes(number, line):
            if section.sizes.setdefault(meaning, note).value != note.value:
                contradicted.add((section.line, meaning))
    for section in sections:
        for meaning in [each for each in section.sizes if (section.line, each) in contradicted]:
            del section.sizes[meaning]
    return sections


def _notes(number: int, line: str) -> Iterator[tuple[Meaning, Note]]:
    item = _ITEM.match(line) if len(line) <= _LONGEST else None
    # Stars stay in the text, because they may be multiplication signs.
    match = _STATED.fullmatch(item["text"].replace("`", "").strip()) if item else None
    meaning = _size(match["name"]) if match else None
    if match is None or meaning is None:
        return
    same = _size(match["value"])
    if number_match := _NUMBER.fullmatch(match["value"]):
        value = int(number_match["number"]) * (1024 if number_match["unit"] else 1)
        # `8K` is 8,000 or 8,192, except for sequence lengths.
        if value > 0 and not (number_match["unit"] and meaning is not Meaning.SEQ_LENGTH):
            yield meaning, Note(number, match["name"], value)
    elif same is not None and same is not meaning:
        yield meaning, Note(number, match["name"], same)
    elif meaning is Meaning.GLOBAL_BATCH_SIZE:
        factors = {_size(factor) for factor in _FACTORS.split(match["value"])}
        if factors == _PRODUCT:
            yield Meaning.NUM_MICROBATCHES, Note(number, "chunks", 1)


def _size(name: str) -> Meaning | None:
    meaning = read_columns([name])[0].meaning
    return meaning if meaning in SIZES else None
