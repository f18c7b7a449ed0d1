"""What a campaign's runs took in other campaigns: a run has the same id in all of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from orchestrator.attempts import Attempt
from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.errors import UserError
from orchestrator.outcomes import COMPLETED, attempt_outcome
from orchestrator.run_progress import LogSoFar, Progress, progress, read_on
from orchestrator.slow_runs import StepTimes, kind_of
from orchestrator.store import CampaignStore
from orchestrator.warmup import Warmup

# So many tell what is usual; a configuration that is measured each week has a hundred.
_MOST = 5


class EarlierRuns:
    """The same runs in the other campaigns under a folder of results; each log is read once."""

    def __init__(self, campaign: Campaign, store: CampaignStore) -> None:
        """Look for them; nothing is earlier than a rehearsal, which measures nothing."""
        self._warmup = campaign.warmup
        self._found: dict[str, list[tuple[PlannedRun, CampaignStore]]] = {}
        self._times: dict[str, tuple[StepTimes, ...]] = {}
        runs = {planned.run_id: planned for planned in campaign.runs}
        for other in () if campaign.rehearsal else _others(store):
            for identity in runs.keys() & _names(other.path):
                kind = kind_of(runs[identity].run)
                self._found.setdefault(kind, []).append((runs[identity], other))

    def times(self, kind: str) -> tuple[StepTimes, ...]:
        """Return the times of the last few of a kind that completed, as `kind_of` has it."""
        if kind not in self._times:
            self._times[kind] = tuple(islice(self._completed(kind), _MOST))
        return self._times[kind]

    def _completed(self, kind: str) -> Iterator[StepTimes]:
        for planned, store in self._found.get(kind, ()):
            for attempt in _attempts(store, planned.run_id):
                if attempt_outcome(attempt) == COMPLETED:
                    found = attempt_progress(planned, attempt, self._warmup, complete=True)
                    if found.times is not None:
                        yield found.times


def attempt_progress(
    planned: PlannedRun, attempt: Attempt, warmup: Warmup, *, complete: bool
) -> Progress:
    """Return how far an attempt of a run has come; a log that cannot be read tells nothing."""
    try:
        read = read_on(attempt.log, planned, LogSoFar(), complete=complete)
    except OSError:
        return Progress()
    return progress(planned.run, read.records, warmup)


def _attempts(store: CampaignStore, run_id: str) -> list[Attempt]:
    """Return the attempts of a run; none where a file of another campaign's is damaged."""
    with suppress(UserError):
        return store.run(run_id).attempts()
    return []


def _others(store: CampaignStore) -> list[CampaignStore]:
    """Return the other campaigns of a folder of results, the one last submitted first."""
    results = store.path.parent
    others = [CampaignStore(results / name) for name in _names(results) - {store.path.name}]
    return sorted(others, key=lambda other: other.submitted_at, reverse=True)


def _names(folder: Path) -> set[str]:
    with suppress(OSError):
        return set(os.listdir(folder))  # noqa: PTH208  (a campaign has thousands of runs)
    return set()
