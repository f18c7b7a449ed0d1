"""The outcome of a run follows from Slurm's or the supervisor's state, and from its log."""

import os
from pathlib import Path

import pytest
from fixture_types import AttemptIn

from orchestrator.collect.outcomes import (
    UNSUCCESSFUL,
    attempt_outcome,
    decided_by,
    outcome,
    parse_outcomes,
    run_outcome,
)
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.store.folders import RunFolder
from parsers.records import Outcome, OutcomeKind

OUTCOMES = [
    ("NOT_STARTED", None, None),
    ("RUNNING", None, None),
    ("COMPLETED", None, "completed"),
    ("FAILED", None, "failed"),
    ("TIMEOUT", None, "timeout"),
    ("CANCELLED", None, "cancelled"),
    ("INTERRUPTED", None, "interrupted"),
    ("FAILED", OutcomeKind.GPU_OUT_OF_MEMORY, "oom"),
    ("FAILED", OutcomeKind.HOST_OUT_OF_MEMORY, "oom"),
    ("FAILED", OutcomeKind.ERROR, "failed"),
    ("FAILED", OutcomeKind.COMPLETED, "failed"),
    ("FAILED", OutcomeKind.KILLED, "failed"),
    # The scheduler's state takes precedence over the log.
    ("COMPLETED", OutcomeKind.GPU_OUT_OF_MEMORY, "completed"),
    ("TIMEOUT", OutcomeKind.GPU_OUT_OF_MEMORY, "timeout"),
    ("CANCELLED", OutcomeKind.HOST_OUT_OF_MEMORY, "cancelled"),
    ("a state of tomorrow", None, None),
    # States of Slurm.
    ("PENDING", None, None),
    ("SUBMITTING", None, None),
    ("SUBMITTED", None, None),
    ("REQUEUED", OutcomeKind.ERROR, None),
    ("OUT_OF_MEMORY", None, "oom"),
    ("NODE_FAIL", OutcomeKind.ERROR, "node_fail"),
    ("BOOT_FAIL", None, "node_fail"),
    ("PREEMPTED", None, "preempted"),
    ("DEADLINE", None, "timeout"),
    # If Slurm has forgotten the job, the outcome comes from the log.
    ("UNKNOWN", None, "unknown"),
    ("UNKNOWN", OutcomeKind.TRUNCATED, "unknown"),
    ("UNKNOWN", OutcomeKind.COMPLETED, "completed"),
    ("UNKNOWN", OutcomeKind.HOST_OUT_OF_MEMORY, "oom"),
    ("UNKNOWN", OutcomeKind.TIME_LIMIT, "timeout"),
    ("UNKNOWN", OutcomeKind.NODE_FAILURE, "node_fail"),
    ("UNKNOWN", OutcomeKind.KILLED, "failed"),
]


@pytest.mark.parametrize(("state", "kind", "word"), OUTCOMES)
def test_an_outcome_is_one_word(state: str, kind: OutcomeKind | None, word: str | None):
    """The outcome is one word, e.g. "oom"; it is None as long as the run has not ended."""
    assert outcome(state, kind and Outcome(kind=kind)) == word


@pytest.mark.parametrize(
    ("state", "word", "by"),
    [
        ("RUNNING", None, None),
        ("COMPLETED", "completed", "scheduler"),
        ("FAILED", "failed", "scheduler"),
        ("FAILED", "oom", "log"),
        ("OUT_OF_MEMORY", "oom", "scheduler"),
        ("UNKNOWN", "completed", "log"),
        ("UNKNOWN", "unknown", None),
    ],
)
def test_the_source_of_an_outcome_is_reported(state: str, word: str | None, by: str | None):
    """The source of an outcome is "scheduler", or "log" if only the log shows the outcome.

    E.g. the scheduler says FAILED, and the log shows that the run was out of memory.
    """
    assert decided_by(state, word) == by


def test_every_way_to_end_badly_can_be_retried():
    """`retry --only` accepts every unsuccessful outcome."""
    words = {word for _, _, word in OUTCOMES}
    assert words == {*UNSUCCESSFUL, "completed", None}


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: 1\n'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB.\n"

FOLDERS = {
    "completed": ({"log": "fine\n", "state": "COMPLETED"}, ("COMPLETED", "completed", None)),
    "failed, with a reason": (
        {"log": f"so far\n{OOM}", "state": "FAILED", "exit_code": 1},
        ("FAILED", "oom", OutcomeKind.GPU_OUT_OF_MEMORY),
    ),
    "failed, with another reason": (
        {"log": f"so far\n{TRACEBACK}", "state": "FAILED"},
        ("FAILED", "failed", OutcomeKind.ERROR),
    ),
    "failed, without a log": ({"state": "FAILED"}, ("FAILED", "failed", None)),
    "completed, though the log complains": (
        {"log": OOM, "state": "COMPLETED"},
        ("COMPLETED", "completed", None),
    ),
    "its supervisor was killed": ({"log": OOM}, ("INTERRUPTED", "interrupted", None)),
}


@pytest.mark.parametrize(("attempt", "expected"), FOLDERS.values(), ids=FOLDERS)
def test_a_run_ended_as_its_last_attempt_did(
    tmp_path: Path,
    attempt_in: AttemptIn,
    attempt: dict[str, str],
    expected: tuple[str, str | None, OutcomeKind | None],
):
    """Earlier attempts do not change the outcome of a run."""
    folder = RunFolder(tmp_path)
    attempt_in(folder, log="Traceback", state="TIMEOUT")
    attempt_in(folder, **attempt)
    state, word, log_outcome, starts = run_outcome(folder)
    assert (state, word, log_outcome and log_outcome.kind) == expected
    assert [start.number for start in starts] == [1, 2]


def test_a_run_that_was_never_started_has_no_outcome(tmp_path: Path):
    """A run without a folder was never started, so it has no outcome."""
    assert run_outcome(RunFolder(tmp_path / "missing")) == ("NOT_STARTED", None, None, ())


def test_a_log_that_cannot_be_read_reports_nothing(tmp_path: Path, attempt_in: AttemptIn):
    """If a run's log cannot be read, its outcome follows from the scheduler's state alone."""
    folder = RunFolder(tmp_path / "run")
    attempt = attempt_in(folder, state="FAILED")
    attempt.log.mkdir()
    assert run_outcome(folder)[:2] == ("FAILED", "failed")
    assert attempt_outcome(attempt) == "failed"


def test_a_run_that_is_supervised_has_no_outcome_yet(tmp_path: Path, attempt_in: AttemptIn):
    """While a supervisor holds a run's lock, the run has no outcome.

    The lock is free as soon as the supervisor is dead.
    """
    folder = RunFolder(tmp_path)
    attempt_in(folder, log=OOM)
    held = locks.acquire(folder.lock)
    assert held is not None
    assert run_outcome(folder)[:3] == ("RUNNING", None, None)
    os.close(held)
    assert run_outcome(folder)[:3] == ("INTERRUPTED", "interrupted", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", tuple(word for word in UNSUCCESSFUL if word != "unknown")),
        (" , ", tuple(word for word in UNSUCCESSFUL if word != "unknown")),
        ("unknown", ("unknown",)),
        ("oom", ("oom",)),
        ("FAILED, timeout", ("failed", "timeout")),
    ],
)
def test_a_list_of_outcomes_is_words_with_commas(text: str, words: tuple[str, ...]):
    """`retry --only` takes outcomes with commas between them, in upper or lower case.

    An empty list means every unsuccessful outcome except `unknown`.
    """
    assert parse_outcomes(text) == words


def test_an_unknown_outcome_is_refused_with_the_nearest():
    """One message refuses all unknown outcomes, and names the nearest known word for each."""
    with pytest.raises(UserError) as caught:
        parse_outcomes("oom,timeot,completed")
    assert caught.value.problems == (
        "--only: there is no outcome 'timeot'; did you mean 'timeout'?",
        "--only: there is no outcome 'completed'; choose one of " + ", ".join(sorted(UNSUCCESSFUL)),
    )
