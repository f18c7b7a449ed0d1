"""How long the steps of a campaign's runs take, by their logs, to compare runs and nodes."""

from collections import Counter
from collections.abc import Sequence

from orchestrator.attempts import Attempt
from orchestrator.campaign import Campaign
from orchestrator.run_progress import LogSoFar, Progress, progress, read_on
from orchestrator.slow_runs import StepTimes, TimedRun, kind_of
from orchestrator.statuses import RunStatus


def timed_run(
    status: RunStatus,
    kind: str,
    times: StepTimes | None,
    earlier: Sequence[StepTimes | None] = (),
) -> TimedRun:
    """Return a run with the times of its last attempt, and those of the ones before it."""
    return TimedRun(
        label=status.planned.label,
        kind=kind,
        node_list=status.attempts[-1].nodes if status.attempts else None,
        times=times,
        earlier=tuple(one for one in earlier if one is not None),
    )


def timed_runs(campaign: Campaign, statuses: Sequence[RunStatus]) -> dict[str, TimedRun]:
    """Return the runs of a campaign with their times, by id.

    Only logs are read that there is something to compare with: those of siblings, and of several
    attempts.
    """
    kinds = [kind_of(status.planned.run) for status in statuses]
    alike = Counter(kinds)
    found = {}
    for status, kind in zip(statuses, kinds, strict=True):
        alone = alike[kind] == 1 and len(status.attempts) < 2
        attempts = () if alone else status.attempts
        times = [attempt_progress(status, one, campaign).times for one in attempts]
        *earlier, last = times or [None]
        found[status.planned.run_id] = timed_run(status, kind, last, earlier)
    return found


def attempt_progress(status: RunStatus, attempt: Attempt, campaign: Campaign) -> Progress:
    """Return how far an attempt of a run has come; a log that cannot be read tells nothing."""
    complete = status.outcome is not None or attempt is not status.attempts[-1]
    try:
        read = read_on(attempt.log, status.planned, LogSoFar(), complete=complete)
    except OSError:
        return Progress()
    return progress(status.planned.run, read.records, campaign.warmup)
