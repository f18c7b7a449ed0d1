"""Decide how each run of a campaign ended, and which runs are given up."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.collect.outcomes import FAILURES, RunOutcome, run_outcome
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import GIVEN_UP, INTERRUPTED, NOT_STARTED, Attempt
from parsers.records import Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its state, its outcome, the failure message in its log, and its attempts.

    outcome: None if the run has not ended. attempts: oldest first. given_up: if the run is given
    up, a sentence on which run of its series failed; otherwise None.
    """

    state: str
    outcome: RunOutcome | None
    log_outcome: Outcome | None = None
    attempts: tuple[Attempt, ...] = ()
    given_up: str | None = None


def endings(runs: Sequence[PlannedRun], store: CampaignStore) -> list[Ending]:
    """Return the ending of each of `runs`, in their order.

    A run is given up if an earlier run of its series failed, and the run itself has no known end.
    A run has no known end in three cases: it was not started, it was interrupted, or Slurm no
    longer knows its job and its log does not show how it ended. If the failed run starts again,
    the other runs of its series are no longer given up.
    """

    @cache
    def ending(run_id: str) -> Ending:
        return Ending(*run_outcome(store.run(run_id)))

    def with_others(planned: PlannedRun) -> Ending:
        own, series = ending(planned.run_id), planned.series
        waits = own.state in (NOT_STARTED, INTERRUPTED) or own.outcome == RunOutcome.UNKNOWN
        if series is None or not waits:
            return own
        why = series.given_up(planned.run_id, lambda other: ending(other).outcome in FAILURES)
        if why is None:
            return own
        return Ending(GIVEN_UP, RunOutcome.GIVEN_UP, None, own.attempts, why)

    return [with_others(planned) for planned in runs]
