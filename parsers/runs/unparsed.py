"""Find the lines of a log that look like a report but could not be parsed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parsers.formats.table import ALL_FORMATS
from parsers.scan.candidates import Pass
from parsers.scan.reader import AnyFormat, LineReader, LogFormat, decode
from parsers.scan.sources import LogPath, open_source
from parsers.scan.window import Bounds


class UnparsedLine(NamedTuple):
    """The text of a line, its number from 1, and the name of the format that the line resembles."""

    number: int
    format_name: str
    text: str


def unparsed_lines(
    log: LogPath, formats: Sequence[AnyFormat] = ALL_FORMATS
) -> Iterator[UnparsedLine]:
    """Yield the lines that `LogRun.not_understood` counts, in their order. Raises OSError."""
    reader = LineReader(formats)
    with open_source(log) as source:
        lines = Pass(source, reader.wanted, Bounds(), count_lines=True)
        for candidate, readings in reader.read(iter(lines)):
            for log_format, records in readings:
                if (
                    not records
                    and isinstance(log_format, LogFormat)
                    and log_format.looks_like_report(decode(candidate.line))
                ):
                    text = decode(candidate.line).rstrip("\r")
                    yield UnparsedLine(candidate.number or 0, log_format.name, text)
