"""Lists of nodes as Slurm writes them: `node[01-03,7],login` are five."""

import itertools
import re
from collections.abc import Iterator

# More are no list of nodes, but something else that looks like one.
MAX_HOSTS = 100_000

# Commas part hosts but within brackets.
_HOST = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[(?P<numbers>[^\[\]]*)\]|(?P<text>[^\[\]]+)")
_RANGE = re.compile(r"(?P<first>[0-9]+)-(?P<last>[0-9]+)")


def host_names(hosts: str) -> tuple[str, ...]:
    """Return the names in a list, each once, in its order; what is no list is one name."""
    found: Iterator[str] = (
        "".join(parts)
        for host in _HOST.findall(hosts)
        for parts in itertools.product(*map(_choices, _PART.finditer(host)))
    )
    return tuple(dict.fromkeys(itertools.islice(found, MAX_HOSTS)))


def _choices(part: re.Match[str]) -> list[str]:
    if part["text"] is not None:
        return [part["text"]]
    return [number for one in part["numbers"].split(",") for number in _numbers(one)]


def _numbers(text: str) -> Iterator[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        yield text
        return
    first, last = int(match["first"]), int(match["last"])
    for number in range(first, min(last, first + MAX_HOSTS) + 1):
        yield f"{number:0{len(match['first'])}}"
