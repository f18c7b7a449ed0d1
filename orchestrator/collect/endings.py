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
    """A run's state, its outcome once it has ended, and what the log of a failed run says of that.

    attempts: oldest first. given_up: which run before it failed, where it is not to be started for
    that.
    """

    state: str
    outcome: RunOutcome | None
    told: Outcome | None = None
    attempts: tuple[Attempt, ...] = ()
    given_up: str | None = None


def endings(runs: Sequence[PlannedRun], store: CampaignStore) -> list[Ending]:
    """Return how each of `runs` ended, in their order.

    A run that is given up has neither ended nor begun, or was interrupted; or Slurm, which had it
    in its queue, has forgotten it. What has come to an end of its own is left so, and where the run
    that failed is tried again, it is no longer given up.
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
