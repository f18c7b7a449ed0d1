"""What starts runs and knows how they are: this machine or Slurm, behind one interface."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.errors import UserError
from orchestrator.store import CampaignStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How runs are to be started; absent is None.

    slots: most at once on this machine; blocks: of an interleaved order, at most so many now. The
    others are Slurm's: throttle, tasks of an array at once; dependency and exclude, as sbatch takes
    them; hold, whether jobs wait to be released.
    """

    slots: int | None = None
    blocks: int | None = None
    throttle: int | None = None
    dependency: str | None = None
    hold: bool = False
    exclude: str | None = None


class Session(Protocol):
    """One submit at work on a campaign."""

    def settle(self, runs: Sequence[PlannedRun]) -> list[str]:
        """Bring what earlier submits have left to a recorded end; return what is to be told."""

    def start(self, runs: Sequence[PlannedRun], options: StartOptions) -> Iterator[str]:
        """Start runs that have been settled, yielding a line for what was done.

        On this machine it is done when they have ended, on Slurm when they wait in its queue.
        """


class Backend(Protocol):
    """A place where runs are started."""

    def session(
        self, campaign: Campaign, store: CampaignStore, tell: Callable[[str], None]
    ) -> AbstractContextManager[Session]:
        """Begin a submit. Raises UserError where another is at work on the campaign.

        `tell` hears of it where that other one is waited for.
        """

    def refresh(self, runs: Sequence[PlannedRun], store: CampaignStore) -> list[str]:
        """Bring the records of how runs are up to date; return what is to be told."""

    def cancel(
        self,
        campaign: Campaign,
        runs: Sequence[PlannedRun],
        store: CampaignStore,
        state: str | None,
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Cancel runs, and yield each with its state then; with `state`, those in that state."""

    def estimates(
        self, campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Yield each run with when it would start, in the scheduler's words; start nothing."""

    def refuse(self, options: StartOptions) -> None:
        """Raise UserError where an option means nothing here."""


def backend(campaign: Campaign, *, here: bool = False) -> Backend:
    """Return what starts the runs of a campaign; with `here` it is the allocation one is in.

    Raises UserError where the campaign's cluster has no allocations.
    """
    slurm = campaign.cluster.scheduler == "slurm"
    if here and not slurm:
        raise UserError(f"--here: the cluster {campaign.cluster.name!r} is this machine anyway")
    if slurm and not here:
        from orchestrator.slurm_backend import SlurmBackend

        return SlurmBackend()
    from orchestrator.local_submission import LocalBackend

    return LocalBackend(here)
