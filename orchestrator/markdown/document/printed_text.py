"""Return the visible text of a markdown cell or heading, without markup."""

import re

from orchestrator.common.text import printable

_LINK = re.compile(r"(?<!\\)!?\[(?P<text>[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
# Pairs of signs around a text. A single sign, as in ~129 or 2 * 3, is part of the text.
_PAIRED = re.compile(
    r"(?<!\\)(?P<sign>\*\*|~~|`{1,3}|\*|(?P<low>(?<!\w)__?))(?=\S)"
    r"(?P<text>[^*`~]{1,300}?)(?<=[^\s\\])(?P=sign)(?(low)(?!\w))"
)
_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
# How deep markup is nested in cells at most: emphasis within emphasis within a link.
_DEPTH = 3


def printed_text(markdown: str) -> str:
    """Return the text of markdown as a reader sees it; HTML tags, except <br>, are kept as text."""
    text = _LINK.sub(lambda match: match["text"], _BREAK.sub(" ", markdown))
    for _ in range(_DEPTH):
        text = _PAIRED.sub(lambda match: match["text"], text)
    return printable(_ESCAPED.sub(r"\1", text).strip())
