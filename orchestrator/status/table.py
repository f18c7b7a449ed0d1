"""Build the table and the JSON of `teralog status`: a line per run, and totals."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.collect.endings import endings
from orchestrator.collect.outcomes import RunOutcome, decided_by
from orchestrator.common.tables import EXACT, Column, Style, Table, make_table, shown
from orchestrator.common.text import counted
from orchestrator.slurm.lists import compact_ids
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.slow_runs import SlowRun
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Attempt
from parsers.records import Outcome


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run's state, its outcome once it has ended, and its attempts, oldest first.

    log_outcome: how the log of a failed run reports the failure, with the message.
    given_up: if the run was given up, a sentence with the reason; otherwise None.
    rehearsed: whether the run was rehearsed instead of trained.
    """

    planned: PlannedRun
    state: str
    outcome: RunOutcome | None
    log_outcome: Outcome | None
    attempts: tuple[Attempt, ...]
    rehearsed: bool = False
    given_up: str | None = None

    @property
    def unsuccessful(self) -> bool:
        """Whether the run has ended without completing; False for a run that was given up."""
        return self.outcome not in (None, RunOutcome.COMPLETED, RunOutcome.GIVEN_UP)

    @property
    def seconds(self) -> float | None:
        """The duration of the last attempt, in seconds; None if it has not ended."""
        ended = self.attempts[-1].ended if self.attempts else None
        return ended.seconds if ended else None

    @property
    def job(self) -> JobState | None:
        """The last state that Slurm reported for the last attempt; None without such a report."""
        return self.attempts[-1].job if self.attempts else None

    @property
    def node_list(self) -> str | None:
        """The cluster nodes of the last attempt; None if it ran on this machine."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or (last.started and not last.in_allocation):
            return None
        return last.nodes

    @property
    def scheduler_state(self) -> str:
        """The state in Slurm's words, e.g. "CANCELLED by 1000"."""
        state = self.job.state if self.job else self.state
        return state if state.startswith(self.state) else self.state

    @property
    def reason(self) -> str | None:
        """Why a job waits, in Slurm's word, or why a run was given up; None for other runs."""
        if self.given_up is not None:
            return self.given_up
        return self.job.reason if self.job and self.state == "PENDING" else None

    @property
    def waiting_reason(self) -> str | None:
        """Why a job waits, in Slurm's word; None if it does not wait or Slurm reports no reason."""
        return self.reason if self.given_up is None else None

    @property
    def expected_start(self) -> str | None:
        """When Slurm expects to start a waiting job, ISO 8601; None if Slurm does not know."""
        return self.job.expected_start if self.job and self.state == "PENDING" else None

    @property
    def gpu_hours(self) -> float | None:
        """GPU-hours used by all ended attempts together; None if no attempt has ended.

        They are the number of ranks multiplied by the hours of the attempts, because each rank uses
        one GPU on a machine with GPUs. If Slurm requeued a job, the hours before that are included.
        """
        known_hours = [
            hours for attempt in self.attempts if (hours := self._hours(attempt)) is not None
        ]
        return sum(known_hours) if known_hours else None

    def _hours(self, attempt: Attempt) -> float | None:
        if attempt.ended is None:
            return None
        # A job that was requeued may be cancelled before it starts again.
        earlier = attempt.job.earlier_seconds if attempt.job else 0.0
        if attempt.ended.seconds is None and not earlier:
            return None
        return self.planned.run.world_size * ((attempt.ended.seconds or 0.0) + earlier) / 3600


def is_complete(statuses: Sequence[RunStatus]) -> bool:
    """Return whether at least one run was started, and all runs that can start have ended.

    An interrupted run does not count as ended, because another `submit` would start it again.
    """
    possible = [status for status in statuses if status.attempts or not status.planned.refusals]
    left = (None, RunOutcome.INTERRUPTED)
    return any(status.attempts for status in possible) and not any(
        status.outcome in left for status in possible
    )


_COLUMNS: tuple[Column[RunStatus], ...] = (
    Column("run", "run_id", lambda status: status.planned.run_id),
    Column("label", "label", lambda status: status.planned.label),
    Column("state", "state", lambda status: status.scheduler_state),
    Column("outcome", "outcome", lambda status: status.given_up or status.outcome),
    Column("attempts", "attempts", lambda status: len(status.attempts)),
    Column("seconds", "seconds", lambda status: status.seconds, Style(digits=3)),
)
_SLURM_COLUMNS: tuple[Column[RunStatus], ...] = (
    Column("job", "job_id", lambda status: status.job.job_id if status.job else None),
    Column("nodes", "node_list", lambda status: status.node_list),
    Column("waits for", "reason", lambda status: status.waiting_reason),
    Column("expected start", "expected_start", lambda status: local_time(status.expected_start)),
)


def local_time(text: str | None) -> str | None:
    """Format an ISO 8601 time for people, in this machine's time zone."""
    return text and datetime.fromisoformat(text).astimezone().strftime("%m-%d %H:%M")


def run_statuses(campaign: Campaign, store: CampaignStore) -> list[RunStatus]:
    """Return the status of every run of a campaign, in the campaign's order."""
    return _statuses(campaign.runs, campaign, store)


def run_status(planned: PlannedRun, campaign: Campaign, store: CampaignStore) -> RunStatus:
    """Return the status of one run."""
    return _statuses([planned], campaign, store)[0]


def _statuses(
    runs: Sequence[PlannedRun], campaign: Campaign, store: CampaignStore
) -> list[RunStatus]:
    return [
        RunStatus(
            planned,
            ending.state,
            ending.outcome,
            ending.log_outcome,
            ending.attempts,
            campaign.rehearsal,
            given_up=ending.given_up,
        )
        for planned, ending in zip(runs, endings(runs, store), strict=True)
    ]


def status_table(statuses: Sequence[RunStatus]) -> Table:
    """Return the statuses as a table; a column with data from Slurm is left out if it is empty."""
    slurm_columns = [
        column
        for column in _SLURM_COLUMNS
        if any(column.value(status) is not None for status in statuses)
    ]
    return make_table((*_COLUMNS, *slurm_columns), statuses)


def status_records(
    statuses: Sequence[RunStatus],
    slow: Mapping[str, SlowRun],
    hung: Mapping[str, HungRun],
) -> list[dict[str, Any]]:
    """Return one JSON object per run.

    slow: the slow runs, by run id. hung: the hung runs, by run id.
    """
    return [
        {
            **_record(status),
            "slow": slow[identity].record() if identity in slow else None,
            "hung": hung[identity].record() if identity in hung else None,
        }
        for status in statuses
        for identity in (status.planned.run_id,)
    ]


def run_records(statuses: Sequence[RunStatus], runs: Sequence[PlannedRun]) -> list[dict[str, Any]]:
    """Return id, label, state, outcome and Slurm's job id of the runs in `runs`."""
    ids = {planned.run_id for planned in runs}
    return [
        {
            "run_id": status.planned.run_id,
            "label": status.planned.label,
            "state": status.state,
            "outcome": status.outcome,
            "job_id": status.job and status.job.job_id,
        }
        for status in statuses
        if status.planned.run_id in ids
    ]


def word(status: RunStatus) -> str:
    """Return the outcome of a run, or its state if it has no outcome yet, for use in a sentence."""
    return (status.outcome or status.state).lower().replace("_", " ")


def totals(statuses: Sequence[RunStatus], gone: Sequence[str]) -> str:
    """Return one line: how many runs have each outcome or state, and the GPU-hours used.

    A run counts by its outcome, or by its state if it has no outcome yet. The GPU-hours are
    left out if no run has a state from Slurm.
    gone: labels of started runs that are no longer in the campaign file; the line contains
    their number.
    """
    parts = [f"{count} {what}" for what, count in Counter(map(word, statuses)).items()]
    if gone:
        parts.append(f"{len(gone)} no longer in the campaign file, results kept")
    what = "rehearsed " if any(status.rehearsed for status in statuses) else ""
    return f"{counted(len(statuses), f'{what}run')}: {', '.join(parts)}{_hours(statuses)}"


def _hours(statuses: Sequence[RunStatus]) -> str:
    """Return the end of the line of totals, e.g. `; 3 of 12 GPU-hours used`.

    The second number is the sum of the GPU-hours that all runs requested. The text is empty if no
    run has a state from Slurm, e.g. for runs on this machine.
    """
    if not any(status.job for status in statuses):
        return ""
    used = sum(status.gpu_hours or 0.0 for status in statuses)
    asked = sum(status.planned.run.resources.gpu_hours for status in statuses)
    return f"; {shown(used, EXACT)} of {shown(asked, EXACT)} GPU-hours used"


def held_line(statuses: Sequence[RunStatus]) -> str | None:
    """Return a sentence with the command that releases the held jobs; None if no job is held.

    A job is held e.g. by the user, or by Slurm after a failed launch. A job that an administrator
    holds does not count, because the user cannot release it.
    """
    # JobHeldUser, JobHoldMaxRequeue, launch failed requeued held; not JobHeldAdmin, whose release
    # Slurm refuses to a user.
    held = [
        status
        for status in statuses
        if re.search("h[eo]ld", reason := status.waiting_reason or "", re.IGNORECASE)
        and not reason.startswith("JobHeldAdmin")
    ]
    jobs = [status.job.job_id for status in held if status.job and status.job.job_id]
    if not jobs:
        return None
    release = shlex.join(["scontrol", "release", *compact_ids(jobs)])
    return f"Slurm holds {counted(len(jobs), 'run')} until you type: {release}"


def failure_line(status: RunStatus) -> str:
    """Return a line about an unsuccessful run: its outcome, and its log's message and path."""
    log_message = (
        f": {status.log_outcome.text}" if status.log_outcome and status.log_outcome.text else ""
    )
    log = status.attempts[-1].log if status.attempts else None
    where = f" ({log})" if log and log.exists() else ""
    return f"{status.planned.label}: {(status.outcome or status.state).upper()}{log_message}{where}"


def _record(status: RunStatus) -> dict[str, Any]:
    last = status.attempts[-1] if status.attempts else None
    started = last.started if last else None
    ended = last.ended if last else None
    job = status.job
    return {
        "run_id": status.planned.run_id,
        "label": status.planned.label,
        "rehearsed": status.rehearsed,
        "state": status.state,
        "outcome": status.outcome,
        "outcome_by": decided_by(status.state, status.outcome),
        "attempts": len(status.attempts),
        "started_at": started.started_at if started else job and job.started_at,
        "ended_at": ended.ended_at if ended else None,
        "seconds": status.seconds,
        "exit_code": ended.exit_code if ended else None,
        "signal": ended.signal if ended else None,
        "log": str(last.log) if last and last.log.exists() else None,
        "gpu_hours_used": status.gpu_hours,
        "gpu_hours_asked": status.planned.run.resources.gpu_hours,
        "job_id": job and job.job_id,
        "node_list": status.node_list,
        "restarts": job and job.restarts,
        "reason": status.reason,
        "expected_start": status.expected_start,
        "scheduler_state": job and status.scheduler_state,
        "scheduler_state_by": job and job.by,
    }
