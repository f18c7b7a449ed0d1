"""Numbers in log lines: the patterns that match them, and what is made of them."""

import math
import re

# At most 18 digits fit any counter, and keep int() from refusing a line of garbage.
COUNT = r"[0-9]{1,18}"
NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?|inf|nan)"

_COUNT = re.compile(COUNT)


def printed(text: str) -> float | None:
    """Return the number that `text` (a match of NUMBER) is, nan and inf too.

    None for one that is too large to be a float: it is no inf.
    """
    value = float(text)
    return None if math.isinf(value) and text[-1] != "f" else value


def finite(text: str | None) -> float | None:
    """Return the number that `text` (a match of NUMBER) is, or None for nan, inf and nothing."""
    value = math.nan if text is None else float(text)
    return value if math.isfinite(value) else None


def whole(text: str | None) -> int | None:
    """Return the count that `text` is, or None for any other text and for nothing."""
    return int(text) if text is not None and _COUNT.fullmatch(text) else None
