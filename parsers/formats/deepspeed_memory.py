"""Parse DeepSpeed's `see_memory_usage`: memory of the first rank's device and node.

    [2026-01-02 03:04:05,678] [INFO] [utils.py:822:see_memory_usage] MA 0.28 GB
        Max_MA 0.29 GB         CA 2.93 GB         Max_CA 3 GB                       (one line)
    [2026-01-02 03:04:05,679] [INFO] [utils.py:834:see_memory_usage] CPU Virtual Memory:  used =
        65.88 GB, percent = 3.3%                                                    (one line)

These facts are from deepspeed/runtime/utils.py of 0.19.8, and from logs since 2021. MA is
what torch has allocated, and CA what it has reserved ("cached"); on the CPU both are the
resident set of the process. GB is 2**30 bytes. Max_CA has no decimals, the other values
have two. So the printed Max_CA may be less than CA. DeepSpeed resets the peaks after each
report, so Max_MA is the peak since the previous report. The used host memory is the node's
memory minus the memory that is available to programs. Only the first rank prints. The
newest versions print no time at the start of the line.
"""

import re
from collections.abc import Iterator

from parsers.fields import NUMBER, finite
from parsers.records import Usage, UsageSource
from parsers.scan.reader import LogFormat

_DEVICE = re.compile(
    r"(?:\[(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2}),"
    r"(?P<milliseconds>[0-9]{3})\] \[[A-Z]+\] \[[^\[\]]*\] )?"
    rf"(?<!\w)MA (?P<allocated>{NUMBER}) GB\s+Max_MA (?P<max_allocated>{NUMBER}) GB"
    rf"\s+CA (?P<reserved>{NUMBER}) GB\s+Max_CA (?P<max_reserved>{NUMBER}) GB"
)
_HOST = re.compile(rf"CPU Virtual Memory:\s+used = (?P<used>{NUMBER}) GB, percent = {NUMBER}%")


def _parse(offset: int, text: str) -> Iterator[Usage]:
    line, _, _ = text.partition("\n")
    for match in _DEVICE.finditer(line):
        # Output of other ranks may be between the two lines, but not another report.
        until_next_report, _, _ = text[match.end() :].partition("Max_MA ")
        host = _HOST.search(until_next_report)
        yield Usage(
            source=UsageSource.DEEPSPEED,
            memory_allocated_gib=finite(match["allocated"]),
            max_memory_allocated_gib=finite(match["max_allocated"]),
            memory_reserved_gib=finite(match["reserved"]),
            max_memory_reserved_gib=finite(match["max_reserved"]),
            host_memory_gib=finite(host["used"]) if host else None,
            timestamp=match["date"] and f"{match['date']}T{match['time']}.{match['milliseconds']}",
            offset=offset,
        )


DEEPSPEED_MEMORY = LogFormat(
    name="DeepSpeed see_memory_usage", anchors=(b"Max_MA ",), parse=_parse, following=3
)
