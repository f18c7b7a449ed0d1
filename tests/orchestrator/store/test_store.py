"""The folders under results/: attempts, states and runs, and messages about errors of the disk."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import read_json
from orchestrator.store import campaign_store as store
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.folders import (
    RunFolder,
    read_attempt,
    write_ended,
    write_job_state,
    write_started,
)
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Attempt, Ended, Intent, Receipt, RunBatch, Started

STARTED = Started(
    pid=1,
    host="here",
    token="t",
    started_at="2026-01-02T03:04:05+00:00",
    time_limit_seconds=60,
    devices=("0", "1"),
)
NEW_ATTEMPTS = """\
import sys
from pathlib import Path
from orchestrator.store.folders import RunFolder
sys.stdin.readline()
print(*(RunFolder(Path(sys.argv[1])).new_attempt().number for _ in range(20)))
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Return the folder of a run, which does not exist yet."""
    return RunFolder(tmp_path / "campaign" / "run")


def attempt(run: RunFolder, *records: Started | Ended) -> Attempt:
    """Make an attempt of a run, write its records, and return it.

    records: the record of the attempt's start, of its end, or both.
    """
    made = run.new_attempt()
    for record in records:
        if isinstance(record, Started):
            write_started(made.folder, record)
        else:
            write_ended(made.folder, record)
    return made


def ended(state: str) -> Ended:
    """Return the record of an attempt that ended in this state."""
    return Ended(state, "2026-01-02T03:05:05+00:00", seconds=60.0)


def test_attempts_are_numbered_from_one(run: RunFolder) -> None:
    """Attempts are listed in the order of their numbers: the tenth comes after the ninth."""
    assert run.attempts() == []
    assert [run.new_attempt().number for _ in range(11)] == list(range(1, 12))
    assert [attempt.number for attempt in run.attempts()] == list(range(1, 12))


def test_an_attempt_is_read_back_as_recorded(run: RunFolder) -> None:
    """The records of an attempt's start and end are read as they were written.

    The attempt's log is output.log in the attempt's folder.
    """
    end = Ended("FAILED", "2026-01-02T03:05:05+00:00", 60.5, exit_code=None, signal="SIGKILL")
    made = attempt(run, STARTED, end)
    assert run.attempts() == [Attempt(1, made.folder, STARTED, end)]
    assert made.log == run.path / "attempt-1" / "output.log"


@pytest.mark.parametrize(
    "name", ["attempt-", "attempt-0", "attempt-01", "attempt--1", "attempt-²", "attempt-1.tmp"]
)
def test_folders_that_are_not_attempts_are_ignored(run: RunFolder, name: str) -> None:
    """A folder with a name such as `attempt-0` or `attempt-1.tmp` is not an attempt."""
    (run.path / name).mkdir(parents=True)
    assert run.attempts() == []
    assert run.new_attempt().number == 1


def test_attempts_created_at_once_get_different_numbers(run: RunFolder) -> None:
    """If several processes make attempts at the same time, no two attempts get the same number."""
    command = [sys.executable, "-c", NEW_ATTEMPTS, str(run.path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    makers = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("\n")
        maker.stdin.flush()
    numbers = [int(word) for maker in makers for word in maker.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 81))


@pytest.mark.parametrize(
    ("attempts", "supervised", "state"),
    [
        ([], False, "NOT_STARTED"),
        ([], True, "NOT_STARTED"),
        ([[]], True, "RUNNING"),
        ([[]], False, "INTERRUPTED"),
        ([[STARTED]], True, "RUNNING"),
        ([[STARTED]], False, "INTERRUPTED"),
        ([[STARTED, ended("COMPLETED")]], False, "COMPLETED"),
        ([[STARTED, ended("FAILED")]], True, "FAILED"),
        ([[STARTED, ended("TIMEOUT")]], False, "TIMEOUT"),
        ([[ended("CANCELLED")]], False, "CANCELLED"),
        ([[STARTED, ended("FAILED")], [STARTED]], True, "RUNNING"),
        ([[STARTED, ended("COMPLETED")], [STARTED]], False, "INTERRUPTED"),
        ([[STARTED, ended("INTERRUPTED")], [STARTED, ended("COMPLETED")]], False, "COMPLETED"),
        ([[STARTED], [STARTED, ended("COMPLETED")]], False, "COMPLETED"),
        ([[STARTED, ended("FAILED")]] * 9 + [[STARTED, ended("COMPLETED")]], False, "COMPLETED"),
    ],
)
def test_the_state_is_that_of_the_last_attempt(
    run: RunFolder, attempts: Sequence[Sequence[Started | Ended]], supervised: bool, state: str
) -> None:
    """The state of a run is that of its last attempt.

    If this attempt has no recorded end, it is RUNNING if its supervisor holds the run's lock,
    otherwise INTERRUPTED.
    """
    for records in attempts:
        attempt(run, *records)
    run.path.mkdir(parents=True, exist_ok=True)
    lock = locks.acquire(run.lock)
    assert lock is not None
    if not supervised:
        os.close(lock)
    assert run.state() == state
    if supervised:
        os.close(lock)


@pytest.fixture
def submitted(tmp_path: Path) -> CampaignStore:
    """Return a store with a batch of two runs, which will be tasks 3 and 5 of an array."""
    store = CampaignStore(tmp_path)
    intent = Intent("batch", "here", "2026-01-02T03:04:05+00:00")
    with store.shared_intent(intent) as written:
        for name in ("one", "two"):
            assert store.run(name).claim(1, intent, name, written=written)
    members = (("one", 1), ("two", 1))
    batch = RunBatch(
        intent.batch, intent.host, intent.created_at, members, array=True, indices=(3, 5)
    )
    assert store.new_batch(batch, "script") is not None
    return store


def test_a_run_is_submitted_from_the_receipt_of_its_batch_on(submitted: CampaignStore) -> None:
    """When the job id of a batch of runs is recorded, the state of its runs becomes SUBMITTED.

    It stays SUBMITTED until Slurm reports a state.
    """
    two = submitted.run("two")
    assert two.state() == "SUBMITTING"
    submitted.batch("batch").close(Receipt("7", "2026-01-02T03:04:06+00:00"))
    assert two.attempts()[0].job == JobState("7_5", "SUBMITTED", "sbatch", name="batch")
    assert (submitted.run("one").state(), two.state()) == ("SUBMITTED", "SUBMITTED")
    write_job_state(two.attempts()[0].folder, JobState("7_5", "RUNNING", by="squeue"))
    assert (submitted.run("one").state(), two.state()) == ("SUBMITTED", "RUNNING")


def test_states_of_waiting_runs_are_recorded_in_one_file_per_batch(
    submitted: CampaignStore,
) -> None:
    """The states of the waiting runs of a batch of runs are in one file.

    A newer answer of Slurm replaces an older one. When a job starts, its run gets a file of its
    own.
    """
    batch, two = submitted.batch("batch"), submitted.run("two")
    batch.close(Receipt("7", "2026-01-02T03:04:06+00:00"))
    tasks = [JobState(f"7_{n}", "PENDING", "squeue", "batch", "Resources") for n in (3, 5)]
    batch.record_waiting(tasks)
    assert [submitted.run(name).attempts()[0].job for name in ("one", "two")] == tasks
    held = replace(tasks[1], reason="JobHeldUser", of_rest=True)
    batch.record_waiting([held])
    assert two.attempts()[0].job == held
    assert submitted.run("one").attempts()[0].job == tasks[0]
    running = replace(held, state="RUNNING", nodes="n1")
    write_job_state(two.attempts()[0].folder, running)
    batch.record_waiting(tasks)
    assert two.attempts()[0].job == running
    assert [path.name for path in two.attempts()[0].folder.iterdir()].count("slurm.json") == 1


ONLY_WAITS = {
    "a job waits": (JobState("7", "PENDING", "squeue", "b", "Priority"), True),
    "a task waits": (JobState("7_1", "PENDING", "sacct", "b", of_rest=True), True),
    "a job runs": (JobState("7", "RUNNING", "squeue", "b"), False),
    "a job was requeued": (JobState("7", "PENDING", "squeue", "b", restarts=1), False),
    "it ran before": (JobState("7", "PENDING", "sacct", "b", earlier_seconds=3.0), False),
    "it has a node": (JobState("7", "PENDING", "squeue", "b", nodes="n1"), False),
    "it has ended": (JobState("7", "CANCELLED", "squeue", "b"), False),
}


@pytest.mark.parametrize(("state", "only_waits"), ONLY_WAITS.values(), ids=ONLY_WAITS)
def test_a_job_that_has_started_does_not_only_wait(state: JobState, only_waits: bool) -> None:
    """The file about waiting jobs does not contain jobs that have started.

    Each started job has a file of its own.
    """
    assert state.only_waits is only_waits


def test_slurm_json_of_version_1_is_read(submitted: CampaignStore) -> None:
    """A slurm.json of format version 1 can be read, although it lacks some fields.

    These are the job's name, end and exit code.
    """
    (attempt,) = submitted.run("one").attempts()
    (attempt.folder / "slurm.json").write_text(
        '{"job_id": "7_3", "state": "CANCELLED by 1000", "by": "sacct", "reason": "None",\n'
        ' "nodes": "n[1-2]", "started_at": "2026-01-02T03:04:05+00:00", "restarts": 2,\n'
        ' "earlier_seconds": 30.5}\n'
    )
    expected = JobState(
        job_id="7_3",
        state="CANCELLED by 1000",
        by="sacct",
        reason="None",
        nodes="n[1-2]",
        started_at="2026-01-02T03:04:05+00:00",
        restarts=2,
        earlier_seconds=30.5,
    )
    assert read_attempt(attempt.folder).job == expected
    assert (expected.word, expected.final) == ("CANCELLED", True)


def test_a_job_state_is_read_as_it_was_written(submitted: CampaignStore) -> None:
    """After the state of a job is written to a file and read again, all its fields are the same."""
    (attempt,) = submitted.run("one").attempts()
    state = JobState(
        job_id="7_3",
        state="TIMEOUT",
        by="sacct",
        name="batch",
        reason="TimeLimit",
        exit_code=0,
        signal=15,
        started_at="2026-01-02T03:04:05+00:00",
        ended_at="2026-01-02T04:04:05+00:00",
        seconds=3600.0,
        nodes="n1",
        restarts=1,
        earlier_seconds=2.5,
        of_rest=True,
    )
    write_job_state(attempt.folder, state)
    assert read_attempt(attempt.folder).job == state


def test_a_run_whose_batch_was_withdrawn_was_not_submitted(submitted: CampaignStore) -> None:
    """A run of a withdrawn batch of runs has no job."""
    submitted.batch("batch").withdraw()
    submitted.batch("batch").close(Receipt(None, "2026-01-02T03:04:06+00:00"))
    assert submitted.run("one").attempts()[0].job is None


def test_a_deleted_attempt_is_found_by_the_index_of_its_task(submitted: CampaignStore) -> None:
    """If a user deleted the folder of a submitted run, its attempt is found in the batch's record.

    The last number of the attempt's job id, e.g. 5 in 7_5, is the index of the array's task. This
    index may differ from the run's position in the batch of runs.
    """
    submitted.batch("batch").close(Receipt("7", "2026-01-02T03:04:06+00:00"))
    assert list(submitted.deleted_attempts()) == []
    shutil.rmtree(submitted.run("two").path)
    assert [task[1:] for task in submitted.deleted_attempts()] == [("7_5", "two", 1)]


def test_a_run_is_saved_with_its_parameters_and_its_files(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """The folder of a saved run has run.json, with the run's parameters, and the given files."""
    campaign = campaign_of("name: c\ndefaults: {framework: gpt, model: s}\nmatrix: {seed: [7]}\n")
    planned = campaign.runs[0]
    store = campaign_store(tmp_path / "results", "c")
    saved = store.save_run(planned, {**store.run_record(planned, campaign), "a.txt": "b"})
    assert saved.path == tmp_path / "results" / "c" / planned.run_id
    assert sorted(path.name for path in saved.path.iterdir()) == ["a.txt", "run.json"]
    record = read_json(saved.path / "run.json")
    assert record is not None
    assert (record["run_id"], record["campaign"], record["seed"]) == (planned.run_id, "c", 7)


def test_a_submission_is_remembered(campaign_of: Callable[[str], Campaign], tmp_path: Path) -> None:
    """The store keeps the ids and labels of the submitted runs.

    Before the first submission it has none.
    """
    campaign = campaign_of(
        "name: c\ndefaults: {framework: gpt, model: s}\nmatrix: {seed: [7, 8]}\n"
    )
    store = CampaignStore(tmp_path)
    assert store.submitted_runs() == {}
    store.save_submission(campaign)
    assert store.submitted_runs() == {run.run_id: run.label for run in campaign.runs}


def test_runs_that_have_left_the_campaign_are_reported(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """Started runs that are no longer in the campaign file are reported.

    Runs that never started have no results, so they are not reported.
    """
    text = "name: c\ndefaults: {framework: gpt, model: s}\nmatrix: {seed: [%s]}\n"
    before = campaign_of(text % "1, 2, 3")
    store = CampaignStore(tmp_path / "results")
    for planned in before.runs:
        store.save_run(planned, store.run_record(planned, before))
    for planned in before.runs[1:]:
        store.run(planned.run_id).new_attempt()
    assert store.other_runs(before) == []
    assert store.other_runs(campaign_of(text % "3")) == ["seed=2"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EDQUOT, "Disk quota exceeded; free some space"),
        (errno.EROFS, "Read-only file system; use --results with a folder that you can write to"),
        (errno.EACCES, "Permission denied; use --results with a folder that you can write to"),
    ],
)
def test_a_refusal_of_the_disk_is_reported_in_a_sentence(number: int, remedy: str) -> None:
    """If the disk refuses a file, the message has the path, the problem, and what to do."""
    with (
        pytest.raises(UserError, match=f"^/results/c: cannot be written: {remedy}"),
        store.disk_errors(Path("/results/c")),
    ):
        raise OSError(number, os.strerror(number))


def test_a_record_of_a_later_version_is_read_and_a_damaged_one_is_reported(tmp_path: Path) -> None:
    """A record with an unknown key, e.g. of a later version, is read without this key.

    If a required key is missing, one sentence reports that the file is damaged.
    """
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    (attempt / "ended.json").write_text('{"state": "FAILED", "ended_at": "t", "new": 1}')
    ended = read_attempt(attempt).ended
    assert ended is not None
    assert ended.state == "FAILED"
    (attempt / "ended.json").write_text('{"state": "FAILED"}')
    with pytest.raises(UserError, match=r"ended\.json: is damaged"):
        read_attempt(attempt)
