"""Read logs through the public functions of the package."""

import io
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import OWN_STEP

from parsers.formats.table import ALL_FORMATS
from parsers.records import Outcome, OutcomeKind, Timers, Usage, UsageSource
from parsers.runs.outcome import read_outcome
from parsers.runs.pairs import read_pair
from parsers.runs.reading import read
from parsers.scan.shared import WORTH_SHARING_BYTES

LOG = (
    "using world size: 8, data-parallel-size: 8\n"
    "[Rank 3] (after 20 iterations) memory (MB) | allocated: 1024.0 | max allocated: 2048.0"
    " | reserved: 2560.0 | max reserved: 2560.0[Rank 4] (after 20 iterations) memory (MB) |"
    " allocated: 1024.0 | max allocated: 2048.0 | reserved: 2560.0 | max reserved: 2560.0\n"
    "|  N/A   46C    P0    44W / 300W |      0MiB / 32510MiB |      0%      Default |\n"
    f"{OWN_STEP.format(1)}time (ms) | forward: 5.25 | backward: 10.50\n{OWN_STEP.format(20)}"
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n"
)


def test_a_run_contains_all_records_of_its_log(tmp_path: Path) -> None:
    """A run has all records, the configuration and the outcome of its log.

    It also has the names of the formats of these records.
    """
    log = tmp_path / "log"
    log.write_text(LOG)
    (run,) = read(log)
    assert (run.path, run.index, run.begin, run.end) == (str(log), 0, 0, len(LOG))
    assert run.lines == 6
    assert [step.iteration for step in run.steps] == [1, 20]
    assert [usage.rank for usage in run.memory_reports] == [3, 4]
    assert [record.seconds for record in run.records if isinstance(record, Timers)] == [
        (("forward", 0.00525), ("backward", 0.0105))
    ]
    assert run.config["world_size"] == "8"
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.line) == (OutcomeKind.COMPLETED, 6)
    assert run.formats == (
        "parallel sizes",
        "Megatron memory",
        "nvidia-smi",
        "teralog GPT workload",
        "timers",
    )
    assert run.not_understood == ()
    assert run.notes == ()


def test_several_logs_give_their_runs_in_order(tmp_path: Path) -> None:
    """Several logs, given as paths, names or streams, give their runs in order."""
    (tmp_path / "a").write_text(LOG)
    (tmp_path / "b").write_text("noise\n")
    runs = read([tmp_path / "a", str(tmp_path / "b"), io.BytesIO(LOG.encode())])
    assert [(run.path, len(run.steps)) for run in runs] == [
        (str(tmp_path / "a"), 2),
        (str(tmp_path / "b"), 0),
        ("-", 2),
    ]


def test_only_the_formats_asked_for_are_read() -> None:
    """Only the requested formats are read, but the outcome is always found."""
    formats = [log_format for log_format in ALL_FORMATS if log_format.name == "timers"]
    (run,) = read(io.BytesIO(LOG.encode()), formats)
    assert [type(record) for record in run.records] == [Timers]
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.CANCELLED


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"", "is empty"),
        (b"PK\3\4 and so on", "is packed with zip: unpack it"),
        ("text".encode("utf-16"), "is text in UTF-16: convert it to UTF-8"),
        (bytes(range(256)), "contains NUL bytes: it may not be text"),
        (b"noise\n", None),
    ],
)
def test_problems_of_a_log_are_reported(tmp_path: Path, content: bytes, note: str | None) -> None:
    """If a log is empty, packed with zip, or not UTF-8 text, a note of its run names the problem.

    Reading it raises no error. Text without training output gives no note.
    """
    (tmp_path / "log").write_bytes(content)
    (run,) = read(tmp_path / "log")
    assert run.outcome == Outcome(kind=OutcomeKind.UNKNOWN)
    assert run.notes == (() if note is None else (note,))


@pytest.mark.parametrize("log", ["missing", "."])
def test_an_unreadable_file_is_an_error(tmp_path: Path, log: str) -> None:
    """The error about an unreadable file names the file."""
    with pytest.raises(OSError, match=log):
        read(tmp_path / log)


@given(
    data=st.binary(max_size=300),
    anchors=st.lists(
        st.sampled_from([a for log_format in ALL_FORMATS for a in log_format.anchors]), max_size=5
    ),
)
def test_no_bytes_raise_an_error(data: bytes, anchors: list[bytes]) -> None:
    """No bytes raise an error, even directly after the search strings of formats."""
    assert read(io.BytesIO(b"".join(anchor + data for anchor in anchors)))


def test_line_ends_of_windows_change_nothing(tmp_path: Path) -> None:
    """Line ends of Windows change only the offsets of the records."""
    (unix_run,) = read(io.BytesIO(LOG.encode()))
    (windows_run,) = read(io.BytesIO(LOG.replace("\n", "\r\n").encode()))
    assert [repr(record).partition("offset")[0] for record in unix_run.records] == [
        repr(record).partition("offset")[0] for record in windows_run.records
    ]
    assert unix_run.outcome is not None
    assert windows_run.outcome is not None
    assert (unix_run.outcome.line, unix_run.outcome.text) == (
        windows_run.outcome.line,
        windows_run.outcome.text,
    )


def test_processes_change_nothing(tmp_path: Path) -> None:
    """Two processes give the same records and line numbers for a large log as one process."""
    log = tmp_path / "log"
    log.write_bytes((LOG.encode() + b"\0" * 5000 + b"\n" + b"noise\n" * 5000) * 1200)
    assert log.stat().st_size > WORTH_SHARING_BYTES
    assert read(log, processes=2) == read(log, processes=1)


def test_standard_error_may_be_a_log_of_its_own(tmp_path: Path) -> None:
    """If stdout and stderr are two files, the outcome names the file that shows the run's end."""
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text(OWN_STEP.format(1) + "Killing subprocess 5\n")
    err.write_text("noise\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    (run,) = read_pair(out, err)
    outcome = run.outcome
    assert outcome is not None
    assert (outcome.kind, outcome.line, outcome.source) == (
        OutcomeKind.GPU_OUT_OF_MEMORY,
        2,
        str(err),
    )
    assert outcome.requested_gib == 2
    assert read_outcome(out) == Outcome(
        kind=OutcomeKind.KILLED,
        offset=len(OWN_STEP.format(1)),
        text="Killing subprocess 5",
    )


def test_memory_stays_bounded_on_a_gigabyte_without_newline() -> None:
    """Reading a gigabyte without newline from a pipe, with all formats, needs little memory."""
    end, begin = os.pipe()

    def fill() -> None:
        with os.fdopen(begin, "wb", buffering=0) as pipe:
            pipe.write(OWN_STEP.format(1).encode())
            for _ in range(1024):
                pipe.write(b"\0" * 2**20)
            pipe.write(f"\n{OWN_STEP.format(20)}".encode())

    writer = threading.Thread(target=fill)
    writer.start()
    tracemalloc.start()
    with os.fdopen(end, "rb") as pipe:
        (run,) = read(pipe)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    writer.join()
    place = len(OWN_STEP.format(1)) + 2**30 + 1
    assert [(step.iteration, step.offset) for step in run.steps] == [(1, 0), (20, place)]
    assert run.end == place + len(OWN_STEP.format(20))
    assert run.outcome is not None
    assert run.outcome.line == 3
    assert peak < 10 * 2**20


def test_samples_of_nvidia_smi_are_not_reports_of_a_process() -> None:
    """Memory records contain their source: samples of nvidia-smi, or reports of a program."""
    log = (
        "index, memory.used [MiB]\n0, 4096 MiB\n"
        "| N/A   46C    P0    44W / 300W |   4096MiB / 32510MiB |     N/A      Default |\n"
        "[Rank 3] (after 2 iterations) memory (MB) | allocated: 1024.0 | max allocated: 2048.0"
        " | reserved: 2048.0 | max reserved: 2048.0\n"
        "gpt0 max memory usage: 5603.00M\n"
    )
    (run,) = read(io.BytesIO(log.encode()))
    usages = [record for record in run.records if isinstance(record, Usage)]
    assert [usage.source for usage in usages] == [
        UsageSource.NVIDIA_SMI,
        UsageSource.NVIDIA_SMI,
        UsageSource.TORCH,
        UsageSource.ONEFLOW,
    ]
    assert run.memory_reports == usages[2:]
