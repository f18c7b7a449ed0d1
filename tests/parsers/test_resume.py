"""Check that appended bytes of a log are read only once, and that a replaced log is noticed."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import OWN_STEP

from parsers.formats.table import ALL_FORMATS
from parsers.records import Record, Step, Usage
from parsers.scan.reader import read_records
from parsers.scan.resume import read_appended

TIMERS = (
    "max time across ranks (ms):\n"
    "    save-checkpoint ................................: 18512.90\n"
    "    forward-backward ...............................: 221.30\n"
)
CSV = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
ROW = "2026/01/02 03:04:05.678, 0, 85 %, 4096 MiB\n"

pieces = st.sampled_from(
    [
        OWN_STEP.format(7),
        TIMERS,
        CSV,
        ROW,
        "noise\n",
        "Traceback (most recent call last):\n",
        "\r\n",
    ]
)


@given(text=st.lists(pieces, max_size=20).map("".join), cuts=st.lists(st.integers(0, 2000)))
def test_a_log_that_grows_in_pieces_is_read_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: list[int]
) -> None:
    """A log that grows piece by piece gives each record once.

    A piece may end within a line, a block of lines, or a table.
    """
    log = tmp_path_factory.getbasetemp() / "grows.log"
    data = text.encode()
    log.write_bytes(b"")
    collected: list[Record] = []
    state = None
    for end in [*sorted(cuts), len(data)]:
        log.write_bytes(data[:end])
        appended = read_appended(log, ALL_FORMATS, state)
        assert appended.restarted is None
        collected += appended.records
        state = appended.state
    collected += read_appended(log, ALL_FORMATS, state, complete=True).records
    assert collected == list(read_records(log, ALL_FORMATS))


def test_only_appended_bytes_are_read(tmp_path: Path) -> None:
    """A second call reads only appended bytes, because the saved state has the position."""
    log = tmp_path / "log"
    log.write_text(OWN_STEP.format(1) * 3 + OWN_STEP.format(4)[:50])
    first = read_appended(log, ALL_FORMATS)
    assert len(first.records) == 3
    assert first.state.offset == 3 * len(OWN_STEP.format(1))
    assert read_appended(log, ALL_FORMATS, first.state).records == ()
    with log.open("a") as file:
        file.write(OWN_STEP.format(4)[50:])
    (step,) = read_appended(log, ALL_FORMATS, first.state).records
    assert isinstance(step, Step)
    assert (step.iteration, step.offset) == (4, first.state.offset)


def test_the_rows_of_a_table_are_known_by_a_header_read_before(tmp_path: Path) -> None:
    """Appended rows of a table are read, because the saved state has the table's header."""
    log = tmp_path / "log"
    log.write_text(CSV)
    state = read_appended(log, ALL_FORMATS).state
    with log.open("a") as file:
        file.write(ROW)
    (usage,) = read_appended(log, ALL_FORMATS, state).records
    assert isinstance(usage, Usage)
    assert usage.gpu_utilization_percent == 85


def rotated(log: Path) -> None:
    """Move the log away, and begin a longer one in its place."""
    log.rename(log.with_suffix(".1"))
    log.write_text("noise\n" * 99 + OWN_STEP.format(1))


def truncated(log: Path) -> None:
    """Empty the log, as logrotate's `copytruncate` does, and write a new line to it."""
    with log.open("r+") as file:
        file.truncate()
        file.write(OWN_STEP.format(1))


def rewritten(log: Path) -> None:
    """Overwrite the log with a different one."""
    with log.open("r+") as file:
        file.write("noise\n" * 99 + OWN_STEP.format(1))


def rewritten_later(log: Path) -> None:
    """Overwrite the log with a different one that has the same beginning."""
    with log.open("r+") as file:
        file.seek(1500)
        file.write("#" * 1500 + "\n" + OWN_STEP.format(1))


CHANGES = {
    "rotated": (rotated, "is another file than before"),
    "truncated": (truncated, "has become shorter"),
    "rewritten": (rewritten, "begins differently than before"),
    "rewritten later": (rewritten_later, "has changed in the part already read"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_another_log_is_read_from_its_beginning(tmp_path: Path, change, reason: str) -> None:
    """A replaced log is read from its beginning, and the call returns the reason."""
    log = tmp_path / "log"
    log.write_text(OWN_STEP.format(50) * 12)
    state = read_appended(log, ALL_FORMATS).state
    change(log)
    appended = read_appended(log, ALL_FORMATS, state)
    assert appended.restarted == f"{reason}; reading it from the beginning"
    assert appended.records == tuple(read_records(log, ALL_FORMATS))
    again = read_appended(log, ALL_FORMATS, appended.state)
    assert (again.records, again.restarted) == ((), None)


def test_a_line_too_long_to_be_read_is_passed_over_once(tmp_path: Path) -> None:
    """A line that is too long is skipped, including the part that is appended later."""
    log = tmp_path / "log"
    log.write_bytes(b"#" * (5 * 2**20))
    state = read_appended(log, ALL_FORMATS).state
    assert state.offset == 5 * 2**20
    with log.open("a") as file:
        file.write(OWN_STEP.format(1) + OWN_STEP.format(2))
    appended = read_appended(log, ALL_FORMATS, state)
    assert [step.iteration for step in appended.records if isinstance(step, Step)] == [2]
    assert appended.restarted is None


def test_a_compressed_log_is_read_when_it_has_changed(tmp_path: Path) -> None:
    """A compressed log that has changed is read completely, from its beginning."""
    log = tmp_path / "log.gz"
    log.write_bytes(gzip.compress(OWN_STEP.format(1).encode()))
    first = read_appended(log, ALL_FORMATS)
    assert len(first.records) == 1
    again = read_appended(log, ALL_FORMATS, first.state)
    assert (again.records, again.restarted) == ((), None)
    with log.open("ab") as file:
        file.write(gzip.compress(OWN_STEP.format(2).encode()))
    grown = read_appended(log, ALL_FORMATS, first.state)
    assert len(grown.records) == 2
    assert grown.restarted == "is compressed and has changed; reading it from the beginning"


@pytest.mark.parametrize("log", ["missing", "."])
def test_an_unreadable_file_is_an_error(tmp_path: Path, log: str) -> None:
    """An unreadable file raises the same error as when a whole log is read."""
    with pytest.raises(OSError, match=log):
        read_appended(tmp_path / log, ALL_FORMATS)
