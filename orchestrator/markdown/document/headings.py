"""Find the headings of a markdown page, and its lines outside of code and HTML."""

import re
from collections.abc import Iterator
from html import unescape

from orchestrator.markdown.document.tables import Document

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s(?P<text>.*))?")
_HTML_HEADING = re.compile(
    r"\s*<h(?P<level>[1-6])\b[^<>]*>(?P<text>.*?)</h(?P=level)\s*>\s*", re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")


def heading(line: str) -> str | None:
    """Return the text of a heading line, e.g. `Results` for `## Results`; None for other lines.

    Bold, links and other markup in the text are kept. For a heading in HTML, e.g.
    `<h2>Results</h2>`, the text is returned without tags.
    """
    if "<" in line and (html := _HTML_HEADING.fullmatch(line)):
        return unescape(_TAG.sub("", html["text"])).strip()
    match = _HEADING.fullmatch(line)
    if match is None:
        return None
    text = (match["text"] or "").strip()
    # `#` signs at the end are markup if a blank separates them from the text.
    closed = text.rstrip("#")
    return closed.rstrip() if closed[-1:] in ("", " ", "\t") else text


def heading_level(line: str) -> int:
    """Return the level of a heading line, e.g. 2 for `## Results`; the highest level is 1."""
    if html := _HTML_HEADING.fullmatch(line):
        return int(html["level"])
    return len(line.lstrip(" ")) - len(line.lstrip(" ").lstrip("#"))


def markdown_lines(data: bytes, document: Document) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not in code, a comment or raw HTML."""
    covered = {
        line
        for text in document.texts
        for line in range(text.line, text.line + data.count(b"\n", text.begin, text.end) + 1)
    }
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if number not in covered:
            yield number, line
