"""Keep a part of a log in memory, as whole lines, and move this part through the log.

Memory is limited for any log, because a line longer than a limit is left out.
"""

import threading
from dataclasses import dataclass
from itertools import takewhile

import stringzilla

from parsers.scan.sources import Read

CHUNK_BYTES = 2**20
LINE_LIMIT = 4 * 2**20

# How far a part of a log reads on behind its end at a time, to finish its last line.
_OVERRUN_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of a log is in memory, and how long a line may be.

    chunk_bytes: how many bytes are read at a time.
    line_limit: the length of the longest line that is returned, in bytes.
    lookahead_bytes: how many bytes after the first line of a report are searched for the
    report's following lines. The first line stays in memory until these bytes are read.
    complete: whether a last line without newline counts as a whole line. False while a
    program still writes the log, because the line may be half written.
    """

    chunk_bytes: int = CHUNK_BYTES
    line_limit: int = LINE_LIMIT
    lookahead_bytes: int = 2**16
    complete: bool = True


# Making a buffer takes longer than reading a small log, so a thread uses its own again.
_spare = threading.local()


def _buffer(size: int) -> bytearray:
    buffer: bytearray | None = getattr(_spare, "buffer", None)
    _spare.buffer = None
    return buffer if buffer is not None and len(buffer) == size else bytearray(size)


class Window:
    """A buffer with a part of a log; its bytes `[begin, end)` are whole lines to be searched.

    offset: the offset in the log of the buffer's first byte.
    used: how many bytes of the buffer were searched; `advance` removes them. If a line
    needs lines below it that are not in the buffer yet, set `used` to the beginning of this
    line. Then `advance` keeps the line.
    filled: how many bytes the buffer has. The bytes from `end` to `filled` are not
    searched: they are a part of a line, or lines after the part of the log that is read.
    settled: whether the lines in the buffer are complete, so that no later line can belong to
    them. The log ends after them (`at_end`), or the next line is longer than `line_limit`, and is
    left out (`within_line`).
    """

    def __init__(
        self,
        read: Read,
        bounds: Bounds,
        *,
        begin: int = 0,
        stop: int | None = None,
        within_line: bool = False,
    ) -> None:
        """Begin at the byte `begin` of the log; `read` returns the bytes from there on.

        stop: lines that begin at this byte or later are left out. within_line: whether the first
        line began before `begin`; it is left out then.
        """
        self.buffer = _buffer(bounds.chunk_bytes + bounds.line_limit + bounds.lookahead_bytes)
        self.view = memoryview(self.buffer)
        self.offset = begin
        self.begin = self.end = self.used = self.filled = self._whole = 0
        self.settled = False
        self.line_limit = bounds.line_limit
        self._read, self._bounds, self._stop = read, bounds, stop
        self.at_end = False
        self.within_line = within_line
        self._newlines = 0
        self._counted = int(within_line)

    def advance(self) -> bool:
        """Remove the searched bytes from the buffer, and read up to a chunk more.

        Returns False if nothing is left to search.
        """
        if self.at_end or (self._stop is not None and self.next_line >= self._stop):
            _spare.buffer = self.buffer
            return False
        self._drop(self.next_line - self.offset)
        count = self._read(self.view[self.filled : self.filled + self._chunk_bytes()])
        self.filled += count
        self.at_end = not count
        self.begin = 0
        if self.within_line:
            newline = self.buffer.find(b"\n", 0, self.filled)
            self.within_line = newline < 0
            self.begin = self.filled if newline < 0 else newline + 1
        self._whole = self.buffer.rfind(b"\n", self.begin, self.filled) + 1 or self.begin
        self.within_line |= self.filled - self._whole > self.line_limit
        if self.at_end and self._bounds.complete and not self.within_line:
            self._whole = self.filled
        self.end = self.used = self._end_of_wanted()
        self.settled = self.at_end or self.within_line
        return True

    @property
    def next_line(self) -> int:
        """The offset in the log from which the search continues.

        Usually it is the offset of the byte after the searched lines. If the buffer ends within a
        line that is too long, it is the offset of the byte after the buffer, because such a line
        is left out.
        """
        return self.offset + (self.filled if self.within_line else self.used)

    def end_of_following(self, end: int, count: int, *, hold: bool) -> int | None:
        """Return the position in the buffer at which the following lines of a line end.

        end: the end of the line. count: how many following lines are wanted. If `Bounds`
        allows fewer, or the log has fewer, returns the end of the last of these; `end` if
        there are none.

        Returns None if the lines are not in the buffer yet; call the method again after
        `advance`. With `hold`, also returns None at the end of the log, because the log may
        grow.
        """
        lookahead = self._bounds.lookahead_bytes
        region = min(self._whole, end + 1 + lookahead)
        pieces = self.buffer[end + 1 : region].split(b"\n", count)
        lengths = [*map(len, pieces[:-1])]
        if lengths and max(lengths) > self.line_limit:
            whole = [*takewhile(lambda length: length <= self.line_limit, lengths)]
            return end + sum(whole) + len(whole)
        last = end + sum(lengths) + len(lengths)
        if len(lengths) == count:
            return last
        if self.filled - end > lookahead:
            return last
        if not self.settled or (self.at_end and hold):
            return None
        # The log's last line may do without a newline.
        return region if self.at_end and region > last + 1 else last

    def newlines_before(self, place: int) -> int:
        """Return the number of newlines before `place`, counted from where the window began.

        place: a position in the buffer. From call to call, its offset in the log must not
        decrease. Call this method before each `advance`. Newlines at the window's `stop` or
        later are not counted. If the window began within a line, the newline of this line
        is not counted either.
        """
        if self._stop is not None:
            place = min(place, self._stop - self.offset)
        if place > self._counted:
            text = stringzilla.Str(self.view[self._counted : place])
            self._newlines += text.count(b"\n")
            self._counted = place
        return self._newlines

    def _end_of_wanted(self) -> int:
        """Return the end of the last whole line that begins before `stop`."""
        if self._stop is None or self.offset + self._whole <= self._stop:
            return self._whole
        before_stop = self._stop - 1 - self.offset
        if before_stop < self.begin:
            return self.begin
        return self.buffer.find(b"\n", before_stop, self._whole) + 1 or self._whole

    def _chunk_bytes(self) -> int:
        if self._stop is None:
            return self._bounds.chunk_bytes
        left = self._stop - self.offset - self.filled
        return min(self._bounds.chunk_bytes, max(left, _OVERRUN_BYTES))

    def _drop(self, count: int) -> None:
        """Remove the first `count` bytes from the buffer."""
        self.view[: self.filled - count] = self.view[count : self.filled]
        self.filled -= count
        self.offset += count
        self._counted -= count
