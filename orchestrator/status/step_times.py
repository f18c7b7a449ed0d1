"""Read step times of a campaign's runs from logs, to compare runs and nodes.

A run has the same id in all campaigns, so its times in other campaigns are read too.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.collect.attempt_log import read_attempt_log
from orchestrator.collect.outcomes import RunOutcome, attempt_outcome
from orchestrator.common.errors import UserError
from orchestrator.measure.summary import configured
from orchestrator.status.slow_runs import StepTimes, TimedRun, kind_of
from orchestrator.status.table import RunStatus
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from parsers.summary.warmup import Warmup

# This many earlier runs are enough to know the usual step time. There may be a hundred, e.g. if a
# configuration is measured each week.
_MOST = 5


def timed_runs(
    campaign: Campaign, store: CampaignStore, statuses: Sequence[RunStatus]
) -> dict[str, TimedRun]:
    """Return the runs of a campaign with their step times, by id.

    A run's log is read only if there is something to compare its step times with. This is another
    run that differs only in `repeat`, another attempt, or the same run in another campaign.
    """
    kinds = [kind_of(status.planned.run) for status in statuses]
    alike, earlier_runs = Counter(kinds), EarlierRuns(campaign, store)
    timed = {}
    for status, kind in zip(statuses, kinds, strict=True):
        elsewhere = earlier_runs.times(kind) if status.attempts else ()
        alone = alike[kind] == 1 and len(status.attempts) < 2 and not elsewhere
        attempts = () if alone else status.attempts
        times = [
            attempt_times(
                status.planned,
                attempt,
                campaign.warmup,
                complete=status.outcome is not None or attempt is not attempts[-1],
            )
            for attempt in attempts
        ]
        *earlier, last = times or [None]
        timed[status.planned.run_id] = timed_run(status, kind, last, earlier, elsewhere)
    return timed


def timed_run(
    status: RunStatus,
    kind: str,
    times: StepTimes | None,
    earlier: Sequence[StepTimes | None] = (),
    elsewhere: Sequence[StepTimes] = (),
) -> TimedRun:
    """Combine a run's status and its step times into a TimedRun.

    kind: a key that is equal for runs that differ only in `repeat`.
    times: step times of the last attempt. earlier: step times of earlier attempts.
    elsewhere: step times of the same run in other campaigns.
    """
    return TimedRun(
        label=status.planned.label,
        kind=kind,
        node_list=status.attempts[-1].nodes if status.attempts else None,
        times=times,
        earlier=tuple(attempt_times for attempt_times in earlier if attempt_times is not None),
        elsewhere=tuple(elsewhere),
    )


class EarlierRuns:
    """The step times that other campaigns in the same results folder measured for the same runs.

    Each log is read only once.
    """

    def __init__(self, campaign: Campaign, store: CampaignStore) -> None:
        """Find the runs of `campaign` that are also in other campaigns of the same results folder.

        If `campaign` is a rehearsal, nothing is searched, because a rehearsal has no step times.
        """
        self._warmup = campaign.warmup
        self._found: dict[str, list[tuple[PlannedRun, CampaignStore]]] = {}
        self._times: dict[str, tuple[StepTimes, ...]] = {}
        runs = {planned.run_id: planned for planned in campaign.runs}
        for other in () if campaign.rehearsal else _others(store):
            for identity in runs.keys() & _names(other.path):
                kind = kind_of(runs[identity].run)
                self._found.setdefault(kind, []).append((runs[identity], other))

    def times(self, kind: str) -> tuple[StepTimes, ...]:
        """Return the step times of at most five completed attempts of runs with this `kind`.

        The attempts are from other campaigns. Campaigns that were submitted later come first.
        """
        if kind not in self._times:
            self._times[kind] = tuple(islice(self._completed(kind), _MOST))
        return self._times[kind]

    def _completed(self, kind: str) -> Iterator[StepTimes]:
        for planned, store in self._found.get(kind, ()):
            for attempt in _attempts(store, planned.run_id):
                if attempt_outcome(attempt) == RunOutcome.COMPLETED:
                    times = attempt_times(planned, attempt, self._warmup, complete=True)
                    if times is not None:
                        yield times


def attempt_times(
    planned: PlannedRun, attempt: Attempt, warmup: Warmup, *, complete: bool
) -> StepTimes | None:
    """Return the median and the deviation of an attempt's step times after the warm-up.

    Returns None if the log cannot be read, or has fewer than three step times, or if their
    median is 0.
    """
    run = planned.run
    try:
        read = read_attempt_log(attempt, run.framework, configured(run), warmup, complete=complete)
    except OSError:
        return None
    return StepTimes.of(read.reports.seconds)


def _attempts(store: CampaignStore, run_id: str) -> list[Attempt]:
    """Return the attempts of a run in another campaign.

    Returns an empty list if a file of an attempt is damaged.
    """
    with suppress(UserError):
        return store.run(run_id).attempts()
    return []


def _others(store: CampaignStore) -> list[CampaignStore]:
    """Return the other campaigns of a results folder, the last submitted one first."""
    results = store.path.parent
    others = [CampaignStore(results / name) for name in _names(results) - {store.path.name}]
    return sorted(others, key=lambda other: other.submitted_at, reverse=True)


def _names(folder: Path) -> set[str]:
    with suppress(OSError):
        return set(os.listdir(folder))  # noqa: PTH208  (a campaign has thousands of runs)
    return set()
