"""Lists of nodes, as Slurm writes them."""

import re
from collections.abc import Iterator
from itertools import product

_NAME = r"(?:[^\[\],]|\[[^\[\]]+\])+"
_LIST = re.compile(rf"{_NAME}(?:,{_NAME})*")
_PARTS = re.compile(r"\[(?P<numbers>[^\[\]]+)\]|(?P<text>[^\[\]]+)")
_SPAN = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the names in a list of nodes: four for `gpu[001-003],login`.

    Several brackets in a name mean all combinations, `r[1-2]n[0-3]` eight nodes. What is written
    otherwise is left as it is.
    """
    if not _LIST.fullmatch(text):
        return (text,) if text else ()
    return tuple(name for names in re.findall(_NAME, text) for name in _expanded(names))


def _expanded(names: str) -> Iterator[str]:
    parts = _PARTS.finditer(names)
    choices = [list(_numbers(part["numbers"])) if part["numbers"] else [part[0]] for part in parts]
    yield from map("".join, product(*choices)) if all(choices) else (names,)


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of `001-003,007`, as wide as the first of each span; none of other text."""
    spans = [_SPAN.fullmatch(span) for span in text.split(",")]
    if None in spans:
        return
    for span in filter(None, spans):
        first = span["first"]
        for number in range(int(first), int(span["last"] or first) + 1):
            yield f"{number:0{len(first)}}"
