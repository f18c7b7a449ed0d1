"""Find where a job's last start begins in its log, if Slurm started the job several times."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from parsers.records import Record, Setting
from parsers.scan.reader import LogFormat

# Job scripts print this line when they are started again.
_LINE = r"^\[teralog\] job [0-9]+ starts again: restart [0-9]+$"
_STARTS_AGAIN = re.compile(_LINE.encode(), re.MULTILINE)
_CHUNK_BYTES = 1 << 20
_LINE_BYTES = 200


def last_start(log: Path) -> int:
    """Return the position in a log, in bytes, at which the job's last start begins.

    Returns 0 if Slurm started the job only once.
    """
    end = log.stat().st_size
    with log.open("rb") as file:
        while end > 0:
            begin = max(end - _CHUNK_BYTES, 0)
            # The byte before shows whether a line begins here; bytes after `end` complete a line.
            offset = max(begin - 1, 0)
            file.seek(offset)
            part = file.read(end - offset + _LINE_BYTES)
            offsets = [
                match.start()
                for match in _STARTS_AGAIN.finditer(part)
                if match.start() or not offset
            ]
            if offsets:
                return offset + offsets[-1]
            end = begin
    return 0


def _parse(offset: int, line: str) -> Iterator[Setting]:
    if re.fullmatch(_LINE, line):
        yield Setting(name=STARTS_AGAIN.name, value="yes", source="report", offset=offset)


STARTS_AGAIN = LogFormat(
    name="start of a job that was requeued", anchors=(b"[teralog] job ",), parse=_parse
)
"""The same line, for a reader of a log that grows: see `since_last_start`."""


def since_last_start(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records that a job wrote to its log after Slurm last started the job.

    records: all records of the log. They are all returned if Slurm started the job only once.
    """
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if isinstance(record, Setting) and record.name == STARTS_AGAIN.name:
            return records[index + 1 :]
    return records
