"""Parse Megatron's timers and DeepSpeed's wall-clock breakdown: parts of an iteration.

All values are milliseconds with two decimals. If the last number has fewer decimals, it was torn
and is left out.

Megatron's timers are means over the iterations since the previous report. Up to August 2022,
Megatron printed the timers of one rank on one line. Since then it prints a title, and the timers of
all ranks on lines below.

DeepSpeed prints its timers with `wall_clock_breakdown`, on rank 0. Some are of a micro-step, others
of a whole step.
"""

import re
from collections.abc import Iterator

from parsers.fields import NUMBER_ENDS, matches
from parsers.labels import after_labels
from parsers.records import Timers
from parsers.scan.reader import LogFormat

_MS = rf"[0-9]{{1,12}}\.[0-9]{{2}}{NUMBER_ENDS}"

# time (ms) | forward-compute: 148.22 | forward-recv: 508.65 | …
# rank=0 time (ms) | forward_microstep: 6567.68 | …              DeepSpeed 0.3 to 0.10
# time (ms) | fwd: 1.00 (fwd_moe: 0.50, 1st_a2a: 0.20) | …       DeepSpeed, mixture of experts
_TITLE = re.compile(r"time \(ms\)(?= \| )")
_TIMER = re.compile(rf" \| (?P<name>[\w][\w /.-]{{0,60}}): (?P<ms>{_MS})(?P<parts> \([^()|]+\))?")
_PART = re.compile(rf"(?P<name>\w[\w /.-]{{0,60}}): (?P<ms>{_MS})(?=[,)])")

# (min, max) time across ranks (ms):                             max time across ranks (ms):
#     forward-backward ......................: (210.40, 221.30)      save-checkpoint .....: 18512.90
_ACROSS = re.compile(r"(?:\(min, max\)|max) time across ranks \(ms\):")
_ROW = re.compile(
    rf"(?<![^\s\]:>])(?P<name>[A-Za-z][\w/-]*) \.+:"
    rf" (?:\({_MS}, (?P<slowest>{_MS})\)|(?P<only>{_MS}))"
)

# times across ranks (ms):
#   forward-backward:
#      rank  0: 210.40
_ALL_RANKS = re.compile(r"times across ranks \(ms\):")
_NAME = r"(?:.*\r)?  (?P<name>[^\s:][^:]{0,60}):\s*$"
_RANK = rf"(?:.*\r)?     rank +[0-9]{{1,9}}: (?P<ms>{_MS})\s*$"

_LONGEST_BLOCK = 48
_LONGEST_BLOCK_OF_RANKS = 1024


def _timers(offset: int, pairs: list[tuple[str, str]]) -> Iterator[Timers]:
    if pairs:
        seconds = tuple((name.strip(), float(ms + "e-3")) for name, ms in pairs)
        yield Timers(seconds=seconds, offset=offset)


def _parse_line(offset: int, line: str) -> Iterator[Timers]:
    for title in matches(_TITLE, line):
        pairs: list[tuple[str, str]] = []
        position = title.end()
        while timer := _TIMER.match(title.string, position):
            pairs.append((timer["name"], timer["ms"]))
            parts = _PART.finditer(timer["parts"] or "")
            pairs += [(part["name"], part["ms"]) for part in parts]
            position = timer.end()
        yield from _timers(offset, pairs)


def _parse_block(offset: int, text: str) -> Iterator[Timers]:
    """Yield one record with the timers below a title line, up to the first line without a timer."""
    first, *below = text.split("\n")
    if not (title := next(matches(_ACROSS, first), None)):
        return
    pairs = _rows(title.string[title.end() :])
    for line in below:
        if _ACROSS.search(line) or not (rows := _rows(line)):
            break
        pairs += rows
    yield from _timers(offset, pairs)


def _rows(line: str) -> list[tuple[str, str]]:
    return [(row["name"], row["slowest"] or row["only"]) for row in _ROW.finditer(line)]


def _parse_ranks(offset: int, text: str) -> Iterator[Timers]:
    """Yield one record with the timers below a title line, each with the time of its slowest rank.

    Each timer is a line with its name, and below it one line per rank. The log may end within a
    line, or before the lines of all ranks. So the last line of the text is not read. A timer is
    used only if another line comes after the lines of its ranks.
    """
    first, *below = text.split("\n")[:-1] or [text]
    if not any(matches(_ALL_RANKS, first)):
        return
    pairs: list[tuple[str, str]] = []
    name, slowest = "", ""
    for line in below:
        if name and (rank := after_labels(_RANK).match(line)):
            slowest = max(slowest or rank["ms"], rank["ms"], key=float)
            continue
        if slowest:
            pairs.append((name, slowest))
        if not (heading := after_labels(_NAME).match(line)):
            break
        name, slowest = heading["name"], ""
    yield from _timers(offset, pairs)


TIMERS = LogFormat(name="timers", anchors=(b"time (ms) | ",), parse=_parse_line)
MEGATRON_TIMERS = LogFormat(
    name="Megatron timers",
    anchors=(b" time across ranks (ms):",),
    parse=_parse_block,
    following=_LONGEST_BLOCK,
)
MEGATRON_RANK_TIMERS = LogFormat(
    name="Megatron timers of every rank",
    anchors=(b"times across ranks (ms):",),
    parse=_parse_ranks,
    following=_LONGEST_BLOCK_OF_RANKS,
)
