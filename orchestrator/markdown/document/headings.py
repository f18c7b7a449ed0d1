"""The headings of a markdown page, and which of its lines are markdown at all.

What markdown shows of a cell or a heading: the text without the signs that make it bold.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orchestrator.common.text import printable
from orchestrator.markdown.document.tables import Document

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


_LINK = re.compile(r"(?<!\\)!?\[(?P<text>[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
# Signs in pairs, around something; a single one, as in ~129 or 2 * 3, is text.
_PAIRED = re.compile(
    r"(?<!\\)(?P<sign>\*\*|~~|`{1,3}|\*|(?P<low>(?<!\w)__?))(?=\S)"
    r"(?P<text>[^*`~]{1,300}?)(?<=[^\s\\])(?P=sign)(?(low)(?!\w))"
)
_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# Emphasis within emphasis within a link: nobody goes deeper in a cell.
_DEPTH = 3


def printed_text(markdown: str) -> str:
    """Return the text that a reader sees; a tag of HTML stays the text that it is, but for <br>."""
    text = _LINK.sub(lambda found: found["text"], _BREAK.sub(" ", markdown))
    for _ in range(_DEPTH):
        text = _PAIRED.sub(lambda found: found["text"], text)
    return printable(_ESCAPED.sub(r"\1", text).strip())
