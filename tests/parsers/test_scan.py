"""Check which records are read from a log with noise, incomplete lines and colour codes."""

from pathlib import Path
from string import ascii_letters

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from parsers.formats.deepspeed import DEEPSPEED_TIMER
from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.records import Record, Step
from parsers.scan.compression import compression
from parsers.scan.reader import decode, read_records

FORMATS = (GPT_WORKLOAD, DEEPSPEED_TIMER)

REPORT = (
    b"[teralog] iteration %d/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss nan"
    b" | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402"
)
TIMER = (
    b"[timer.py:9:stop] epoch=0/micro_step=8/global_step=%d, RunningAvgSamplesPerSec=-inf,"
    b" CurrSamplesPerSec=86.5, MemAllocated=0.39GB, MaxMemAllocated=0.41GB"
)


lines = st.one_of(
    st.integers(1, 99).map(lambda iteration: REPORT % iteration),
    st.integers(1, 99).map(lambda iteration: TIMER % iteration),
    # No letters: otherwise noise could contain an anchor, by chance or because hypothesis finds it.
    st.binary(max_size=60).map(lambda noise: noise.translate(None, ascii_letters.encode() + b"\n")),
)


@given(log_lines=st.lists(lines, max_size=12), ending=st.sampled_from([b"\n", b"\r\n"]))
def test_noise_around_the_reports_changes_no_record(
    tmp_path_factory: pytest.TempPathFactory, log_lines: list[bytes], ending: bytes
) -> None:
    """Other lines between reports change no record; each record has the offset of its line."""
    assume(compression(ending.join(log_lines)) is None)
    log = tmp_path_factory.getbasetemp() / "noise.log"
    log.write_bytes(ending.join(log_lines))
    reports = [line for line in log_lines if b"SamplesPerSec" in line or b"[teralog]" in line]
    records = [record for record in read_records(log, FORMATS) if isinstance(record, Step)]
    offsets = [
        sum(len(line) + len(ending) for line in log_lines[:index])
        for index, line in enumerate(log_lines)
        if line in reports
    ]
    assert [record.offset for record in records] == offsets
    assert [
        (REPORT if record.iterations else TIMER) % record.iteration for record in records
    ] == reports


def test_a_half_written_last_line_gives_no_record_while_the_run_continues(tmp_path: Path) -> None:
    """An incomplete last line gives no record while the run continues.

    Once the log is known to be complete, the same line gives a record.
    """
    log = tmp_path / "log"
    log.write_bytes(REPORT % 1 + b"\n" + REPORT % 2)
    assert iterations(read_records(log, FORMATS, complete=False)) == [1]
    assert iterations(read_records(log, FORMATS)) == [1, 2]


def test_reading_goes_on_at_the_offset_of_any_record(tmp_path: Path) -> None:
    """Reading from the offset of any record gives this record and all later ones."""
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"noise\n" + REPORT % number + b"\n" for number in range(1, 9)))
    for record in list(read_records(log, FORMATS)):
        assert isinstance(record, Step)
        rest = read_records(log, FORMATS, start=record.offset, chunk_bytes=7)
        assert iterations(rest) == list(range(record.iteration, 9))


def test_a_line_with_the_anchors_of_two_formats_is_read_by_both(tmp_path: Path) -> None:
    """If two programs have written on one line, the line gives the records of both formats."""
    log = tmp_path / "log"
    log.write_bytes(TIMER % 7 + REPORT % 8)
    assert sorted(iterations(read_records(log, FORMATS))) == [7, 8]


def test_an_empty_log_contains_nothing(tmp_path: Path) -> None:
    """An empty log gives no records and no error: perhaps its run has not printed yet."""
    (tmp_path / "log").touch()
    assert list(read_records(tmp_path / "log", FORMATS)) == []


def test_decoding_leaves_out_colours_and_replaces_invalid_utf_8() -> None:
    """Parsers get text without colour codes; bytes that are not UTF-8 are replaced by U+FFFD."""
    assert decode(b"\x1b[92m\x1b[1mstep=1\x1b[0m \xff \xe2\x96\x88") == "step=1 \ufffd █"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("[31mstep: 1  [32mloss: 8.1[39m", "step: 1  loss: 8.1"),
        ("[36m(Worker pid=7)[0m {'loss': 1}", "(Worker pid=7) {'loss': 1}"),
        ("^[[36mstep=1^[[0m", "step=1"),
        ("#033[36mstep=1#033[0m#015", "step=1"),
        ("a#015b#011c", "a\rb\tc"),
        ("\x1b]0;title\x07\x1b(B\x1b[mstep=1", "step=1"),
        ("{'loss': 1} [repeated 8x across cluster] (Ray hides copies)", "{'loss': 1}"),
        ("[0m  1%| | 1/10 [10m 5s]", "  1%| | 1/10 [10m 5s]"),
    ],
)
def test_traces_of_terminals_and_collectors_are_removed(line: str, text: str) -> None:
    """Codes of a terminal are removed if their first character was lost or printed as text.

    syslog's numbers for tabs and carriage returns are converted. Ray's counts of copies are left
    out.
    """
    assert decode(line.encode()) == text


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ("[31mstep: 1\nx [0m", ["[31mstep: 1", "x "]),
        ("step: 1 [repeated 8x across cluster]\r\nstep: 2\r", ["step: 1\r", "step: 2\r"]),
        ("step: 1#015\r\n#033[36mstep: 2#033[0m#015\r", ["step: 1\r", "step: 2\r"]),
    ],
)
def test_lines_decoded_together_have_the_text_of_each_line_alone(
    lines: str, texts: list[str]
) -> None:
    """Other lines do not change how a line is decoded, with and without a carriage return."""
    assert decode(lines.encode()).split("\n") == texts
    assert [decode(line.encode()) for line in lines.split("\n")] == texts


def iterations(records: object) -> list[int]:
    """Return the iterations of these steps."""
    return [record.iteration for record in _steps(records)]


def _steps(records: object) -> list[Step]:
    assert hasattr(records, "__iter__")
    all_records: list[Record] = list(records)
    return [record for record in all_records if isinstance(record, Step)]
