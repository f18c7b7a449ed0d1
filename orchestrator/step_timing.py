"""How long the steps of a campaign's runs take, by their logs, to compare runs and nodes."""

from collections import Counter
from collections.abc import Sequence

from orchestrator.campaign import Campaign
from orchestrator.earlier_runs import EarlierRuns, attempt_progress
from orchestrator.slow_runs import StepTimes, TimedRun, kind_of
from orchestrator.statuses import RunStatus
from orchestrator.store import CampaignStore


def timed_run(
    status: RunStatus,
    kind: str,
    times: StepTimes | None,
    earlier: Sequence[StepTimes | None] = (),
    elsewhere: Sequence[StepTimes] = (),
) -> TimedRun:
    """Return a run with the times of its last attempt, those before it, and those elsewhere."""
    return TimedRun(
        label=status.planned.label,
        kind=kind,
        node_list=status.attempts[-1].nodes if status.attempts else None,
        times=times,
        earlier=tuple(one for one in earlier if one is not None),
        elsewhere=tuple(elsewhere),
    )


def timed_runs(
    campaign: Campaign, store: CampaignStore, statuses: Sequence[RunStatus]
) -> dict[str, TimedRun]:
    """Return the runs of a campaign with their times, by id.

    Only logs are read that there is something to compare with: those of siblings, of several
    attempts, and of runs that were made in other campaigns too.
    """
    kinds = [kind_of(status.planned.run) for status in statuses]
    alike, earlier_runs = Counter(kinds), EarlierRuns(campaign, store)
    found = {}
    for status, kind in zip(statuses, kinds, strict=True):
        elsewhere = earlier_runs.times(kind) if status.attempts else ()
        alone = alike[kind] == 1 and len(status.attempts) < 2 and not elsewhere
        attempts = () if alone else status.attempts
        times = [
            attempt_progress(
                status.planned,
                one,
                campaign.warmup,
                complete=status.outcome is not None or one is not attempts[-1],
            ).times
            for one in attempts
        ]
        *earlier, last = times or [None]
        found[status.planned.run_id] = timed_run(status, kind, last, earlier, elsewhere)
    return found
