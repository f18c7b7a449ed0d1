"""Submit a campaign on this machine: one submit at a time, and every run at most once."""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.interleaving import unfinished_blocks
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import disk_errors
from orchestrator.common.text import counted
from orchestrator.hardware.machine import oversubscription_problem
from orchestrator.local import executor
from orchestrator.local.devices import Devices, Lease, this_machines_devices
from orchestrator.local.display import show_progress
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import CANCELLABLE, RUNNING, SUBMIT, Position
from orchestrator.submit.backend import StartOptions
from orchestrator.submit.render import render_runs


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices of this machine, and the way in which runs get devices.

    oversubscribe: whether a run may have more ranks than there are cores.
    """

    devices: Devices
    oversubscribe: bool = False

    @property
    def what(self) -> str:
        """The number and kind of the devices, as text for the user."""
        kind = "GPU" if self.devices.kind == "gpu" else self.devices.kind
        return counted(len(self.devices.names), kind)

    def require(self, run: Run) -> None:
        """Raise UserError if a run has more ranks than this machine has GPUs (without GPUs: cores).

        With `oversubscribe`, a run may have more ranks than cores.
        """
        ranks = run.resources.gpus_per_node
        self.devices.require(ranks)
        if self.cores is not None and not self.oversubscribe:
            problem = oversubscription_problem(ranks, self.cores)
            if problem is not None:
                raise UserError(problem)

    def lease(self, run: Run, script: Path) -> Lease | None:
        """Return a device for each rank, or None if too few devices are free at the moment.

        A run with more ranks than cores gets all cores.
        """
        return self.devices.lease(run.resources.gpus_per_node)

    def environment(self, lease: Lease, script: Path) -> dict[str, str]:
        """Return the variables that limit a run to its devices."""
        return self.devices.environment(lease)

    def refusal(self, run: Run) -> executor.Refusal | None:
        """Return None, because this machine has no time limit that a run could exceed."""
        return None

    @property
    def cores(self) -> int | None:
        """The number of CPU cores that runs on this machine share; None if ranks run on GPUs."""
        return len(self.devices.names) if self.devices.kind == "core" else None

    @property
    def allocation(self) -> str | None:
        """None, because the devices are not part of a Slurm allocation."""
        return None


@dataclass(frozen=True, slots=True)
class LocalSession:
    """One call of `submit` on this machine; during this call, it has the campaign's lock."""

    campaign: Campaign
    store: CampaignStore
    here: bool = False

    def settle(self, runs: Sequence[PlannedRun]) -> list[str]:
        """Close the attempts that a killed submit left open; return messages for the user.

        In an allocation, the method first asks Slurm about attempts that are Slurm jobs.
        """
        notes = []
        if self.here:
            from orchestrator.slurm.tracking import refresh

            notes = refresh(runs, self.store)
        for planned in runs:
            executor.close_abandoned_run(self.store.run(planned.run_id))
        return notes

    def start(self, runs: Sequence[PlannedRun], options: StartOptions) -> Iterator[str]:
        """Render `runs`, start them, and wait until all end.

        Yields sentences about the runs that were not started, with the reasons.
        """
        places = self._places(options)
        runs, queued = self._without_queued(runs)
        slots = self._slots(options)
        positions = self._positions(runs, options.blocks)
        for planned, _ in positions:
            places.require(planned.run)
        render_runs(self.campaign, [planned for planned, _ in positions], self.store)
        waiting = []
        for planned, position in positions:
            folder = self.store.run(planned.run_id)
            waiting.append(executor.Waiting(planned, folder, len(folder.attempts()), position))
        if waiting:
            with show_progress(len(waiting), places.what) as tell:
                left_over = executor.run_all(waiting, places, slots, tell)
            yield from self._left_lines(left_over)
        if queued:
            yield (
                f"{counted(queued, 'run')} not started, because earlier runs of the same series "
                "wait in Slurm's queue"
            )

    def _without_queued(self, runs: Sequence[PlannedRun]) -> tuple[Sequence[PlannedRun], int]:
        """Return the runs that can start now, and how many of `runs` cannot.

        In an allocation, a run cannot start while an earlier run of its series is in Slurm's queue.
        """
        if not self.here:
            return runs, 0
        from orchestrator.slurm.tracking import queued_attempts

        queued = {attempt.run_id for attempt in queued_attempts(self.campaign.runs, self.store)}
        free = [
            run
            for run in runs
            if run.series is None or queued.isdisjoint(run.series.before(run.run_id))
        ]
        return free, len(runs) - len(free)

    def _slots(self, options: StartOptions) -> int | None:
        """Return how many runs may run at once; None without a limit.

        With an interleaved order, the result is 1. Then `--slots` must be 1 or absent; otherwise
        UserError is raised.
        """
        if self.campaign.order_seed is None:
            return options.slots
        if options.slots not in (None, 1):
            raise UserError(
                "--slots: must be 1, because `order: interleaved` starts one run at a time"
            )
        return 1

    def _positions(
        self, runs: Sequence[PlannedRun], blocks: int | None
    ) -> list[tuple[PlannedRun, Position]]:
        """Return the runs in starting order, each with its position.

        blocks: how many blocks of an interleaved order to start; None for all. Raises UserError if
        `blocks` is given and the order is not interleaved.
        """
        allocation = os.environ["SLURM_JOB_ID"] if self.here else SUBMIT + secrets.token_hex(6)
        seed = self.campaign.order_seed
        if seed is None:
            if blocks is not None:
                raise UserError("--blocks: needs a campaign with `order: interleaved`")
            return [(planned, Position(allocation, place)) for place, planned in enumerate(runs, 1)]
        chosen = {planned.run_id: planned for planned in runs}
        begun = unfinished_blocks(self.campaign.runs, chosen.keys(), seed)[:blocks]
        return [
            (chosen[run.planned.run_id], Position(allocation, run.place, run.block))
            for block in begun
            for run in block
        ]

    def _left_lines(self, left: Mapping[str, str]) -> Iterator[str]:
        """Yield one line per reason: how many runs were not started, and how to start them.

        left: for each run that was not started, the reason.
        """
        typed = self.campaign.arguments
        for why, count in Counter(left.values()).items():
            yield (
                f"{counted(count, 'run')} left: {why}; `teralog submit {typed} --here` continues "
                f"in another allocation, and `teralog salloc {typed} --run` gets one"
            )

    def _places(self, options: StartOptions) -> executor.Places:
        if self.here:
            from orchestrator.submit.allocation import this_allocation

            return this_allocation(has_gpus=self.campaign.cluster.has_gpus, overrun=options.overrun)
        return Machine(
            this_machines_devices(gpus_wanted=self.campaign.cluster.has_gpus),
            oversubscribe=options.oversubscribe or self.campaign.rehearsal,
        )


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """The backend for this machine.

    here: whether runs start in the Slurm allocation of this process.
    """

    here: bool = False

    @contextmanager
    def session(
        self, campaign: Campaign, store: CampaignStore, tell: Callable[[str], None]
    ) -> Iterator[LocalSession]:
        """Hold the campaign's lock for one submit. Raises UserError if another submit is active.

        This call does not wait for the other submit, which may run for days.
        """
        with disk_errors(store.path):
            store.path.mkdir(parents=True, exist_ok=True)
            lock = locks.acquire(store.submit_lock)
        if lock is None:
            raise UserError(
                f"{store.path}: another submit is working on this campaign; submit again when "
                "it has ended"
            )
        try:
            yield LocalSession(campaign, store, self.here)
        finally:
            os.close(lock)

    def refresh(self, runs: Sequence[PlannedRun], store: CampaignStore) -> list[str]:
        """Do nothing, because supervisors keep the records up to date."""
        return []

    def cancel(
        self,
        campaign: Campaign,
        runs: Sequence[PlannedRun],
        store: CampaignStore,
        state: str | None,
        tell: Callable[[str], None],
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Cancel `runs` one by one, and yield each with its state afterwards.

        Impossible runs and ended runs are left out. Raises UserError at the end if a run could not
        be cancelled.
        """
        wanted = CANCELLABLE if state is None else CANCELLABLE & {state}
        states = {run.run_id: store.run(run.run_id).state() for run in runs if not run.problems}
        chosen = [run for run in runs if states.get(run.run_id) in wanted]
        new = [run for run in chosen if not store.run(run.run_id).script.exists()]
        problems: list[str] = []
        try:
            render_runs(campaign, new, store)
        except UserError as error:
            # Runs that are already running are cancelled nevertheless.
            problems += error.problems
            chosen = [run for run in chosen if run not in new]
        # Waiting runs are cancelled first, because they would start as the others end.
        for planned in sorted(chosen, key=lambda run: states[run.run_id] == RUNNING):
            folder = store.run(planned.run_id)
            try:
                with disk_errors(folder.path):
                    executor.cancel_local_run(folder)
            except UserError as error:
                problems += error.problems
            yield planned, folder.state()
        if problems:
            raise UserError(*problems)

    def estimates(
        self, campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Raise UserError, because this machine has no queue."""
        raise _no_queue("--test-only")

    def refuse(self, options: StartOptions) -> None:
        """Raise UserError if an option works only on Slurm."""
        given = {
            "--throttle": options.sbatch.throttle,
            "--dependency": options.sbatch.dependency,
            "--hold": options.sbatch.hold or None,
            "--exclude": options.sbatch.exclude,
            "--wait": options.wait or None,
        }
        for name, value in given.items():
            if value is not None:
                raise _no_queue(name)
        if options.oversubscribe and self.here:
            raise UserError("--oversubscribe: cannot be used with --here; remove one of them")
        if options.overrun and not self.here:
            raise UserError("--overrun: works only in an allocation; add --here")


def _no_queue(option: str) -> UserError:
    return UserError(
        f"{option}: works only on a Slurm cluster, but this campaign runs on this machine"
    )
