"""Parse DeepSpeed's reports of memory."""

from pathlib import Path

import pytest
from reports import cases, parse

from parsers.formats.deepspeed_memory import DEEPSPEED_MEMORY
from parsers.records import Record, Usage, UsageSource

LOGS = Path(__file__).parents[3] / "shared" / "logs"


LOGGED = "[2026-01-02 03:04:05,678] [INFO] [utils.py:822:see_memory_usage] "
DEVICE = "MA 0.28 GB         Max_MA 0.29 GB         CA 2.93 GB         Max_CA 3 GB "
HOST = "CPU Virtual Memory:  used = 65.88 GB, percent = 3.3%"
ALONE = Usage(
    source=UsageSource.DEEPSPEED,
    memory_allocated_gib=0.28,
    max_memory_allocated_gib=0.29,
    memory_reserved_gib=2.93,
    max_memory_reserved_gib=3.0,
    offset=7,
)
USAGE = Usage(
    source=UsageSource.DEEPSPEED,
    memory_allocated_gib=0.28,
    max_memory_allocated_gib=0.29,
    memory_reserved_gib=2.93,
    max_memory_reserved_gib=3.0,
    host_memory_gib=65.88,
    offset=7,
)
TIMED = Usage(
    source=UsageSource.DEEPSPEED,
    memory_allocated_gib=0.28,
    max_memory_allocated_gib=0.29,
    memory_reserved_gib=2.93,
    max_memory_reserved_gib=3.0,
    host_memory_gib=65.88,
    timestamp="2026-01-02T03:04:05.678",
    offset=7,
)

REPORTS = {
    "printed": (f"{DEVICE}\n{HOST}", [USAGE]),
    "logged": (f"{LOGGED}{DEVICE}\n{LOGGED}{HOST}", [TIMED]),
    "the node's line cut off": (f"{DEVICE}\n{HOST[:-1]}", [ALONE]),
    "the node's line missing": (DEVICE, [ALONE]),
    "another rank's lines between": (f"{DEVICE}\nreduce bucket 5\n[rank1]: 3 GB\n{HOST}", [USAGE]),
    "the next report's node is its own": (f"{DEVICE}\n{DEVICE}\n{HOST}", [ALONE]),
    "both on one line": (f"{DEVICE}{HOST}", [USAGE]),
    "two reports on one line": (f"{DEVICE}{HOST}{DEVICE}{HOST}", [USAGE, USAGE]),
    "spaces collapsed": (f"{' '.join(DEVICE.split())}\n{' '.join(HOST.split())}", [USAGE]),
}

NO_REPORTS = (
    "",
    HOST,
    DEVICE.replace("3 GB", "3"),
    DEVICE.replace("Max_MA", "MaxMA"),
    DEVICE.replace("GB", "MB"),
    DEVICE.replace("0.28", ""),
    DEVICE.replace("0.28", "1,28"),
    DEVICE.removeprefix("M"),
    "LA" + DEVICE,
    'print(f"MA {allocated} GB         Max_MA {peak} GB")',
)


@cases(REPORTS, NO_REPORTS)
def test_two_lines_are_one_report(text: str, records: list[Record]) -> None:
    """A line about the device and a line about the node soon after it are one report.

    Torn lines give no report.
    """
    assert parse(DEEPSPEED_MEMORY, text) == records


@pytest.mark.train
def test_the_installed_deepspeed_s_report_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The memory report that the installed DeepSpeed prints is read."""
    utils = pytest.importorskip("deepspeed.runtime.utils", exc_type=ImportError)
    capsys.readouterr()
    utils.see_memory_usage("now", force=True)
    message, report = capsys.readouterr().out.split("\n", maxsplit=1)
    (usage,) = parse(DEEPSPEED_MEMORY, report)
    assert message == "now"
    assert isinstance(usage, Usage)
    assert usage.memory_allocated_gib is not None
    assert usage.max_memory_reserved_gib is not None
    memory = utils.psutil.virtual_memory()
    assert usage.host_memory_gib == pytest.approx(
        (memory.total - memory.available) / 2**30, rel=0.5
    )


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not next to the checkout")
@pytest.mark.parametrize(
    ("name", "reports"),
    [
        ("gpt2-hf-ds/hf_ds_gpt2_base_n4-1832555.out", 3),
        ("gpt2-hf-ds/hf_ds_gpt2_perf_n16_bs4-mbs8.out", 9),
        ("gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48.out", 5),
    ],
)
def test_each_report_of_the_published_logs_is_read_with_its_node(name: str, reports: int) -> None:
    """A published log gives all its memory reports, each with the memory of the node."""
    lines = (LOGS / name).read_text().splitlines()
    usages = [
        usage
        for number, line in enumerate(lines)
        if "Max_MA " in line
        for usage in parse(DEEPSPEED_MEMORY, "\n".join(lines[number : number + 4]))
    ]
    assert len(usages) == reports
    assert all(isinstance(usage, Usage) and usage.host_memory_gib for usage in usages)
