"""Read rows of a table below its header, and blocks: lines that follow a line with an anchor."""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers.scan.reader
from parsers.records import Record, Setting, Usage, UsageSource
from parsers.scan.reader import AnyFormat, LogFormat, TableFormat, read_records
from parsers.scan.shared import SharedFile, SharedPass, prepare
from parsers.scan.window import Bounds

ParseLine = Callable[[int, str], Iterator[Record]]


def _column(header: str) -> ParseLine | None:
    """Return a parser of table rows that reads the column `rank`.

    Return None if the header has no such column.
    """
    titles = header.strip().split(",")
    if "rank" not in titles:
        return None
    place = titles.index("rank")

    def row(offset: int, line: str) -> Iterator[Usage]:
        cells = line.split(",")
        if len(cells) == len(titles) and cells[place].isdecimal():
            yield Usage(source=UsageSource.NVIDIA_SMI, rank=int(cells[place]), offset=offset)

    return row


class InThisProcess(Executor):
    """An executor that runs its tasks immediately, in this process."""

    def __init__(self, file: SharedFile) -> None:
        """Prepare this process to read a file, in the same way as a pool prepares its processes."""
        prepare(file)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the function at once and return its result, as a process pool would."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


TABLE = TableFormat(name="table", header=b"rank", anchors=(b",",), row=_column)


def _words(offset: int, text: str) -> Iterator[Setting]:
    yield Setting(name="block", value=text, source="report", offset=offset)


BLOCK = LogFormat(name="block", anchors=(b"BEGIN",), parse=_words, following=2)
LONG_BLOCK = LogFormat(name="long block", anchors=(b"BEGIN", b"ALSO"), parse=_words, following=4)


def ranks(log: Path, formats: tuple[AnyFormat, ...] = (TABLE,)) -> list[int | None]:
    """Return the rank in each table row of a log."""
    return [record.rank for record in read_records(log, formats) if isinstance(record, Usage)]


LOGS = {
    "no header": ("1,2\n3,4\n", []),
    "rows below the header": ("0,0\nrank,b\n1,2\n3,4\n", [1, 3]),
    "lines between two rows": ("rank,b\n1,2\nnoise\nso, noise, too\n3,4\n", [1, 3]),
    "another header": ("rank,b\n1,2\na,rank\n3,4\n", [1, 4]),
    "the same header again": ("rank,b\n1,2\nrank,b\n3,4\n", [1, 3]),
    "a line that only looks like a header": ("rank,b\n1,2\nmy rank is 5, really\n3,4\n", [1, 3]),
    "carriage returns": ("rank,b\r\n1,2\r\n", [1]),
    "no line end": ("rank,b\n1,2", [1]),
}


@pytest.mark.parametrize(("text", "expected"), LOGS.values(), ids=LOGS)
def test_rows_count_below_their_header(tmp_path: Path, text: str, expected: list[int]) -> None:
    """A row is read with the columns of the header before it."""
    (tmp_path / "log").write_bytes(text.encode())
    assert ranks(tmp_path / "log") == expected


def test_a_table_without_rows_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many lines without a row, the reader ignores rows until the next header."""
    monkeypatch.setattr(parsers.scan.reader, "_LINES_WITHOUT_ROW", 3)
    log = tmp_path / "log"
    log.write_text("rank,b\n" + "1,2\nx,y\nx,y\nx,y\n" * 2 + "x,y\n5,6\nrank,b\n7,8\n")
    assert ranks(log) == [1, 1, 7]


table_lines = st.lists(
    st.sampled_from(["rank,b", "a,rank", "1,2", "3,4,5", "noise", "BEGIN", "ALSO 6,7"]), max_size=30
)


@given(lines=table_lines, chunk_bytes=st.integers(1, 40), part_bytes=st.integers(1, 60))
def test_neither_chunks_nor_parts_change_what_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    chunk_bytes: int,
    part_bytes: int,
) -> None:
    """A header applies to all later rows, also in the next chunk or part."""
    log = tmp_path_factory.getbasetemp() / "tables.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    formats = (TABLE, BLOCK, LONG_BLOCK)
    file = SharedFile(
        path=str(log), formats=formats, more_anchors={}, bounds=Bounds(chunk_bytes=chunk_bytes)
    )
    shared = SharedPass(file, log.stat().st_size, InThisProcess(file), part_bytes=part_bytes)
    shared_records = [
        record for line in shared for _, records in line.readings for record in records
    ]
    whole = list(read_records(log, formats))
    assert shared_records == whole
    assert shared.position == log.stat().st_size


def texts(log: Path, *formats: LogFormat) -> list[str]:
    """Return the texts (a line and its following lines) that the reader gives to these formats."""
    return [record.value for record in read_records(log, formats) if isinstance(record, Setting)]


def test_each_format_is_given_the_lines_that_it_asks_for(tmp_path: Path) -> None:
    """If two formats have the same anchor, each gets as many following lines as it needs."""
    log = tmp_path / "log"
    log.write_text("a\nBEGIN b\nc\nd\ne\nf\ng\n")
    assert texts(log, BLOCK, LONG_BLOCK) == ["BEGIN b\nc\nd", "BEGIN b\nc\nd\ne\nf"]


def test_lines_of_a_block_are_plain_text(tmp_path: Path) -> None:
    """Lines of a block have no line ends and no colours, like a single line."""
    log = tmp_path / "log"
    log.write_bytes(b"BEGIN \x1b[92mb\x1b[0m\r\n\xffc\r\nd\r\n")
    assert texts(log, BLOCK) == ["BEGIN b\n\ufffdc\nd"]


def test_blocks_may_overlap(tmp_path: Path) -> None:
    """A line with an anchor begins a block, even if it is within the block of an earlier line."""
    log = tmp_path / "log"
    log.write_text("BEGIN a\nBEGIN b\nc")
    assert texts(log, BLOCK) == ["BEGIN a\nBEGIN b\nc", "BEGIN b\nc"]


def test_records_are_sent_to_other_processes_as_they_are() -> None:
    """Records can be sent to other processes unchanged, including fields that are None."""
    records = [
        Usage(source=UsageSource.TORCH, rank=3, max_memory_allocated_gib=1.25, offset=7),
        Setting(name="seed", value="42", source="arguments", offset=0),
    ]
    assert pickle.loads(pickle.dumps(records)) == records
