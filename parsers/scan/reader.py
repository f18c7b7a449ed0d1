"""Find the few lines of a log that can contain a record, and parse them.

A search for literal bytes costs little in comparison with reading the file. A regular expression on
every line costs much. So a log is searched for anchors: byte strings that a record's line must
contain. Only lines with an anchor are cut out, decoded and parsed.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from parsers.fields import is_quoted
from parsers.records import LossReport, Record, Step
from parsers.scan.candidates import Pass
from parsers.scan.sources import LogPath, open_source
from parsers.scan.wanted import Candidate, LineBatch, ReadColumns, ReadLines, Wanted
from parsers.scan.window import CHUNK_BYTES, Bounds
from parsers.steps.blocks import Records, StepBlock

# A table is given up after this many lines with its anchors that were not rows.
_LINES_WITHOUT_ROW = 2**16

# How far behind an anchor a number makes its line look like a report.
_NUMBER_WITHIN = 40

NEVER = re.compile(r"(?!)")
"""What no line looks like: the report of a format whose lines need not hold a record."""

# A copy from a web page may lack the escape character of a terminal's code. Other tools print it as
# `^[`, or as #033. syslog prints a carriage return as #015. Ray ends a line with the number of its
# copies.
_TERMINAL_CODE = re.compile(
    r"(?:\x1b|\^\[|#033)(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|\][^\x07\x1b\r\n]{0,200}\x07)"
    r"|\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m(?![^\[\]\r\n]{0,12}\])"
)
_AT_END = re.compile(r"(?:#015| ?\[repeated [0-9]{1,9}x across cluster\][^\r\n]*)(?=\r*$)")

ParseLine = Callable[[int, str], Iterator[Record]]
ParseLines = Callable[[Sequence[int], str], StepBlock | None]


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A format: lines of one program, and how to read them.

    name: the name that users see.
    anchors: byte strings without newline; each line of this format contains at least one.
    parse: takes the offset of a line with an anchor and its text (see `decode`), yields the line's
        records. It never raises: a malformed line is not a record.
    only: needed if the anchors are common words: a pattern that each line of this format matches,
        too. To test a line with this pattern takes a tenth of the time of parsing the line. If one
        of the anchors is also the anchor of a sign, e.g. of an outcome, the lines of the sign must
        match the pattern as well.
    following: how many further lines belong to a line with an anchor; `parse` receives them too,
        joined by newlines, if they are within the next 64 KiB of the log.
    report: a pattern for lines that should contain a record. Such lines are counted if they could
        not be parsed. Without it, each line with an anchor and a digit after the anchor counts.
    ordered: whether the iteration numbers of one run always rise.
    counted: True if lines have no iteration number. Then the number of such lines so far is used
        as the iteration number, unless another format reports iterations.
    parse_lines: parses many lines at once. Takes the offsets and the text of lines that contain
        only this format's anchors; each line ends with a newline. Returns a block of steps, one for
        each of the first lines that differ only in numbers. The lines after them are parsed one by
        one. If it returns None, all lines are parsed one by one.
    """

    name: str
    anchors: tuple[bytes, ...]
    parse: ParseLine
    only: re.Pattern[bytes] | None = None
    following: int = 0
    report: re.Pattern[str] | None = None
    ordered: bool = True
    counted: bool = False
    parse_lines: ParseLines | None = None

    def looks_like_report(self, line: str) -> bool:
        """Return whether a line with an anchor looks as if it contained a record."""
        return not (self.report is NEVER or is_quoted(line)) and bool(
            _report_pattern(self).search(line)
        )


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format of rows that can be read only with the header line above them, as in a CSV file.

    name: the name that users see.
    header: a byte string that the header line contains, and no row.
    anchors: byte strings; each row contains at least one. They may be as common as a comma, because
        the search for rows begins only at a header. It ends if more than 65,536 lines
        with an anchor come one after another and none of them is a row.
    row: takes the text of a header line, and returns a parser of rows, in the form of
        `LogFormat.parse`. Returns None if the line is not a header. A later header replaces an
        earlier one.
    """

    name: str
    header: bytes
    anchors: tuple[bytes, ...]
    row: Callable[[str], ParseLine | None]


AnyFormat = LogFormat | TableFormat


class ReadLine(NamedTuple):
    """A line with an anchor, and what the formats read from it.

    candidate: the line; or several lines that were read together.
    readings: for each format with an anchor on the line, the records that it found.
    """

    candidate: Candidate
    readings: list[tuple[AnyFormat, Sequence[Record]]]


@dataclass(slots=True)
class _OpenTable:
    table: TableFormat
    parse: ParseLine
    lines_without_row: int = 0


class LineReader:
    """Parses the lines of a log that contain an anchor of a format, with this format.

    headers: the header text of each table whose rows are being read, by the table's name.
    """

    def __init__(
        self,
        formats: Sequence[AnyFormat],
        more_anchors: Mapping[bytes, int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare to read some formats.

        more_anchors: further anchors to search for, each with the number of following lines that
        belong to it. Lines with these anchors are returned, too. headers: for tables whose header
        is before the part of the log to be read: the text of the header, by the table's name.
        """
        self._log_formats = [
            log_format for log_format in formats if isinstance(log_format, LogFormat)
        ]
        self._tables = [table for table in formats if isinstance(table, TableFormat)]
        self._more_anchors = dict(more_anchors or {})
        self._open: dict[str, _OpenTable] = {}
        self._columns: dict[str, ReadColumns] = {}
        self._known: dict[tuple[bytes, ...], tuple[list[LogFormat], list[TableFormat]]] = {}
        self.headers: dict[str, str] = {}
        for table in self._tables:
            if headers and table.name in headers:
                self._read_header(table, headers[table.name])
        self.wanted = Wanted(self._anchors(), self._read_lines, self._only())

    def read(self, candidates: Iterator[Candidate]) -> Iterator[ReadLine]:
        """Parse candidate lines, and yield each with its records.

        candidates: from a `Pass` that searches for the anchors in `wanted` of this reader.
        """
        for candidate in candidates:
            if candidate.batch is not None:
                yield ReadLine(candidate, [*candidate.batch.readings])
                continue
            log_formats, tables = self._concerned(candidate.anchors)
            if candidate.steps is not None:
                yield ReadLine(candidate, [(log_formats[0], Records([candidate.steps]))])
                continue
            offset, line = candidate[:2]
            text = decode(line)
            readings: list[tuple[AnyFormat, Sequence[Record]]] = []
            for log_format in log_formats:
                block = _block(candidate, log_format) if log_format.following else text
                readings.append((log_format, [*log_format.parse(offset, block)]))
            if tables or self._open:
                readings += self._read_tables(candidate, text, tables)
            yield ReadLine(candidate, readings)

    def _concerned(self, key: tuple[bytes, ...]) -> tuple[list[LogFormat], list[TableFormat]]:
        """Return the formats and the tables that may concern a line with the anchors `key`.

        A format may read the line if `key` contains one of its anchors. The header of a table may
        be on the line if `key` contains the table's `header`.
        """
        if (formats := self._known.get(key)) is None:
            anchors = set(key)
            formats = self._known[key] = (
                [
                    log_format
                    for log_format in self._log_formats
                    if not anchors.isdisjoint(log_format.anchors)
                ],
                [table for table in self._tables if table.header in anchors],
            )
        return formats

    def _read_lines(self, anchors: tuple[bytes, ...]) -> ReadLines | None:
        """Return functions that read many lines with these anchors at once.

        Returns None if lines with these anchors must be read one by one.
        """
        log_formats, _ = self._concerned(anchors)
        others = {*anchors}.difference(*(log_format.anchors for log_format in log_formats))
        of_tables = (
            anchor for open_table in self._open.values() for anchor in open_table.table.anchors
        )
        if (
            others
            or any(log_format.following for log_format in log_formats)
            or not self._more_anchors.keys().isdisjoint(anchors)
            or not {*anchors}.isdisjoint([*of_tables, *(table.header for table in self._tables)])
        ):
            return None
        columns = self._read_columns(log_formats[0]) if len(log_formats) == 1 else None
        return ReadLines(columns, self._read_batch)

    def _read_columns(self, log_format: LogFormat) -> ReadColumns | None:
        """Return the function that reads steps of a format as columns; None if there is none.

        Each call for the same format returns the same function, so that functions can be compared.
        """
        parse_lines = log_format.parse_lines
        if parse_lines is None:
            return None
        return self._columns.setdefault(
            log_format.name, lambda offsets, lines: parse_lines(offsets, decode(lines))
        )

    def _read_batch(self, lines: Sequence[tuple[int, tuple[bytes, ...]]], text: bytes) -> LineBatch:
        """Return the records of lines; stop before a line that may end a run or cannot be parsed.

        lines: the offset and the anchors of each line. text: the text of all lines.
        """
        readings: list[tuple[AnyFormat, Sequence[Record]]] = []
        for number, ((offset, anchors), line) in enumerate(
            zip(lines, decode(text).split("\n"), strict=False)
        ):
            line_readings = []
            for log_format in self._concerned(anchors)[0]:
                records = [*log_format.parse(offset, line.removesuffix("\r"))]
                if records:
                    line_readings.append((log_format, records))
                if not all(map(_just_goes_on, records)) or (
                    not records and log_format.looks_like_report(line)
                ):
                    return LineBatch(readings, number)
            readings += line_readings
        return LineBatch(readings, len(lines))

    def _only(self) -> dict[bytes, re.Pattern[bytes]]:
        """Return patterns by anchor; an anchor counts only on lines that match its pattern.

        The pattern is `only` of the anchor's format. Anchors without such a pattern, and anchors
        that several formats use, are left out.
        """
        users = Counter(anchor for log_format in self._log_formats for anchor in log_format.anchors)
        users.update(anchor for table in self._tables for anchor in (table.header, *table.anchors))
        return {
            anchor: log_format.only
            for log_format in self._log_formats
            for anchor in log_format.anchors
            if log_format.only is not None and users[anchor] == 1
        }

    def _read_tables(
        self, candidate: Candidate, text: str, headed: list[TableFormat]
    ) -> Iterator[tuple[AnyFormat, list[Record]]]:
        """Yield pairs: an open table, and the records of its rows on the line.

        A table is open after its header was read; other tables are not read.
        headed: tables whose header is on this line. The line is not read as a row of these tables.
        """
        before = set(self._open)
        for table in headed:
            self._read_header(table, text)
        for rows in [*self._open.values()]:
            if rows.table in headed or not any(a in candidate.anchors for a in rows.table.anchors):
                continue
            records = list(rows.parse(candidate.offset, text))
            if records:
                rows.lines_without_row = 0
                yield rows.table, records
                continue
            rows.lines_without_row += 1
            if rows.lines_without_row > _LINES_WITHOUT_ROW:
                del self._open[rows.table.name], self.headers[rows.table.name]
        if before != set(self._open):
            self.wanted.change(self._anchors())

    def _read_header(self, table: TableFormat, text: str) -> None:
        if parse := table.row(text):
            self._open[table.name] = _OpenTable(table, parse)
            self.headers[table.name] = text

    def _anchors(self) -> dict[bytes, int]:
        """Return the anchors to search for, each with its number of following lines."""
        anchors = dict(self._more_anchors)
        for log_format in self._log_formats:
            for anchor in log_format.anchors:
                anchors[anchor] = max(anchors.get(anchor, 0), log_format.following)
        for table in self._tables:
            anchors.setdefault(table.header, 0)
        for rows in self._open.values():
            for anchor in rows.table.anchors:
                anchors.setdefault(anchor, 0)
        return anchors


def read_records(
    path: LogPath,
    formats: Sequence[AnyFormat],
    *,
    start: int = 0,
    complete: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Record]:
    """Yield the records that any of `formats` finds in a log, in the order of the lines.

    Reading begins at `start`, the offset of a line. In a compressed log, offsets count decompressed
    bytes. Pass `complete=False` while a program still writes the log: a last line without a newline
    may be half written, and is left out. Memory does not grow with the log: it takes `chunk_bytes`
    and the length of the longest line. Raises OSError.
    """
    bounds = Bounds(chunk_bytes=chunk_bytes, complete=complete)
    with open_source(path) as source:
        reader = LineReader(formats)
        lines = Pass(source, reader.wanted, bounds, begin=start)
        for _, readings in reader.read(iter(lines)):
            for _, records in readings:
                yield from records


@cache
def _report_pattern(log_format: LogFormat) -> re.Pattern[str]:
    anchors = "|".join(re.escape(anchor.decode()) for anchor in log_format.anchors)
    return log_format.report or re.compile(rf"(?:{anchors})[^\r]{{0,{_NUMBER_WITHIN}}}?[0-9]")


def _just_goes_on(record: Record) -> bool:
    """Return False if a record may show the end of its run, otherwise True.

    These records may show it: the last step of the run, a report whose loss is nan or inf, and a
    step without a loss that reports nan iterations.
    """
    if isinstance(record, Step):
        last = record.iterations is not None and record.iteration >= record.iterations
        return record.has_finite_loss and not last
    return not isinstance(record, LossReport) or math.isfinite(record.loss)


def decode(line: bytes) -> str:
    """Return lines as text, without what a terminal or a collector of logs has added to them.

    A terminal's colours are left out. Invalid UTF-8 is replaced.
    """
    text = line.decode("utf-8", errors="replace")
    if _is_from_terminal(text) or _is_from_collector(text):
        # Each line alone, so that it has the same text whether or not others are read with it.
        return "\n".join(map(_cleaned, text.split("\n")))
    return text


def _is_from_terminal(text: str) -> bool:
    return "\x1b" in text or "[0m" in text or "[39m" in text or "#033" in text


def _is_from_collector(text: str) -> bool:
    return "#01" in text or "across cluster]" in text


def _cleaned(text: str) -> str:
    if _is_from_terminal(text):
        text = _TERMINAL_CODE.sub("", text)
    if _is_from_collector(text):
        text = _AT_END.sub("", text).replace("#011", "\t").replace("#015", "\r")
    return text


def _block(candidate: Candidate, log_format: LogFormat) -> str:
    """Return one text: a line, and the following lines that belong to it in this format."""
    count = 1 + log_format.following
    lines = (candidate.line + candidate.following).split(b"\n", count)[:count]
    return decode(b"\n".join(line.removesuffix(b"\r") for line in lines))
