"""The interface of a backend: a place where runs are started, e.g. this machine or Slurm."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.slurm.sbatch_options import SbatchOptions
from orchestrator.store.campaign_store import CampaignStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options that control how runs are started.

    slots: how many runs may run at once on this machine; None if the user did not give it.
    oversubscribe: whether a run may have more ranks than this machine has cores.
    blocks: how many blocks of an interleaved order to start now; None for all blocks.
    wait: if Slurm accepts only some runs now, whether to submit the other runs later.
    overrun: whether to start a run whose time limit exceeds the time left in the allocation.
    sbatch: options for jobs on a Slurm cluster.
    """

    slots: int | None = None
    oversubscribe: bool = False
    blocks: int | None = None
    wait: bool = False
    overrun: bool = False
    sbatch: SbatchOptions = field(default_factory=SbatchOptions)

    @classmethod
    def of(
        cls,
        *,
        slots: int | None,
        blocks: int | None,
        oversubscribe: bool = False,
        wait: bool = False,
        overrun: bool = False,
        **sbatch: Any,
    ) -> "StartOptions":
        """Make StartOptions from options of the command line.

        sbatch: the options that are fields of SbatchOptions, by name.
        """
        return cls(
            slots=slots,
            oversubscribe=oversubscribe,
            blocks=blocks,
            wait=wait,
            overrun=overrun,
            sbatch=SbatchOptions(**sbatch),
        )


class Session(Protocol):
    """One call of `submit` for a campaign, from its start to its end."""

    def settle(self, runs: Sequence[PlannedRun]) -> list[str]:
        """Close the attempts that earlier submits left open; return messages for the user."""

    def start(self, runs: Sequence[PlannedRun], options: StartOptions) -> Iterator[str]:
        """Start runs, and yield lines for the user; first call `settle` with these runs.

        On this machine, the method waits until the runs have ended; on Slurm, until they are in the
        queue. The lines contain why runs were not started, and on Slurm also the id of each job.
        """


class Backend(Protocol):
    """A place where runs are started."""

    def session(
        self, campaign: Campaign, store: CampaignStore, tell: Callable[[str], None]
    ) -> AbstractContextManager[Session]:
        """Begin a submit of a campaign. Raises UserError if another submit is active.

        On Slurm, the method first waits some time for the other submit to end. tell: gets messages
        for the user, e.g. about this wait.
        """

    def refresh(self, runs: Sequence[PlannedRun], store: CampaignStore) -> list[str]:
        """Bring the recorded states of runs up to date; return messages for the user."""

    def cancel(
        self,
        campaign: Campaign,
        runs: Sequence[PlannedRun],
        store: CampaignStore,
        state: str | None,
        tell: Callable[[str], None],
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Cancel runs, and yield each run with its state after the cancellation.

        state: cancel only runs in this state; None for any state. tell: gets messages for the user,
        e.g. that this command waits for a submit, or that the end of a run cannot be recorded.
        """

    def estimates(
        self, campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Yield each run with the scheduler's text about its expected start; start nothing."""

    def refuse(self, options: StartOptions) -> None:
        """Raise UserError if an option has no effect on this backend."""
