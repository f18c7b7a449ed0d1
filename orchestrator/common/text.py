"""Format text for people: printable characters, numbers with nouns, names, natural order."""

import re
import signal
from collections.abc import Sequence


def printable(text: str) -> str:
    """Return text in which U+FFFD replaces every character that is not printable.

    For example, control characters are not printable.
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text)


# A path may have 4,096 characters and must be shown whole if it is of a usual length.
_LONG_WORD = 1000
_LONG_SENTENCE = 10_000


def shortened(sentence: str) -> str:
    """Shorten an error message: keep only the start and the end of every very long word.

    If the message is still very long after that, keep only its start and end. So a reader can
    find the place, the problem and the remedy in a message that quotes a megabyte of text.
    """
    if len(sentence) > _LONG_WORD:
        sentence = re.sub(rf"\S{{{_LONG_WORD},}}", lambda word: _ends(word[0], 80), sentence)
    return sentence if len(sentence) <= _LONG_SENTENCE else _ends(sentence, 1000)


def _ends(text: str, length: int) -> str:
    """Return the start and the end of a text, and how many characters are left out between them.

    length: the number of characters of the start, and of the end.
    """
    left_out = counted(len(text) - 2 * length, "character")
    return f"{text[:length]}… [{left_out} left out] …{text[-length:]}"


def counted(number: int, what: str, several: str | None = None) -> str:
    """Return a number with its noun: 1 run, 2 runs, 1,000 runs.

    what: the singular. several: the plural, if it is not the singular plus s; for example the
    plural of `run is` is `runs are`.
    """
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key by which numbers in texts are sorted by size: 2 GPUs before 16 GPUs."""
    # In `parts`, texts and numbers alternate. Of two numbers, the one with more digits is larger.
    parts = [part.lstrip("0") for part in re.split(r"([0-9]+)", text)]
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


def named(labels: Sequence[str], what: str = "more run") -> str:
    """Return a text that names at most three of the labels, e.g. `a, b, c and 2 more runs`.

    what: the noun for the labels that are not named, in the singular.
    """
    first, more = ", ".join(labels[:3]), len(labels) - 3
    return first if more <= 0 else f"{first} and {counted(more, what)}"


def signal_name(number: int) -> str:
    """Return a signal's name; a real-time signal has only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
