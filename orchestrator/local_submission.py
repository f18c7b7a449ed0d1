"""Submitting a campaign on this machine: one submit at a time, every run at most once."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestrator import local, locks
from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.devices import this_machines_devices
from orchestrator.errors import UserError
from orchestrator.progress import progress
from orchestrator.store import RUNNING, CampaignStore, disk_errors
from orchestrator.submission import render


@contextmanager
def session(campaign: Campaign, store: CampaignStore) -> Iterator[None]:
    """Hold the campaign for one submit.

    Raises UserError where another is at work on it, or its cluster is not this machine.
    """
    _require_this_machine(campaign)
    with disk_errors(store.path):
        store.path.mkdir(parents=True, exist_ok=True)
        lock = locks.acquire(store.submit_lock)
    if lock is None:
        raise UserError(f"{store.path}: another submit is at work on this campaign")
    try:
        yield
    finally:
        os.close(lock)


def _require_this_machine(campaign: Campaign) -> None:
    if campaign.cluster.scheduler != "local":
        raise UserError(
            f"cluster {campaign.cluster.name!r} is a Slurm cluster, and runs are submitted to this "
            "machine only: `teralog render` writes scripts that sbatch takes as they are"
        )


def settle(runs: Sequence[PlannedRun], store: CampaignStore) -> None:
    """Bring what a killed submit has left to a recorded end."""
    for planned in runs:
        local.settle(store.run(planned.run_id))


def start(
    campaign: Campaign, store: CampaignStore, runs: Sequence[PlannedRun], slots: int | None
) -> None:
    """Render `runs`, start them, and wait until all have ended. Call it within a `session`."""
    devices = this_machines_devices(gpus_wanted=campaign.cluster.has_gpus)
    for planned in runs:
        devices.require(planned.run.resources.gpus_per_node)
    render(campaign, runs, store)
    folders = [(planned, store.run(planned.run_id)) for planned in runs]
    waiting = [
        local.Waiting(planned, folder, len(folder.attempts())) for planned, folder in folders
    ]
    if not waiting:
        return
    on = f"{len(devices.names)} {devices.kind}{'s' if len(devices.names) > 1 else ''}"
    with progress(len(waiting), on) as tell:
        local.run_all(waiting, devices, slots, tell)


def cancel(
    campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
) -> Iterator[tuple[PlannedRun, str]]:
    """Cancel `runs` one by one, and yield each with its state then; impossible ones are left out.

    Raises UserError where the campaign's cluster is not this machine.
    """
    _require_this_machine(campaign)
    possible = [planned for planned in runs if not planned.problems]
    render(campaign, [run for run in possible if not store.run(run.run_id).script.exists()], store)
    # Those that wait first, or they would start as the others end.
    for planned in sorted(possible, key=lambda run: store.run(run.run_id).state() == RUNNING):
        yield planned, local.cancel(store.run(planned.run_id))
