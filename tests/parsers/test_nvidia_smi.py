"""Parse samples of nvidia-smi as CSV, in every form."""

from collections.abc import Callable, Iterator

import pytest

from parsers.formats.nvidia_smi import NVIDIA_SMI_CSV, NVIDIA_SMI_MEMORY_CSV
from parsers.records import Record, Usage, UsageSource
from parsers.scan.reader import TableFormat


def rows(table: TableFormat, header: str) -> Callable[[int, str], Iterator[Record]]:
    """Return the parser of the rows below a header."""
    row = table.row(header)
    assert row is not None
    return row


HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB]"
ROW = "2024/03/01 12:00:00.000, 3, 85 %, 4096 MiB"
USAGE = Usage(
    source=UsageSource.NVIDIA_SMI,
    device=3,
    memory_allocated_gib=4.0,
    gpu_utilization_percent=85.0,
    timestamp="2024-03-01T12:00:00.000",
    offset=7,
)
MEMORY_ONLY = Usage(source=UsageSource.NVIDIA_SMI, device=3, memory_allocated_gib=4.0, offset=7)
BAR = " 50%|█████     | 5/10 [00:01<00:01,  4.2it/s]"

CSV = {
    "with units": (HEADER, ROW, [USAGE]),
    "without units": (HEADER, "2024/03/01 12:00:00.000, 3, 85, 4096", [USAGE]),
    "another order, more columns": (
        "name, memory.used [MiB], memory.total [MiB], power.draw [W], utilization.gpu [%], index",
        "NVIDIA A100-SXM4-80GB, 4096 MiB, 81920 MiB, 61.53 W, [N/A], 3",
        [MEMORY_ONLY],
    ),
    "two columns": (
        "utilization.gpu [%], memory.used [MiB]",
        "85 %, 4096 MiB",
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                memory_allocated_gib=4.0,
                gpu_utilization_percent=85.0,
                offset=7,
            )
        ],
    ),
    "bandwidth is not use": (
        "index, utilization.gpu [%], utilization.memory [%], memory.used [MiB]",
        "3, [Not Supported], 99 %, 4096 MiB",
        [MEMORY_ONLY],
    ),
    "nothing is known": (HEADER, "2024/03/01 12:00:00.000, 3, [N/A], [Unknown Error]", []),
    "between carriage returns": (HEADER, f"\r{BAR}\r{ROW}\r", [USAGE]),
    "columns of a command without header": (
        "+ nvidia-smi -l 5 --query-gpu=index,memory.used,utilization.gpu --format=csv,noheader",
        "3, 4096 MiB, [N/A]",
        [MEMORY_ONLY],
    ),
    "columns of a command without header and units": (
        "+ nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv,noheader,nounits",
        "3, 4096, [N/A]",
        [MEMORY_ONLY],
    ),
    "the header again": (HEADER, HEADER, []),
    "a cell too many": (HEADER, ROW + ", 5", []),
    "a cell too few": (HEADER, "2024/03/01 12:00:00.000, 3, 85 %", []),
    "a cell of another kind": (HEADER, ROW.replace("85 %", "4096 MiB"), []),
    "a torn row": (HEADER, ROW[:-1], []),
    "numbers behind a word": ("utilization.gpu [%], memory.used [MiB]", "shape: 12, 34", []),
    "numbers in brackets": ("utilization.gpu [%], memory.used [MiB]", "[12, 34]", []),
    "numbers behind other labels than the header": (
        "main-1  | utilization.gpu [%], memory.used [MiB]",
        "INFO: 12, 34",
        [],
    ),
    "the labels of the header": (
        "2026-01-02 03:04:05 INFO utilization.gpu [%], memory.used [MiB]",
        "2026-01-02 03:04:06 INFO 85, 4096",
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                memory_allocated_gib=4.0,
                gpu_utilization_percent=85.0,
                offset=7,
            )
        ],
    ),
    "prose": ("utilization.gpu [%], memory.used [MiB]", "it took 12, 34 and 5 %, 7 MiB", []),
}


@pytest.mark.parametrize(("header", "row", "records"), CSV.values(), ids=CSV.keys())
def test_a_row_is_read_by_the_names_of_its_columns(
    header: str, row: str, records: list[Record]
) -> None:
    """Columns are recognized by their titles, in any order and with or without units.

    Lines that are not rows of the table give no record.
    """
    assert list(rows(NVIDIA_SMI_CSV, header)(7, row)) == records


@pytest.mark.parametrize(
    "line",
    [
        "",
        "utilization.gpu: 5",
        "+ nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv",  # a header follows
        "    --query-gpu=utilization.gpu,memory.used --format=csv,noheader",
        "nvidia-smi --query-gpu=index --format=csv,noheader  # no utilization.gpu",
        "timestamp,utilization.gpu",
        "Utilization.gpu [%]",
        "utilization.gpu [%], utilization.gpu [%]",
        ROW,
    ],
)
def test_other_lines_with_the_word_are_not_headers(line: str) -> None:
    """Other lines with the column title `utilization.gpu`, e.g. commands, are not headers."""
    assert NVIDIA_SMI_CSV.row(line) is None


def test_a_query_of_memory_alone_is_a_table_of_its_own() -> None:
    """CSV output without utilization has its own format, which reads no other CSV output."""
    row = rows(NVIDIA_SMI_MEMORY_CSV, "index, memory.used [MiB], memory.total [MiB]")
    assert list(row(7, "3, 4096 MiB, 81920 MiB")) == [MEMORY_ONLY]
    assert NVIDIA_SMI_MEMORY_CSV.row(HEADER) is None


def test_a_row_without_an_end_mark_is_read_as_far_as_it_goes() -> None:
    """A torn row without units is read as it is: digits of its last number may be missing."""
    (usage,) = rows(NVIDIA_SMI_CSV, "index, utilization.gpu [%], memory.used [MiB]")(7, "3, 85, 40")
    assert isinstance(usage, Usage)
    assert usage.memory_allocated_gib == 40 / 1024
