"""Parse numbers and JSON in log lines, and leave out comments and printed commands."""

import json
import math
import re
from collections.abc import Iterator, Mapping

from parsers.labels import after_labels

# 18 digits are enough for any counter. int() refuses texts with thousands of digits.
COUNT = r"[0-9]{1,18}"
NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?|inf|nan)"
# A printed number ends here: no more digits and no exponent follow it.
NUMBER_ENDS = r"(?!\.?[0-9]|[eE][-+]?[0-9])"

_COUNT = re.compile(COUNT)


def parse_number(text: str) -> float | None:
    """Convert a text that matches NUMBER to a number, which may be nan or inf.

    Returns None for a finite number that is too large for a float: Python would make it infinite.
    """
    value = float(text)
    return None if math.isinf(value) and text[-1] != "f" else value


def finite(text: str | None) -> float | None:
    """Convert a text that matches NUMBER to a finite number.

    Returns None for nan, for inf, for a number that is too large for a float, and if `text` is
    None.
    """
    value = math.nan if text is None else float(text)
    return value if math.isfinite(value) else None


_JSON = json.JSONDecoder(parse_float=parse_number)


def parse_json(text: str) -> object:
    """Parse a text as JSON, and return its value; None if the text is not JSON.

    In the value, a number with a point or exponent that is too large for a float becomes None,
    e.g. 1e400. Integers keep all their digits.
    """
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError):
        return None


def json_float(value: object) -> float | None:
    """Return a JSON value as a float if it is a number, including nan and inf; otherwise None.

    Returns None also for an integer that is too large for a float, and for true and false.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def finite_json(value: object) -> float | None:
    """Return a JSON value if it is a finite number; otherwise None."""
    number = json_float(value)
    return number if number is not None and math.isfinite(number) else None


def json_numbers(values: Mapping[str, object]) -> dict[str, float]:
    """Return the entries of a JSON object whose values are numbers, including nan and inf."""
    numbers = ((name, json_float(value)) for name, value in values.items())
    return {name: number for name, number in numbers if number is not None}


def whole(text: str | None) -> int | None:
    """Convert 1 to 18 digits to an integer; None for any other text and for None."""
    return int(text) if text is not None and _COUNT.fullmatch(text) else None


_DIGITS = re.compile("[0-9]+")


def alike(text: str) -> str:
    """Return a regular expression that matches `text`, even if its digits are different."""
    return "[0-9]+".join(map(re.escape, _DIGITS.split(text)))


# A comment, or a command of a script, as printed by `set -x`.
_QUOTED = r"\s*(?:#|\++ )"


def is_quoted(text: str) -> bool:
    """Return whether a text is a comment in a script, or a command printed by `set -x`.

    Such a text may look like a step report, e.g. `# iteration 1/ 10 | …`. It must not count as a
    report, because no training program printed it.
    """
    return ("#" in text or "+ " in text) and after_labels(_QUOTED).match(text) is not None


def line_parts(line: str) -> Iterator[str]:
    """Split a line at its carriage returns, which progress bars write, and yield the pieces.

    Empty pieces, comments of scripts, and commands printed by `set -x` are left out.
    """
    for part in line.split("\r"):
        if part and not is_quoted(part):
            yield part


def matches(pattern: re.Pattern[str], line: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern in the pieces that `line_parts` yields for a line."""
    for part in line_parts(line):
        yield from pattern.finditer(part)
