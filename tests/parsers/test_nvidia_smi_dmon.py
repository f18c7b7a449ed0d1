"""Parse samples of `nvidia-smi dmon`, and the table that plain `nvidia-smi` prints."""

from collections.abc import Callable, Iterator

import pytest

from parsers.formats.nvidia_smi import NVIDIA_SMI_DMON, NVIDIA_SMI_TABLE
from parsers.records import Record, Usage, UsageSource


def rows(header: str) -> Callable[[int, str], Iterator[Record]]:
    """Return the parser of the rows below a header of dmon."""
    row = NVIDIA_SMI_DMON.row(header)
    assert row is not None
    return row


DMON = "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk"
DMON_ROW = "    3    70    48     -    85    61     0     0  7000  1350"
WITH_MEMORY = "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa     fb   bar1 "
WITH_MEMORY_ROW = (
    "    3     70     48      -     85     61      0      0      0      -   4096      5 "
)
DATED = "#Date       Time        gpu    sm   mem    fb"
DATED_ROW = " 20240301  12:00:00      3    85    61  4096"
FILLED = Usage(source=UsageSource.NVIDIA_SMI, device=3, memory_allocated_gib=4.0, offset=7)
BUSY = Usage(source=UsageSource.NVIDIA_SMI, device=3, gpu_utilization_percent=85.0, offset=7)

SAMPLES = {
    "default columns": (DMON, DMON_ROW, [BUSY]),
    "with used memory": (
        WITH_MEMORY,
        WITH_MEMORY_ROW,
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                device=3,
                gpu_utilization_percent=85.0,
                memory_allocated_gib=4.0,
                offset=7,
            )
        ],
    ),
    "memory alone": ("# gpu    fb  bar1", "    3  4096     5", [FILLED]),
    "with date and time": (
        DATED,
        DATED_ROW,
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                device=3,
                gpu_utilization_percent=85.0,
                memory_allocated_gib=4.0,
                timestamp="2024-03-01T12:00:00",
                offset=7,
            )
        ],
    ),
    "with a time alone": (
        "#Time        gpu    sm   mem",
        " 12:00:00      3    85    61",
        [BUSY],
    ),
    "unknown use": (DMON, DMON_ROW.replace("85", " -"), []),
    "between carriage returns": (DMON, f"\r{DMON_ROW}\r", [BUSY]),
    "the header again": (DMON, DMON, []),
    "the line of units": (DMON, "# Idx     W     C     C     %     %     %     %   MHz   MHz", []),
    "a column too few": (DMON, DMON_ROW[: DMON_ROW.rindex(" ")], []),
    "a column too many": (DMON, DMON_ROW + "  5", []),
    "numbers behind a word": ("# gpu    fb  bar1", "steps:  3  4096  5", []),
    "a word": (DMON, DMON_ROW.replace("85", "sm"), []),
}


@pytest.mark.parametrize(("header", "row", "records"), SAMPLES.values(), ids=SAMPLES.keys())
def test_a_sample_of_dmon_is_read_by_the_names_of_its_columns(
    header: str, row: str, records: list[Record]
) -> None:
    """Columns are recognized by their titles.

    The column `mem` is a utilization and not the used memory. A value `-` is None.
    """
    assert list(rows(header)(7, row)) == records


@pytest.mark.parametrize(
    "line",
    [
        "",
        "gpu  sm",
        "# gpu        pid  type    sm   mem   enc   dec   command",
        "# gpu   pwr gtemp mtemp",
        "using gpu  0 of 8",
        "# a gpu  of ours",
    ],
)
def test_other_lines_with_a_gpu_are_not_headers_of_dmon(line: str) -> None:
    """Other lines with the word `gpu` are not headers of dmon's table of devices.

    An example is the header of dmon's table of processes.
    """
    assert NVIDIA_SMI_DMON.row(line) is None


TABLE = {
    "of 2021": (
        "| N/A   51C    P0    67W / 400W |   4096MiB / 40960MiB |     85%      Default |",
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                memory_allocated_gib=4.0,
                gpu_utilization_percent=85.0,
                offset=7,
            )
        ],
    ),
    "of 2024": (
        "| N/A   33C    P0              62W / 400W |      0MiB / 81920MiB |      0%   Default |",
        [
            Usage(
                source=UsageSource.NVIDIA_SMI,
                memory_allocated_gib=0.0,
                gpu_utilization_percent=0.0,
                offset=7,
            )
        ],
    ),
    "a partitioned device": (
        "0: | N/A   33C    P0     62W / 400W |   4096MiB / 81920MiB |     N/A      Default |",
        [Usage(source=UsageSource.NVIDIA_SMI, memory_allocated_gib=4.0, offset=7)],
    ),
    "a partition": ("|  0    7   0   0  |     12MiB /  9856MiB  | 14      0 |  1   0    0 |", []),
    "a process": ("|    0   N/A  N/A     12345      C   python         1234MiB |", []),
    "cut": ("| N/A   51C    P0    67W / 400W |   4096MiB / 40960MiB |     8", []),
}


@pytest.mark.parametrize(("line", "records"), TABLE.values(), ids=TABLE.keys())
def test_a_device_s_row_in_the_table_is_read(line: str, records: list[Record]) -> None:
    """The rows of GPUs in the tables of old and new drivers are read; rows of processes are not."""
    assert list(NVIDIA_SMI_TABLE.parse(7, line)) == records
