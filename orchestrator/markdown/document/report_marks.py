"""Find and replace a campaign's report in a user's page, between two comments.

    <!-- teralog report NAME -->
    <!-- end of teralog report -->

Each comment is alone on its line, without indentation. If the same words are within code, within
another comment or within raw HTML, they are ordinary text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.common.errors import UserError
from orchestrator.markdown.document.tables import Edit, edited, read_document

_MARK = re.compile(
    rb"<!--[ \t]*(?:teralog[ \t]+report[ \t]+(?P<name>\S+)|end of teralog report)[ \t]*-->"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _Mark(NamedTuple):
    """One of the two comments around a report.

    line: the number of its line. begin, next_line: the offsets in the page at which its line
    and the line after it begin. name: the campaign's name in the first comment; None in the second
    comment.
    """

    line: int
    begin: int
    next_line: int
    name: str | None


def marks(name: str) -> tuple[str, str]:
    """Return the two comments that enclose the report of a campaign: the first and the last line.

    name: the campaign's name.
    """
    return f"<!-- teralog report {name} -->", "<!-- end of teralog report -->"


def with_report(page: bytes, name: str, text: str) -> bytes:
    """Return a page with `text` between the two comments for the report of a campaign.

    A blank line is added before and after the text, and the text gets the line endings of the page.
    All other bytes of the page stay. Raises UserError if the page lacks one or both comments.
    """
    edits: list[Edit] = []
    opened: _Mark | None = None
    for mark in _marks(page):
        if opened is not None:
            if mark.name is not None:
                raise _not_closed(opened, name)
            newline = b"\r\n" if page[opened.next_line - 2 : opened.next_line] == b"\r\n" else b"\n"
            between = f"\n{text}\n\n".encode().replace(b"\n", newline)
            edits.append(Edit(opened.next_line, mark.begin, between))
        opened = mark if mark.name == name else None
    if opened is not None:
        raise _not_closed(opened, name)
    if not edits:
        first, last = marks(name)
        raise UserError(
            f" has no comments for the report of {name}; paste these two comments where you want "
            f"the report, each on its own line: {first} and {last}"
        )
    return edited(page, edits)


def _not_closed(mark: _Mark, name: str) -> UserError:
    first, last = marks(name)
    return UserError(f"{mark.line}: {last} is missing after {first}; add it below the report")


def _marks(page: bytes) -> Iterator[_Mark]:
    text_begin = len(_BYTE_ORDER_MARK) if page.startswith(_BYTE_ORDER_MARK) else 0
    for comment in read_document(page).texts:
        match = _MARK.fullmatch(page, comment.begin, comment.end)
        at_start = comment.begin == text_begin or page[comment.begin - 1 : comment.begin] == b"\n"
        next_line = page.find(b"\n", comment.end) + 1 or len(page)
        if match and at_start and not page[comment.end : next_line].strip():
            name = match["name"]
            text = None if name is None else name.decode("utf-8", "replace")
            yield _Mark(comment.line, comment.begin, next_line, text)
