"""Read a run's progress from a log while it grows; each byte is read once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.collect.restarts import last_start
from orchestrator.measure.summary import record_reports, summarise_records
from orchestrator.run.model import Run
from orchestrator.status.progress import LogSoFar, Progress, read_on, run_progress
from orchestrator.status.slow_runs import StepTimes
from parsers.records import Step
from parsers.scan.reader import read_records
from parsers.summary.warmup import Warmup

from orchestrator.frameworks.table import FRAMEWORKS  # isort: skip

WARMUP = Warmup.parse(2)
STEP = (
    "[teralog] iteration {number}/20 | step_seconds 0.{number:02} | samples_per_second 648.04"
    " | loss 6.5 | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402\n"
)
TIMER = (
    "[INFO] epoch=0/micro_step={number}/global_step={number}, RunningAvgSamplesPerSec=743.4, "
    "CurrSamplesPerSec=800.0, MemAllocated=0.39GB, MaxMemAllocated=0.39GB\n"
)
AGAIN = "[teralog] job 7 starts again: restart {number}\n"

lines = st.builds(
    lambda text, number: text.format(number=number),
    st.sampled_from([STEP, STEP, STEP, TIMER, AGAIN, "noise\n", "[teralog] job 7\n"]),
    st.integers(1, 20),
)


@pytest.fixture(scope="module")
def planned(run_of: Callable[..., Run]) -> PlannedRun:
    """Return a planned run of 20 iterations."""
    return PlannedRun(run_of(train_iters=20), "id", "label", ())


@given(text=st.lists(lines, max_size=30).map("".join), cuts=st.lists(st.integers(0, 4000)))
def test_a_log_that_grows_in_pieces_shows_what_the_whole_log_shows(
    tmp_path_factory: pytest.TempPathFactory, planned: PlannedRun, text: str, cuts: list[int]
) -> None:
    """A log that is read while it grows gives the same progress as the whole log.

    The log may be cut anywhere and may have restarts; every byte is read once.
    """
    log = tmp_path_factory.getbasetemp() / "grows.log"
    data = text.encode()
    log.write_bytes(b"")
    so_far = LogSoFar()
    for end in [*sorted(cuts), len(data)]:
        log.write_bytes(data[:end])
        before = so_far
        so_far = read_on(log, planned, before, complete=False)
        assert so_far.state is not None
        if before.state is not None:
            assert so_far.state.offset >= before.state.offset
            new = [record for record in so_far.records if record not in before.records]
            assert all(record.offset >= before.state.offset for record in new)
    so_far = read_on(log, planned, so_far, complete=True)
    assert so_far.state is not None
    assert so_far.state.offset == len(data)
    formats = FRAMEWORKS["gpt"].log.formats
    whole = list(read_records(log, formats, start=last_start(log)))
    assert list(so_far.records) == whole
    progress = run_progress(planned.run, whole, WARMUP)
    summary = summarise_records(planned.run, whole, record_reports(planned.run, whole, WARMUP))
    assert run_progress(planned.run, so_far.records, WARMUP) == progress
    # The report has the same numbers.
    assert progress.iteration == summary.last_iteration
    assert progress.step_seconds == summary.step_seconds_median
    assert progress.tflops_per_gpu == summary.tflops_per_gpu


def test_bytes_that_were_read_are_not_read_again(tmp_path: Path, planned: PlannedRun) -> None:
    """Bytes of a log that were read are not read again.

    The test changes the start of the log; a second reading would notice the change.
    """
    log = tmp_path / "log"
    log.write_text("noise\n" * 300 + STEP.format(number=1))
    first = read_on(log, planned, LogSoFar(), complete=False)
    with log.open("r+") as file:
        file.seek(1200)
        file.write(STEP.format(number=19))
    with log.open("a") as file:
        file.write(STEP.format(number=2))
    second = read_on(log, planned, first, complete=False)
    assert [record.iteration for record in second.records if isinstance(record, Step)] == [1, 2]


def test_a_log_that_does_not_grow_gives_the_very_same_records(
    tmp_path: Path, planned: PlannedRun
) -> None:
    """If the log has not grown, the same list of records is returned again."""
    log = tmp_path / "log"
    log.write_text(STEP.format(number=1))
    first = read_on(log, planned, LogSoFar(), complete=False)
    assert read_on(log, planned, first, complete=True).records is first.records


def test_a_log_that_was_cut_short_is_read_again(tmp_path: Path, planned: PlannedRun) -> None:
    """If a log has become shorter, it is read again, and the earlier records are dropped."""
    log = tmp_path / "log"
    log.write_text("".join(STEP.format(number=number) for number in (1, 2, 3)))
    first = read_on(log, planned, LogSoFar(), complete=False)
    log.write_text(STEP.format(number=7))
    (step,) = read_on(log, planned, first, complete=False).records
    assert isinstance(step, Step)
    assert step.iteration == 7


def test_a_job_that_starts_again_begins_again(tmp_path: Path, planned: PlannedRun) -> None:
    """If a job has started again, progress is counted from its last start.

    The job script writes a line into the log at each start.
    """
    log = tmp_path / "log"
    log.write_text("".join(STEP.format(number=number) for number in range(1, 9)))
    first = read_on(log, planned, LogSoFar(), complete=False)
    assert run_progress(planned.run, first.records, WARMUP).iteration == 8
    with log.open("a") as file:
        file.write(AGAIN.format(number=1))
    again = read_on(log, planned, first, complete=False)
    assert run_progress(planned.run, again.records, WARMUP) == Progress(iterations=20)


def records(tmp_path: Path, planned: PlannedRun, text: str) -> LogSoFar:
    """Read a log with this text to its end; return its records and the position reached."""
    (tmp_path / "log").write_text(text)
    return read_on(tmp_path / "log", planned, LogSoFar(), complete=True)


def test_the_time_left_is_that_of_the_iterations_left(tmp_path: Path, planned: PlannedRun) -> None:
    """The time left is the number of remaining iterations times the median step time.

    The median leaves out the warm-up.
    """
    text = "".join(STEP.format(number=number) for number in range(1, 8))
    progress = run_progress(planned.run, records(tmp_path, planned, text).records, WARMUP)
    assert (progress.iteration, progress.iterations) == (7, 20)
    assert progress.step_seconds == pytest.approx(0.05)
    assert progress.seconds_left == pytest.approx(13 * 0.05)
    assert progress.times is not None
    assert progress.times.median_seconds == pytest.approx(0.05)
    assert progress.times.deviation_seconds == pytest.approx(0.01)


def test_during_the_warm_up_nothing_is_reported_about_the_speed(
    tmp_path: Path, planned: PlannedRun
) -> None:
    """During the warm-up, progress has the number of iterations, but no step time or time left."""
    text = STEP.format(number=1) + STEP.format(number=2)
    progress = run_progress(planned.run, records(tmp_path, planned, text).records, WARMUP)
    assert progress == Progress(iteration=2, iterations=20, report_seconds=pytest.approx(0.015))
    assert progress.seconds_left is None


def test_the_log_s_number_of_iterations_counts(tmp_path: Path, run_of: Callable[..., Run]) -> None:
    """If the log has the total number of iterations, it is used instead of the campaign's number.

    Without this total in the log, the campaign's number is used. But if the run has already done
    more iterations, the total is unknown.
    """
    run = run_of(train_iters=10)
    planned = PlannedRun(run, "id", "label", ())
    read_back = records(tmp_path, planned, STEP.format(number=12)).records
    assert run_progress(run, read_back, WARMUP).iterations == 20
    silent = records(tmp_path, planned, TIMER.format(number=12)).records
    assert run_progress(run, silent, WARMUP).iterations is None
    assert run_progress(run, silent, WARMUP).iteration == 12


def test_times_to_compare_need_three_reports(tmp_path: Path, planned: PlannedRun) -> None:
    """A run can be compared with other runs after three step reports beyond the warm-up."""
    text = "".join(STEP.format(number=number) for number in range(1, 5))
    assert run_progress(planned.run, records(tmp_path, planned, text).records, WARMUP).times is None
    text += STEP.format(number=5)
    times = run_progress(planned.run, records(tmp_path, planned, text).records, WARMUP).times
    assert times == StepTimes(0.04, pytest.approx(0.01))
