"""One number of each report is the number that the report holds."""

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers.values
from parsers.megatron import MEGATRON
from parsers.records import Step
from parsers.scan import read_records
from parsers.values import read_values

ANCHOR = b"time: "
TIME = re.compile(rb"time: ([0-9]+\.[0-9])")
LINES = ["a time: {}.5 s\n", "time: {}.5 time: 7.5", "noise {}\n", "time: x{}\n", "\r\n", "time: "]
LONG = b"#" * (5 * 2**20) + b"time: 1.5\n"

texts = st.lists(st.sampled_from(LINES).map(lambda line: line.format(12)), max_size=20)


@given(lines=texts, segment_bytes=st.integers(1, 60), complete=st.booleans())
def test_every_occurrence_is_read_once(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    segment_bytes: int,
    complete: bool,
) -> None:
    """However the log is cut into segments; a half-written last line counts if it is complete."""
    log = tmp_path_factory.getbasetemp() / "values.log"
    text = "".join(lines)
    log.write_text(text, newline="")
    if not complete:
        text = text[: text.rfind("\n") + 1]
    expected = [float(number) for number in re.findall(r"time: ([0-9]+\.[0-9])", text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsers.values, "SEGMENT_BYTES", segment_bytes)
        for threads in (1, 2):
            found = read_values(log, ANCHOR, TIME, complete=complete, threads=threads)
            assert found.tolist() == expected


def test_lines_too_long_to_be_read_hold_no_number(tmp_path: Path) -> None:
    """As in any other reading."""
    log = tmp_path / "log"
    log.write_bytes(b"time: 2.5\n" + LONG + b"time: 3.5\n")
    assert read_values(log, ANCHOR, TIME).tolist() == [2.5, 3.5]


def test_compressed_logs_hold_the_same_numbers(tmp_path: Path) -> None:
    """The number of threads is no matter: only one can decompress."""
    log = tmp_path / "log"
    log.write_bytes(gzip.compress(b"time: 2.5\nnoise\ntime: 3.5\n"))
    assert read_values(log, ANCHOR, TIME, threads=2).tolist() == [2.5, 3.5]


def test_the_numbers_are_those_of_the_records(tmp_path: Path) -> None:
    """Here of Megatron's."""
    log = tmp_path / "log"
    log.write_text(
        "".join(
            f" iteration {number:8d}/    1000 | elapsed time per iteration (ms): {number}.25 |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |\nnoise\n"
            for number in range(1, 100)
        )
    )
    anchor = b"elapsed time per iteration (ms): "
    values = read_values(log, anchor, re.compile(re.escape(anchor) + rb"([0-9.]+)"))
    steps = [one for one in read_records(log, [MEGATRON]) if isinstance(one, Step)]
    assert [step.step_seconds for step in steps] == [value / 1000 for value in values]


@pytest.mark.parametrize("log", ["missing", "."])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, log: str) -> None:
    """That names it."""
    with pytest.raises(OSError, match=log):
        read_values(tmp_path / log, ANCHOR, TIME)
