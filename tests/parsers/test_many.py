"""Check that several processes that read many logs give the same results as one process."""

import gzip
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from reports import OWN_STEP

import parsers.runs.many
from parsers.runs.many import read_each
from parsers.runs.reading import read
from parsers.runs.run import LogRun


def summary(runs: list[LogRun]) -> list[tuple[str, int, str]]:
    """Return the path, the number of steps and the kind of outcome of each run.

    Runs without an outcome are left out.
    """
    return [
        (run.path, len(run.steps), run.outcome.kind.value)
        for run in runs
        if run.outcome is not None
    ]


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Return two hundred logs, each with a different number of steps."""
    paths = [tmp_path / f"{number:03d}.out" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_text(
            "noise\n" + "".join(OWN_STEP.format(step + 1) for step in range(number % 21))
        )
    return paths


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_logs_come_in_their_order(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Results are in the order of the logs, whichever process has read a log."""
    monkeypatch.setattr(parsers.runs.many, "_WORTH_PROCESSES_BYTES", 0)
    monkeypatch.setattr(parsers.runs.many, "_BATCH_LOGS", 7)
    results = list(read_each(logs, summary, processes=processes))
    assert results == [(log, summary(read(log))) for log in logs]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_log_that_cannot_be_read_comes_with_its_error(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """If a log cannot be read, its error is returned, and the other logs are read."""
    monkeypatch.setattr(parsers.runs.many, "_WORTH_PROCESSES_BYTES", 0)
    missing = logs[0].parent / "missing"
    (_, first), (path, error), (_, last) = read_each(
        [logs[20], missing, logs[3]], summary, processes=processes
    )
    assert (first, last) == (summary(read(logs[20])), summary(read(logs[3])))
    assert path == missing
    assert isinstance(error, FileNotFoundError)


def test_logs_can_be_read_while_other_threads_run(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the calling process has other threads, several processes can still read logs.

    The new processes come from a fork server, not from a fork of the calling process.
    """
    monkeypatch.setattr(parsers.runs.many, "_WORTH_PROCESSES_BYTES", 0)
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        results = list(read_each(logs, len, processes=2))
    finally:
        done.set()
        other.join()
    assert results == [(log, 1) for log in logs]


def test_a_batch_of_logs_is_limited_by_number_and_bytes(logs: list[Path]) -> None:
    """A process gets at most 64 logs at a time, and at most a limited number of bytes.

    A log with more bytes than this limit is sent alone.
    """
    sizes = [10, 2**23, 1, 2**22, 2**22, 5]
    batches = parsers.runs.many._batches(logs[:6], sizes)
    assert [[logs.index(log) for log in batch] for batch in batches] == [[0], [1], [2, 3], [4, 5]]
    assert [len(batch) for batch in parsers.runs.many._batches(logs, [1] * 200)] == [64, 64, 64, 8]


def test_reading_no_logs_gives_nothing() -> None:
    """An empty list of logs gives no results and no error."""
    assert list(read_each([], summary)) == []


def test_progress_within_one_large_log_is_reported_in_bytes(tmp_path: Path) -> None:
    """While a large log is read, the reported numbers of bytes add up to its size."""
    log = tmp_path / "large.log"
    log.write_bytes(b"a line of no meaning\n" * 2_000_000)
    progress: list[int] = []
    ((_, runs),) = read_each([log], len, tell=progress.append)
    assert runs == 1
    assert sum(progress) == log.stat().st_size
    assert sum(1 for count in progress if count) > 2


def wait_for(path: Path, _: list[LogRun]) -> bool:
    """Wait for a file, but give up after a minute; return whether it is there."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path.exists()


def test_progress_within_several_large_logs_is_reported_in_bytes(tmp_path: Path) -> None:
    """Bytes are reported before the first of several large logs is done."""
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    for log in logs:
        log.write_bytes(b"a line of no meaning\n" * 400_000)
    reported = tmp_path / "reported"
    digest = partial(wait_for, reported)
    done = read_each(
        logs, digest, processes=2, tell=lambda count: reported.touch() if count else None
    )
    assert [result for _, result in done] == [True] * 3


def test_progress_within_a_compressed_log_is_in_bytes_of_its_file(tmp_path: Path) -> None:
    """When half of a compressed log has been read, about half of its file is reported."""
    log = tmp_path / "large.log.gz"
    log.write_bytes(gzip.compress(b"".join(b"line %d\n" % n for n in range(3_000_000)), 1))
    progress: list[int] = []
    assert [runs for _, runs in read_each([log], len, tell=progress.append)] == [1]
    assert sum(progress) == log.stat().st_size
    assert 0.3 < sum(progress[: len(progress) // 2]) / log.stat().st_size < 0.7


def test_progress_of_a_pipe_is_reported_without_a_limit(tmp_path: Path) -> None:
    """A pipe has no size, so all its bytes are reported."""
    text = b"a line of no meaning\n" * 100_000
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        writer.submit(pipe.write_bytes, text)
        progress: list[int] = []
        assert [runs for _, runs in read_each([pipe], len, tell=progress.append)] == [1]
    assert sum(progress) == len(text)


@pytest.mark.parametrize("processes", [1, 2])
def test_progress_adds_up_to_the_sizes_of_the_logs(tmp_path: Path, processes: int) -> None:
    """The reported numbers of bytes add up to the sizes of all files, also of compressed files."""
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    for log in logs:
        log.write_bytes(b"a line of no meaning\n" * 400_000)
    logs.append(tmp_path / "packed.log.gz")
    logs[-1].write_bytes(gzip.compress(b"a line\n" * 400_000))
    progress: list[int] = []
    results = list(read_each(logs, len, processes=processes, tell=progress.append))
    assert [runs for _, runs in results] == [1] * 4
    assert sum(progress) == sum(log.stat().st_size for log in logs)
