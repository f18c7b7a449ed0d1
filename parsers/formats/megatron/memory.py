"""Parse memory reports of Megatron's ranks: torch's allocator after the first iterations.

The first rank of each data-parallel group prints one report. The ranks print independently, so one
line may contain several reports. "MB" is 2**20 bytes. Up to core 0.15, each number is an exact
count of bytes divided by 2**20; since 0.16 it is rounded to two decimals. If the last number of a
line has neither form, the line was torn. Versions without pipeline parallelism (Megatron up to
1.1.5, gpt-neox) print only the report of the first rank, without the rank's number.

Megatron-Bridge prints names of its own. Its GB are 10**9 bytes, with five digits. A number without
a bar after it may be torn, and is not read.
"""

import re
from collections.abc import Iterator
from typing import Any

from parsers.fields import COUNT, NUMBER, matches, whole
from parsers.records import Usage, UsageSource
from parsers.scan.reader import LogFormat

# [Rank 51] (after 20 iterations) memory (MB) | allocated: 19494.453125 | max allocated: 22106.01…
#     | reserved: 26716.0 | max reserved: 26716.0
# after 1 iterations memory (MB) | …                             up to 1.1.5, and gpt-neox
# … | cached: 12906.0 | max cached: 12906.0                      1.0
# … | max reserved: 26716.00 | total device memory used: 30720.00     core since 0.16, by option
_MIB = r"[0-9]{1,12}\.[0-9]{1,24}"
_REPORT = re.compile(
    rf"(?:(?:\[Rank (?P<rank>{COUNT})\] )?\(?after (?P<iteration>{COUNT}) iterations\)? )?"
    rf"memory \(MB\) \| allocated: (?P<allocated>{_MIB}) \| max allocated: (?P<peak>{_MIB})"
    rf" \| (?:cached/)?(?:cached|reserved): (?P<reserved>{_MIB})"
    rf" \| max (?:cached/)?(?:cached|reserved): (?P<max_reserved>{_MIB})(?P<more> \|)?"
)


def _parse(offset: int, line: str) -> Iterator[Usage]:
    for report in filter(_is_whole, matches(_REPORT, line)):
        yield Usage(
            source=UsageSource.TORCH,
            iteration=whole(report["iteration"]),
            rank=whole(report["rank"]),
            memory_allocated_gib=float(report["allocated"]) / 1024,
            max_memory_allocated_gib=float(report["peak"]) / 1024,
            memory_reserved_gib=float(report["reserved"]) / 1024,
            max_memory_reserved_gib=float(report["max_reserved"]) / 1024,
            offset=offset,
        )


def _is_whole(report: re.Match[str]) -> bool:
    """Return whether the last number of a memory report was printed completely.

    This is certain if a bar (`|`) follows the number. Otherwise, the number must have the form that
    the program's version prints: two decimals, or an exact number of bytes divided by 2**20.
    """
    if report["more"]:
        return True
    first_ones, last = report.group("allocated", "peak", "reserved"), report["max_reserved"]
    if all(_decimals(number) == 2 for number in first_ones):
        return _decimals(last) == 2
    return (float(last) * 2**20).is_integer()


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


# [Rank 0] (after 1 iterations) memory (GB) | mem-allocated-gigabytes: 51.072 | …
#     | mem-max-reserved-gigabytes: 216.89 | mem-alloc-retires: 0 | mem-allocated-count: 571
_BRIDGE = re.compile(
    rf"\[Rank (?P<rank>{COUNT})\] \(after (?P<iteration>{COUNT}) iterations\) memory \(GB\) \|"
    r"(?P<fields>(?: [\w-]+: [0-9.e-]+ \|)+)"
)
_BRIDGE_FIELD = re.compile(
    r" mem-(?P<name>allocated|max-allocated|reserved|max-reserved)-gigabytes:"
    rf" (?P<gigabytes>{NUMBER}) \|"
)
_BRIDGE_NAMES = {
    "allocated": "memory_allocated_gib",
    "max-allocated": "max_memory_allocated_gib",
    "reserved": "memory_reserved_gib",
    "max-reserved": "max_memory_reserved_gib",
}


def _parse_bridge(offset: int, line: str) -> Iterator[Usage]:
    for report in matches(_BRIDGE, line):
        values: dict[str, Any] = {
            _BRIDGE_NAMES[field["name"]]: float(field["gigabytes"]) * 1e9 / 2**30
            for field in _BRIDGE_FIELD.finditer(report["fields"])
        }
        if values:
            yield Usage(
                source=UsageSource.TORCH,
                iteration=int(report["iteration"]),
                rank=int(report["rank"]),
                offset=offset,
                **values,
            )


MEGATRON_MEMORY = LogFormat(
    name="Megatron memory", anchors=(b"memory (MB) | allocated: ",), parse=_parse
)
BRIDGE_MEMORY = LogFormat(
    name="Megatron-Bridge memory", anchors=(b"memory (GB) | ",), parse=_parse_bridge
)
