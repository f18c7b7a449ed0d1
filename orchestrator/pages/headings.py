"""The headings of a markdown page, and which of its lines are markdown at all."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orchestrator.pages.markdown_tables import Document

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s(?P<text>.*))?")


class Heading(NamedTuple):
    """The line of a heading, and what it says, with its markup."""

    line: int
    text: str


def heading(line: str) -> str | None:
    """Return what a line says that is a heading, else None: `## Results` says Results."""
    found = _HEADING.fullmatch(line)
    if found is None:
        return None
    text = (found["text"] or "").strip()
    # Signs at its end close it, where a blank parts them from the text.
    closed = text.rstrip("#")
    return closed.rstrip() if closed[-1:] in ("", " ", "\t") else text


def headings(data: bytes, document: Document) -> list[Heading]:
    """Return the headings of a document, in order."""
    return [
        Heading(number, text)
        for number, line in markdown_lines(data, document)
        if (text := heading(line)) is not None
    ]


def heading_above(line: int, found: Sequence[Heading]) -> str:
    """Return what the last heading above a line says; nothing where there is none."""
    return next((one.text for one in reversed(found) if one.line < line), "")


def markdown_lines(data: bytes, document: Document) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line outside of code, comments and raw HTML."""
    covered = {
        line
        for text in document.texts
        for line in range(text.line, text.line + data.count(b"\n", text.begin, text.end) + 1)
    }
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if number not in covered:
            yield number, line
