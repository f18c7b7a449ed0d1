"""Make the unified diff of two documents with the same number of lines."""

from collections.abc import Iterator, Sequence

# How many unchanged lines are printed around a change; `diff -u` prints as many.
_CONTEXT = 3


def line_diff(old: bytes, new: bytes, name: str) -> Iterator[bytes]:
    """Yield the lines of a unified diff, none if the documents are the same.

    Both documents have the same number of lines, so one pass over them is enough.

    name: the name of both documents in the diff.
    """
    before, after = _lines(old), _lines(new)
    changed = [
        number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]
    ]
    if changed:
        title = name.encode("utf-8", "surrogateescape")
        yield from (b"--- " + title + b"\n", b"+++ " + title + b"\n")
    for begin, end in _hunks(changed, len(before)):
        yield b"@@ -%d,%d +%d,%d @@\n" % (begin + 1, end - begin, begin + 1, end - begin)
        number = begin
        while number < end:
            run = number
            while run < end and before[run] != after[run]:
                run += 1
            yield from (b"-" + line for line in before[number:run])
            yield from (b"+" + line for line in after[number:run])
            if run < end:
                yield b" " + before[run]
            number = run + 1


def _lines(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()
    return lines if last == b"\n" else [*lines, last + b"\\ No newline at end of file\n"]


def _hunks(changed: Sequence[int], lines: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines that contain the changed lines and a few unchanged lines around them.

    A range is the index of its first line, and the index of the line after its last line.

    changed: the indices of the changed lines. lines: how many lines the document has.
    """
    begin = end = -1
    for number in changed:
        if end < 0:
            begin = max(number - _CONTEXT, 0)
        elif number - _CONTEXT > end:
            yield begin, end
            begin = number - _CONTEXT
        end = min(number + _CONTEXT + 1, lines)
    if end >= 0:
        yield begin, end
