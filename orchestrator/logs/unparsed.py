"""List the lines of logs that look like step reports but could not be parsed."""

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.logs.find import Log
from orchestrator.logs.read import log_source
from parsers.runs.unparsed import unparsed_lines
from parsers.scan.sources import name_of


def unparsed_records(logs: Sequence[Log], problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield an object for each line of the logs that looks like a step report but was not parsed.

    The object contains the log, the line's number (from 1), its text, and the name of the format
    whose reports the line resembles. problems: a list to which a sentence is added for each log
    that cannot be read.
    """
    for log in logs:
        for path in map(log_source, log.files):
            try:
                for line in unparsed_lines(path):
                    yield {
                        "path": name_of(path),
                        "line": line.number,
                        "format": line.format_name,
                        "text": line.text,
                    }
            except OSError as error:
                problems.append(f"{name_of(path)}: cannot be read: {error.strerror or error}")
