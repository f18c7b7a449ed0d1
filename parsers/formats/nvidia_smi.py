"""Parse samples of nvidia-smi: a CSV query, `dmon`, and the table of a plain call.

    timestamp, index, utilization.gpu [%], memory.used [MiB]        --query-gpu=… --format=csv
    2024/03/01 12:00:00.000, 0, 85 %, 4096 MiB
    # gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb   bar1        dmon -s pucm
    # Idx      W      C      C      %      %      %      %     MB     MB
        0     70     48      -     95     61      0      0   4198      5
    | N/A   51C    P0    67W / 400W |   4096MiB / 40960MiB |     85%      Default |

Each row becomes a `Usage` of one device at one moment. Its memory is that of the whole device,
including the driver and other processes. MiB are 2**20 bytes, and so are dmon's "MB".

* The header gives the columns, in any order; a later header replaces an earlier one. Cells such as
  `[N/A]` and `[Not Supported]` are unknown. A query with `noheader` can be read only if the log
  also contains its command, printed by `set -x`. Without the command, 40 % may be the use of the
  GPU or of its memory's bandwidth, so nothing is read.
* dmon's `mem` is the use of the memory's bandwidth. Used memory is `fb`, which dmon prints only
  with `-s m`. Its time without a date (`-o T`) makes no timestamp.
* Scripts often call plain nvidia-smi before the program starts. Then the first rows of a log are
  those of idle devices, and do not show a run's use. Such a row does not name its device; the line
  above it does.
* The last number of a torn CSV row is ignored if only the other numbers of the row have a unit. In
  two cases the torn number is read, e.g. 40 instead of 4096: with `nounits`, because no number has
  a unit; and if it is the row's only number.
"""

import re
from collections.abc import Callable, Iterator

from parsers.fields import COUNT, whole
from parsers.labels import LABELS
from parsers.records import Usage, UsageSource
from parsers.scan.reader import LogFormat, TableFormat

_Row = Callable[[int, str], Iterator[Usage]]

# A row fills its line, except for labels or a progress bar before it. If other text is there, a few
# numbers are not enough: the row must have a unit, a date, or many numbers. The same holds for
# labels, unless they are those of a rank or those of the header.
_START = (
    r"(?:(?:^|\r|/(?:s|it)\])(?: {0,5}[0-9]{1,5}: ?|\[\w{1,20}\]: ?)?"
    rf"|(?P<foreign>{LABELS}|[\]:>] ?))[ \t]*"
)
_END = r"[ \t]*(?=$|\r)"
_MANY_COLUMNS = 5
_DIGITS = re.compile("[0-9]+")

_NAME = r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*"
_HEADER_CELL = rf"{_NAME}(?: \[[A-Za-z%]+\])?"
_CSV_HEADER = re.compile(rf"{_START}(?P<names>{_HEADER_CELL}(?:, {_HEADER_CELL})*){_END}")
_COMMAND = re.compile(rf"nvidia-smi\b.{{0,1000}}? --query-gpu=(?P<names>{_NAME}(?:,{_NAME})*)")
_UNAVAILABLE = r"\[[A-Z][^\[\],]{0,60}\]|N/A"
_CSV_CELLS = {
    "timestamp": r"(?P<date>[0-9]{4}/[0-9]{2}/[0-9]{2}) (?P<time>[0-9:]{8}(?:\.[0-9]{1,6})?)",
    "index": r"(?P<device>[0-9]{1,4})",
    "utilization.gpu": rf"(?:(?P<utilization>{COUNT})(?P<percent> %)?|{_UNAVAILABLE})",
    "memory.used": rf"(?:(?P<mib>{COUNT})(?P<unit> MiB)?|{_UNAVAILABLE})",
}
_OTHER_CELL = r"[^,\r\n]{0,200}?"

_DMON_HEADER = re.compile(
    rf"#\s*(?P<names>(?:Date\s+)?(?:Time\s+)?gpu(?:\s+[A-Za-z][A-Za-z0-9_]*)+){_END}"
)
_DMON_CELLS = {
    "Date": r"(?P<date>[0-9]{8})",
    "Time": r"(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})",
    "gpu": r"(?P<device>[0-9]{1,4})",
    "sm": rf"(?:(?P<utilization>{COUNT})|-)",
    "fb": rf"(?:(?P<mib>{COUNT})|-)",
}
_DMON_OTHER_CELL = r"(?:[0-9.]{1,18}|-)"

_TABLE_ROW = re.compile(
    rf"\|\s+(?P<mib>{COUNT})MiB\s*/\s*{COUNT}MiB\s+\|\s+(?:(?P<utilization>{COUNT})%|N/A)\s"
)


def _parse_table(offset: int, line: str) -> Iterator[Usage]:
    for match in _TABLE_ROW.finditer(line):
        yield from _usage(offset, match)


def _csv_row(header: str) -> _Row | None:
    matches = [*_CSV_HEADER.finditer(header)]
    if "noheader" in header:
        matches += _COMMAND.finditer(header)
    for match in matches:
        names = [cell.split(" ")[0] for cell in re.split(", ?", match["names"])]
        if {"utilization.gpu", "memory.used"} & set(names):
            labels = match.groupdict().get("foreign")
            return _row(names, labels, _CSV_CELLS, _OTHER_CELL, ", ")
    return None


def _csv_memory_row(header: str) -> _Row | None:
    return None if "utilization.gpu" in header else _csv_row(header)


def _dmon_row(header: str) -> _Row | None:
    if not (match := _DMON_HEADER.search(header)):
        return None
    names = match["names"].split()
    if "pid" in names or not {"sm", "fb"} & set(names):
        return None  # pmon, or columns without use here
    return _row(names, header[: match.start()], _DMON_CELLS, _DMON_OTHER_CELL, r"\s+")


def _row(
    names: list[str], labels: str | None, cells: dict[str, str], other: str, separator: str
) -> _Row | None:
    """Return a function that parses rows with these columns; None if a column occurs twice.

    names: the names of the columns, in order. labels: the labels before the header, if any.
    cells: a regular expression for the cells of each known column, by the column's name. other:
    the regular expression for the cells of all other columns. separator: the regular expression
    for the text between two cells.
    """
    if len(set(names)) < len(names):
        return None
    row = re.compile(_START + separator.join(cells.get(name, other) for name in names) + _END)

    def parse(offset: int, line: str) -> Iterator[Usage]:
        for match in row.finditer(line):
            values = match.groupdict()
            # Whether numbers have a unit, None if a cell has no number.
            units = {
                values[unit] is not None
                for number, unit in (("utilization", "percent"), ("mib", "unit"))
                if values.get(number) and unit in values
            }
            if units == {True, False}:
                continue  # cut off within its last cell
            sure = values.get("date") or True in units or len(names) >= _MANY_COLUMNS
            if sure or not (foreign := values["foreign"]) or _is_alike(foreign, labels):
                yield from _usage(offset, match)

    return parse


def _is_alike(labels: str, others: str | None) -> bool:
    """Return whether the labels of two lines differ only in digits, e.g. those of a time."""
    return others is not None and _DIGITS.sub("0", labels) == _DIGITS.sub("0", others)


def _usage(offset: int, match: re.Match[str]) -> Iterator[Usage]:
    values = match.groupdict()
    mib, utilization, device = (values.get(name) for name in ("mib", "utilization", "device"))
    if mib is not None or utilization is not None:
        yield Usage(
            source=UsageSource.NVIDIA_SMI,
            device=whole(device),
            memory_allocated_gib=None if mib is None else int(mib) / 1024,
            gpu_utilization_percent=None if utilization is None else float(utilization),
            timestamp=_timestamp(values.get("date"), values.get("time")),
            offset=offset,
        )


def _timestamp(date: str | None, time: str | None) -> str | None:
    if date is None or time is None:
        return None
    digits = date.replace("/", "")
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}T{time}"


NVIDIA_SMI_TABLE = LogFormat(name="nvidia-smi", anchors=(b"MiB / ",), parse=_parse_table)

NVIDIA_SMI_CSV = TableFormat(
    name="nvidia-smi CSV", header=b"utilization.gpu", anchors=(b", ", b" %"), row=_csv_row
)

# A query of memory without utilisation has a header of its own.
NVIDIA_SMI_MEMORY_CSV = TableFormat(
    name="nvidia-smi CSV, memory only",
    header=b"memory.used",
    anchors=(b", ", b" MiB"),
    row=_csv_memory_row,
)

NVIDIA_SMI_DMON = TableFormat(
    name="nvidia-smi dmon", header=b"gpu  ", anchors=(b"  ",), row=_dmon_row
)
