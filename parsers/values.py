"""One number of each report, and nothing else, as fast as a log can be read."""

import re
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from parsers.anchors import AnchorSearch, anchor_search
from parsers.candidates import SEGMENT_BYTES
from parsers.sources import LogPath, file_reader, open_source
from parsers.window import Bounds, Window


def read_values(
    path: LogPath,
    anchor: bytes,
    pattern: re.Pattern[bytes],
    *,
    complete: bool = True,
    threads: int = 1,
) -> "array[float]":
    r"""Return a number for each occurrence of `anchor` in a log, in order.

    `pattern` is matched at the anchor, and its first group is the number; it must match no newline.
    An occurrence that it does not match gives no number. So do lines of more than 4 MiB, and, if
    the log is not `complete`, a last line without newline. Raises OSError.
    """
    bounds, search = Bounds(complete=complete), anchor_search((anchor,))
    with open_source(path) as source:
        size, descriptor = source.size, source.descriptor
        if threads < 2 or size is None or descriptor is None or size <= SEGMENT_BYTES:
            return _values(Window(source.read, bounds), search, pattern)
        starts = range(0, size, SEGMENT_BYTES)
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(
                lambda start: _values(_window(descriptor, bounds, start, starts), search, pattern),
                starts,
            )
            values: array[float] = array("d")
            for part in parts:
                values.extend(part)
            return values


def _window(descriptor: int, bounds: Bounds, start: int, starts: Sequence[int]) -> Window:
    """Return the window on the lines that begin in the segment at `start`."""
    begin = max(start - 1, 0)
    return Window(
        file_reader(descriptor, begin),
        bounds,
        begin=begin,
        stop=None if start == starts[-1] else start + SEGMENT_BYTES,
        within_line=start > 0,
    )


def _values(window: Window, search: AnchorSearch, pattern: re.Pattern[bytes]) -> "array[float]":
    values: array[float] = array("d")
    match = pattern.match
    while window.advance():
        buffer, begin, end = window.buffer, window.begin, window.end
        places = search.places(window.view[begin:end])
        if end - begin > window.line_limit:  # else no line can be too long
            places = [place for place in places if not window.is_too_long(begin + place)]
        found = [match(buffer, begin + place, end) for place in places]
        values.extend([float(one[1]) for one in found if one])
    return values
