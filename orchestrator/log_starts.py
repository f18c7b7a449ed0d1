"""Where in a log a job's last start begins, when Slurm has started it several times."""

import re
from pathlib import Path

# Job scripts print this line when they are started again.
_STARTS_AGAIN = re.compile(rb"^\[teralog\] job [0-9]+ starts again: restart [0-9]+$", re.MULTILINE)
_CHUNK_BYTES = 1 << 20
_LINE_BYTES = 200


def last_start(log: Path) -> int:
    """Return the byte at which the last start of a log begins; 0 where there was only one."""
    end = log.stat().st_size
    with log.open("rb") as file:
        while end > 0:
            begin = max(end - _CHUNK_BYTES, 0)
            # The byte before tells whether a line begins here, those behind are a line that began.
            offset = max(begin - 1, 0)
            file.seek(offset)
            part = file.read(end - offset + _LINE_BYTES)
            found = [
                match.start()
                for match in _STARTS_AGAIN.finditer(part)
                if match.start() or not offset
            ]
            if found:
                return offset + found[-1]
            end = begin
    return 0
