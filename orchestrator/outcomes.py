"""How a run ended: the scheduler's state and the log's end, taken together."""

from dataclasses import replace

from orchestrator import store
from orchestrator.errors import UserError, did_you_mean
from orchestrator.printing import printable
from parsers.outcome import read_outcome
from parsers.records import Outcome, OutcomeKind

COMPLETED = "completed"
FAILED = "failed"
OOM = "oom"
TIMEOUT = "timeout"
CANCELLED = "cancelled"
INTERRUPTED = "interrupted"

# The words that `retry --only` takes.
UNSUCCESSFUL = (FAILED, OOM, TIMEOUT, CANCELLED, INTERRUPTED)

_BY_STATE = {
    store.COMPLETED: COMPLETED,
    store.FAILED: FAILED,
    store.TIMEOUT: TIMEOUT,
    store.CANCELLED: CANCELLED,
    store.INTERRUPTED: INTERRUPTED,
}
_OUT_OF_MEMORY = (OutcomeKind.GPU_OUT_OF_MEMORY, OutcomeKind.HOST_OUT_OF_MEMORY)


def outcome(state: str, log_outcome: Outcome | None) -> str | None:
    """Return how a run ended in one word, or None where it has not.

    The state decides; a failure is an out-of-memory where the log says so.
    """
    word = _BY_STATE.get(state)
    if word == FAILED and log_outcome is not None and log_outcome.kind in _OUT_OF_MEMORY:
        return OOM
    return word


def run_outcome(folder: store.RunFolder) -> tuple[str, str | None, Outcome | None]:
    """Return a run's state, its outcome, and what the log of a failed attempt says of it."""
    state = folder.state()
    attempts = folder.attempts()
    told = None
    if state == store.FAILED and attempts and attempts[-1].log.exists():
        told = _printable(read_outcome(attempts[-1].log))
    return state, outcome(state, told), told


def _printable(told: Outcome | None) -> Outcome | None:
    """Return what a log says without the characters that would speak to a terminal."""
    if told is None or told.text is None:
        return told
    return replace(told, text=printable(told.text))


def parse_outcomes(text: str) -> tuple[str, ...]:
    """Return the outcomes in a list with commas; all unsuccessful ones where it is empty.

    Raises UserError where a word is none of them.
    """
    words = tuple(word.strip() for word in text.lower().split(",") if word.strip())
    unknown = [word for word in words if word not in UNSUCCESSFUL]
    if unknown:
        raise UserError(
            *(f"--only: no run ends {word!r}{did_you_mean(word, UNSUCCESSFUL)}" for word in unknown)
        )
    return words or UNSUCCESSFUL
