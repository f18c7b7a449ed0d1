"""Where a campaign stands: a line a run, and totals."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.outcomes import COMPLETED, run_outcome
from orchestrator.store import Attempt, CampaignStore
from orchestrator.tables import Column, Style, Table, make_table
from parsers.records import Outcome


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run's state, its outcome once it has ended, and its attempts, oldest first.

    `told` is what the log of a failed run says of its end.
    """

    planned: PlannedRun
    state: str
    outcome: str | None
    told: Outcome | None
    attempts: tuple[Attempt, ...]

    @property
    def unsuccessful(self) -> bool:
        """Whether the run has ended, and not completed."""
        return self.outcome not in (None, COMPLETED)

    @property
    def seconds(self) -> float | None:
        """How long the last attempt took."""
        ended = self.attempts[-1].ended if self.attempts else None
        return ended.seconds if ended else None


_COLUMNS: tuple[Column[RunStatus], ...] = (
    Column("run", "run_id", lambda status: status.planned.run_id),
    Column("label", "label", lambda status: status.planned.label),
    Column("state", "state", lambda status: status.state),
    Column("outcome", "outcome", lambda status: status.outcome),
    Column("attempts", "attempts", lambda status: len(status.attempts)),
    Column("seconds", "seconds", lambda status: status.seconds, Style(digits=3)),
)


def run_statuses(campaign: Campaign, store: CampaignStore) -> list[RunStatus]:
    """Return the status of every run of a campaign, in its order."""
    found = []
    for planned in campaign.runs:
        folder = store.run(planned.run_id)
        state, outcome, told = run_outcome(folder)
        found.append(RunStatus(planned, state, outcome, told, tuple(folder.attempts())))
    return found


def table(statuses: Sequence[RunStatus]) -> Table:
    """Return the statuses as a table."""
    return make_table(_COLUMNS, statuses)


def records(statuses: Sequence[RunStatus]) -> list[dict[str, Any]]:
    """Return one object a run, for programs."""
    return [_record(status) for status in statuses]


def totals(statuses: Sequence[RunStatus], gone: Sequence[str]) -> str:
    """Return one line: how many runs are in which state, and what is no longer in the file."""
    counts = Counter(status.outcome or status.state for status in statuses)
    parts = [f"{count} {word.lower().replace('_', ' ')}" for word, count in counts.items()]
    if gone:
        parts.append(f"{len(gone)} no longer in the campaign file, results kept")
    return f"{len(statuses)} runs: {', '.join(parts)}"


def failure_line(status: RunStatus) -> str:
    """Return how an unsuccessful run ended, what its log says of it, and where the log lies."""
    told = f": {status.told.text}" if status.told and status.told.text else ""
    log = status.attempts[-1].log if status.attempts else None
    where = f" ({log})" if log and log.exists() else ""
    return f"{status.planned.label}: {(status.outcome or status.state).upper()}{told}{where}"


def _record(status: RunStatus) -> dict[str, Any]:
    last = status.attempts[-1] if status.attempts else None
    started = last.started if last else None
    ended = last.ended if last else None
    return {
        "run_id": status.planned.run_id,
        "label": status.planned.label,
        "state": status.state,
        "outcome": status.outcome,
        "attempts": len(status.attempts),
        "started_at": started.started_at if started else None,
        "ended_at": ended.ended_at if ended else None,
        "seconds": status.seconds,
        "exit_code": ended.exit_code if ended else None,
        "signal": ended.signal if ended else None,
        "log": str(last.log) if last and last.log.exists() else None,
    }
