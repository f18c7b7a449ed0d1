"""Decide a run's outcome from the scheduler's state and the end of its log."""

from dataclasses import replace
from enum import StrEnum

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.text import printable
from orchestrator.store import records
from orchestrator.store.folders import RunFolder
from orchestrator.workloads.rehearsal import LAST_WORD, ORDER_FILE
from parsers.records import Outcome, OutcomeKind
from parsers.runs.outcome import read_outcome


class RunOutcome(StrEnum):
    """teralog's word for how a run ended.

    A state is another thing: the scheduler's word, in capitals, e.g. NODE_FAIL.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    OOM = "oom"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    UNKNOWN = "unknown"
    # The run was not started, because a run before it failed. This is not an end to retry.
    GIVEN_UP = "given_up"


_UNREHEARSED = (
    "the script ended before the rehearsal began; check setup and python in the cluster profile"
)

# Failures after which runs with more of the parameter fail, too. A cancelled run, or a failed
# node, does not predict that.
FAILURES = frozenset({RunOutcome.FAILED, RunOutcome.OOM, RunOutcome.TIMEOUT})

# The words that `retry --only` takes.
UNSUCCESSFUL = tuple(
    word.value for word in RunOutcome if word not in (RunOutcome.COMPLETED, RunOutcome.GIVEN_UP)
)

_BY_STATE = {
    records.COMPLETED: RunOutcome.COMPLETED,
    records.FAILED: RunOutcome.FAILED,
    records.TIMEOUT: RunOutcome.TIMEOUT,
    records.CANCELLED: RunOutcome.CANCELLED,
    records.INTERRUPTED: RunOutcome.INTERRUPTED,
    records.UNKNOWN: RunOutcome.UNKNOWN,
    # Slurm's own.
    "OUT_OF_MEMORY": RunOutcome.OOM,
    "NODE_FAIL": RunOutcome.NODE_FAIL,
    "BOOT_FAIL": RunOutcome.NODE_FAIL,
    "PREEMPTED": RunOutcome.PREEMPTED,
    "DEADLINE": RunOutcome.TIMEOUT,
    "REVOKED": RunOutcome.CANCELLED,
    "LAUNCH_FAILED": RunOutcome.FAILED,
    "RECONFIG_FAIL": RunOutcome.FAILED,
}
_BY_LOG = {
    # If the log shows that memory ran out, the failure is reported as that.
    records.FAILED: {
        OutcomeKind.GPU_OUT_OF_MEMORY: RunOutcome.OOM,
        OutcomeKind.HOST_OUT_OF_MEMORY: RunOutcome.OOM,
    },
    # If Slurm no longer knows the job, only the log is left.
    records.UNKNOWN: {
        OutcomeKind.COMPLETED: RunOutcome.COMPLETED,
        OutcomeKind.GPU_OUT_OF_MEMORY: RunOutcome.OOM,
        OutcomeKind.HOST_OUT_OF_MEMORY: RunOutcome.OOM,
        OutcomeKind.TIME_LIMIT: RunOutcome.TIMEOUT,
        OutcomeKind.PREEMPTED: RunOutcome.PREEMPTED,
        OutcomeKind.NODE_FAILURE: RunOutcome.NODE_FAIL,
        OutcomeKind.CANCELLED: RunOutcome.CANCELLED,
        OutcomeKind.NAN_LOSS: RunOutcome.FAILED,
        OutcomeKind.COMMUNICATION_FAILURE: RunOutcome.FAILED,
        OutcomeKind.KILLED: RunOutcome.FAILED,
        OutcomeKind.ERROR: RunOutcome.FAILED,
    },
}


def outcome(state: str, log_outcome: Outcome | None) -> RunOutcome | None:
    """Return a run's outcome; None if the run has not ended.

    state: the scheduler's state, which decides in most cases. log_outcome: how the run ended
    according to its log, which decides in two cases. First: the log of a failed run shows that
    memory ran out; then the outcome is `oom`. Second: Slurm no longer knows the run's job.
    """
    word = _BY_STATE.get(state)
    if log_outcome is None:
        return word
    return _BY_LOG.get(state, {}).get(log_outcome.kind, word)


def decided_by(state: str, word: RunOutcome | None) -> str | None:
    """Return whether the state or the log decided a run's outcome: `scheduler` or `log`.

    word: the outcome. Returns None if the run has no outcome, or if the outcome is `unknown`.
    """
    if word is None or word == RunOutcome.UNKNOWN:
        return None
    return "scheduler" if _BY_STATE.get(state) == word else "log"


def run_outcome(
    folder: RunFolder,
) -> tuple[str, RunOutcome | None, Outcome | None, tuple[records.Attempt, ...]]:
    """Return a run's state, its outcome, the outcome in its log, and its attempts.

    The state is that of the last attempt, or NOT_STARTED. The outcome is None if the run has not
    ended. The outcome in the log has the failure message; it is None if the state alone decides,
    or if the log cannot be read. The attempts are in order, oldest first.
    """
    state, starts = folder.standing()
    log_outcome = _printable(_log_outcome(state, starts[-1])) if starts else None
    word = outcome(state, log_outcome)
    if word == RunOutcome.COMPLETED and _is_unrehearsed(folder, starts[-1]):
        # A script that ends before its rehearsal, e.g. by `exit 0`, has not completed anything.
        word, log_outcome = RunOutcome.FAILED, Outcome(kind=OutcomeKind.ERROR, text=_UNREHEARSED)
    return state, word, log_outcome, tuple(starts)


def _is_unrehearsed(folder: RunFolder, attempt: records.Attempt) -> bool:
    """Return whether an attempt is a rehearsal that stopped before its end.

    A rehearsal that reaches its end prints a fixed last text to the log, and the function searches
    for this text. Returns False if the attempt is not a rehearsal, or if its log cannot be read.
    """
    if not (folder.path / ORDER_FILE).exists():
        return False
    try:
        return LAST_WORD not in attempt.log.read_text("utf-8", "replace")
    except OSError:
        return False


def attempt_outcome(attempt: records.Attempt) -> RunOutcome | None:
    """Return the outcome of one attempt of a run; None if the attempt has not ended.

    The run's other attempts have no influence on this outcome.
    """
    if attempt.ended is None:
        return None
    state = attempt.ended.state
    return outcome(state, _log_outcome(state, attempt))


def _log_outcome(state: str, attempt: records.Attempt) -> Outcome | None:
    """Return how a run ended according to its log.

    Returns None if the scheduler's state alone decides the outcome, or if the log is missing or
    cannot be read.
    """
    if state not in _BY_LOG:
        return None
    try:
        return read_outcome(attempt.log)
    except OSError:
        return None


def _printable(log_outcome: Outcome | None) -> Outcome | None:
    """Return an outcome from a log, without characters that control a terminal."""
    if log_outcome is None or log_outcome.text is None:
        return log_outcome
    return replace(log_outcome, text=printable(log_outcome.text))


def parse_outcomes(text: str) -> tuple[str, ...]:
    """Return the outcomes that `--only` lists, e.g. `timeout,oom`; for an empty text, all failures.

    Failures are all outcomes that `--only` accepts, except `unknown`. Raises UserError for a word
    that `--only` does not accept, e.g. `completed`.
    """
    words = tuple(word.strip() for word in text.lower().split(",") if word.strip())
    unknown = [word for word in words if word not in UNSUCCESSFUL]
    if unknown:
        raise UserError(
            *(
                (f"--only: there is no outcome {word!r}{did_you_mean(word, UNSUCCESSFUL)}")
                for word in unknown
            )
        )
    return words or tuple(word for word in UNSUCCESSFUL if word != RunOutcome.UNKNOWN)
