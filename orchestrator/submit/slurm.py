"""Start runs on a Slurm cluster, cancel them, and estimate when they start."""

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.interleaving import unfinished_blocks
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import disk_errors
from orchestrator.common.paths import unset_in
from orchestrator.slurm.arrays import Script, batches
from orchestrator.slurm.commands import SBATCH_SECONDS, ignored_variables
from orchestrator.slurm.tracking import refresh
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.submit.allocation import allocation_options
from orchestrator.submit.backend import StartOptions
from orchestrator.submit.scripts import job_script

if TYPE_CHECKING:
    from orchestrator.submit.slurm_session import SlurmSession

_POLL_SECONDS = 0.5
# Time that an allocation needs before its first run starts. A run starts only if its time limit
# fits into the rest.
_MARGIN_SECONDS = 60


class SlurmBackend:
    """The backend for a Slurm cluster, whose commands are on the PATH."""

    @contextmanager
    def session(
        self, campaign: Campaign, store: CampaignStore, tell: Callable[[str], None]
    ) -> "Iterator[SlurmSession]":
        """Hold the campaign's lock for one submit; first wait until an active submit ends.

        If the file system has no locks, the submit works without the lock. The claims of runs still
        ensure that each run is submitted only once. Raises UserError if the active submit does not
        end in time. Also raises it if the path of the log folder contains a variable that is not
        set.
        """
        cluster = campaign.cluster
        if unset := list(unset_in("log_folder", cluster.log_folder)):
            raise UserError(*(f"cluster {cluster.name}: {problem}" for problem in unset))
        for note in ignored_variables(cluster.account):
            tell(note)
        with disk_errors(store.path):
            store.path.mkdir(parents=True, exist_ok=True)
        # Commands that only ask do not import submitit, which takes a tenth of a second.
        from orchestrator.submit.slurm_session import SlurmSession

        lock = _lock(store, tell)
        try:
            yield SlurmSession(campaign, store, lock)
        finally:
            if lock is not None:
                os.close(lock)

    def refresh(self, runs: Sequence[PlannedRun], store: CampaignStore) -> list[str]:
        """Ask Slurm about the open attempts of `runs`, record the answers, and return all problems.

        Each problem is a sentence for the user.
        """
        return refresh(runs, store)

    def cancel(
        self,
        campaign: Campaign,
        runs: Sequence[PlannedRun],
        store: CampaignStore,
        state: str | None,
        tell: Callable[[str], None],
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Cancel all runs at once, wait until they end, and yield each run with its state."""
        from orchestrator.submit.slurm_cancel import cancel_runs

        return cancel_runs(campaign, runs, store, state, tell)

    def estimates(
        self, campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
    ) -> Iterator[tuple[PlannedRun, str]]:
        """Yield each run with Slurm's text about its expected start; start nothing.

        Writes no files of the campaign. Slurm is asked once for all runs with the same resources.
        Raises UserError if Slurm refuses a run.
        """
        from orchestrator.slurm.executor import RefusedError, ScriptExecutor

        executor = ScriptExecutor(store.path)
        by_id = {run.run_id: run for run in runs}
        scripts = [
            Script(run.run_id, job_script(run, campaign, store.run(run.run_id).path))
            for run in runs
        ]
        for group in batches(scripts, len(scripts)):
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sh") as file:
                file.write(group[0].text)
                file.flush()
                try:
                    estimate = executor.test(Path(file.name))
                except RefusedError as refused:
                    raise UserError(f"{by_id[group[0].run_id].label}: {refused}") from None
            yield from ((by_id[script.run_id], estimate) for script in group)

    def refuse(self, options: StartOptions) -> None:
        """Raise UserError if an option works only on this machine or in an allocation."""
        if options.slots is not None:
            raise UserError(
                "--slots: works only on this machine; on Slurm, use --throttle to limit the runs "
                "of a campaign"
            )
        if options.blocks is not None:
            raise UserError("--blocks: works only on this machine, or in an allocation with --here")
        if options.overrun:
            raise UserError("--overrun: works only in an allocation; add --here")


def _lock(store: CampaignStore, tell: Callable[[str], None]) -> int | None:
    deadline = time.monotonic() + SBATCH_SECONDS
    # Most submits end in a moment, so there is no need to report them.
    told_at = time.monotonic() + 2 * _POLL_SECONDS
    another = f"{store.path}: another submit is working on this campaign"
    while True:
        try:
            lock = locks.acquire(store.submit_lock)
        except OSError:
            return None
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise UserError(f"{another}; submit again when it has ended")
        if time.monotonic() > told_at:
            tell(f"{another}; waiting for that submit to end, at most {SBATCH_SECONDS} s")
            told_at = deadline
        time.sleep(_POLL_SECONDS)


def salloc_line(
    campaign: Campaign,
    runs: Sequence[PlannedRun],
    store: CampaignStore,
    time_limit_seconds: int | None,
) -> list[str]:
    """Return the salloc command for an allocation that is large enough for each of `runs`.

    time_limit_seconds: the time limit of the allocation. None: enough time for all runs one after
    another. Raises UserError if the campaign's cluster has no allocations, or if `runs` is empty.
    """
    _require_allocations(campaign, runs)
    return ["salloc", *_asking_for(campaign, [runs], store, time_limit_seconds)]


def batch_line(
    campaign: Campaign,
    runs: Sequence[PlannedRun],
    store: CampaignStore,
    time_limit_seconds: int | None,
    submit: Sequence[str],
) -> list[str]:
    """Return the sbatch command for a job that gets an allocation and runs `submit` in it.

    submit: the words of the command `teralog submit --here` with its options.
    time_limit_seconds: the time limit of the allocation. None: enough time for all its runs one
    after another. The allocation is large enough for each run.

    For an interleaved campaign, the command submits an array of jobs, so that each block of
    runs has its own allocation. The jobs of an array run one after another, because at most one
    task may run at a time. The same is true for the jobs of several commands: they have the
    same name, and Slurm's dependency `singleton` lets a job wait for earlier jobs of its name.
    Raises UserError if the campaign's cluster has no allocations, or if `runs` is empty.
    """
    _require_allocations(campaign, runs)
    parts = [runs]
    words = list(submit)
    array = []
    if campaign.order_seed is not None:
        blocks = unfinished_blocks(campaign.runs, {run.run_id for run in runs}, campaign.order_seed)
        parts = [[run.planned for run in block] for block in blocks]
        words += ["--blocks", "1"]
        # `singleton` makes jobs wait for earlier jobs of their name, but does not make the tasks of
        # an array wait for each other.
        array = [f"--array=1-{len(blocks)}%1"]
    options = _asking_for(campaign, parts, store, time_limit_seconds)
    return ["sbatch", *options, *array, "--dependency=singleton", f"--wrap={shlex.join(words)}"]


def _require_allocations(campaign: Campaign, runs: Sequence[PlannedRun]) -> None:
    if campaign.cluster.scheduler != "slurm":
        raise UserError(
            f"cluster {campaign.cluster.name!r} is this machine, so there is "
            "nothing to allocate; type `teralog submit`"
        )
    if not runs:
        raise UserError(f"{campaign.path}: no run is missing")


def _asking_for(
    campaign: Campaign,
    parts: Sequence[Sequence[PlannedRun]],
    store: CampaignStore,
    time_limit_seconds: int | None,
) -> list[str]:
    """Return the sbatch or salloc options for an allocation in which one group of runs can run.

    parts: the groups of runs. Each group gets an allocation with the same options. So the nodes
    are enough for every run, and the time is enough for the group that takes longest.
    time_limit_seconds: the time limit to use instead of this computed time; None to use the
    computed time.
    """
    scripts = [
        job_script(run, campaign, store.run(run.run_id).path) for part in parts for run in part
    ]
    longest = _MARGIN_SECONDS + max(
        sum(run.run.resources.time_limit_seconds for run in part) for part in parts
    )
    return allocation_options(campaign.name, scripts, time_limit_seconds or longest)
