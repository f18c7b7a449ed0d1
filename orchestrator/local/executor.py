"""Run jobs on this machine through submitit's LocalExecutor, as many as fit at once.

submitit's own local jobs have no queue, share the same GPUs, and are identified only by their pid.
If such a job is cancelled, its child processes continue to run. So `RunExecutor` starts the process
of an attempt itself, under an id from teralog. The process inherits two things: the locks of the
devices that the attempt uses, and a lifeline, i.e. a pipe that closes when the submit ends.
`run_all` and `supervise` handle the queue, the limits and the end of runs.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from submitit.core.core import Job
from submitit.core.utils import JobPaths
from submitit.local.local import LocalExecutor, LocalJob

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.collect.outcomes import FAILURES, outcome
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import disk_errors
from orchestrator.local.devices import Lease
from orchestrator.local.processes import GRACE_SECONDS, end_all
from orchestrator.local.supervise import Order, supervise
from orchestrator.run.model import Run
from orchestrator.store.folders import RunFolder, read_attempt, write_ended
from orchestrator.store.record_files import utc_now
from orchestrator.store.records import (
    CANCELLABLE,
    CANCELLED,
    GIVEN_UP,
    INTERRUPTED,
    NOT_STARTED,
    RUNNING,
    Attempt,
    Ended,
    Position,
)

# -P: no file in the current directory is a module of ours.
_SUBMITIT = (sys.executable, "-P", "-u", "-m", "teralog._start", "submitit.core._submit")
_POLL_SECONDS = 0.1
_COMES_AFTER = "an earlier run of the same series was not started"
# Longer than a supervisor takes to end a job that ignores the request to end.
END_SECONDS = 2 * GRACE_SECONDS + 10


class Places(Protocol):
    """The resources that runs use: the devices of a machine, or parts of Slurm nodes."""

    @property
    def what(self) -> str:
        """The resources, in words for the user, e.g. `4 GPUs`."""

    def require(self, run: Run) -> None:
        """Raise UserError if a run needs more resources than exist."""

    def lease(self, run: Run, script: Path) -> Lease | None:
        """Reserve the resources for a run with this job script; return None if too few are free."""

    def environment(self, lease: Lease, script: Path) -> dict[str, str]:
        """Return environment variables that make a job script use only the reserved resources."""

    def refusal(self, run: Run) -> "Refusal | None":
        """Return why a run must never be started here; None if it may be started."""

    @property
    def cores(self) -> int | None:
        """How many cores of this machine the runs share.

        None if each run has its own GPUs, or its own part of Slurm nodes.
        """

    @property
    def allocation(self) -> str | None:
        """The id of the Slurm job on whose nodes the runs start; None on this machine."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run is not started.

    why: the reason, as the end of a sentence.
    of_all: whether the reason applies to all waiting runs, not only to this run.
    """

    why: str
    of_all: bool


# Reported for the first run that finds no free devices while its submit runs nothing.
WAITING = "WAITING"


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a run's state: it started (RUNNING), waits (WAITING), ended, or was given up."""

    planned: PlannedRun
    state: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits to be started.

    attempts: how many attempts of the run existed when it began to wait.
    position: the place of the run in the order of starts.
    """

    planned: PlannedRun
    folder: RunFolder
    attempts: int
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    planned: PlannedRun
    folder: RunFolder
    job: Job[None]
    lifeline: int


class RunExecutor(LocalExecutor):
    """A LocalExecutor that starts one process for one attempt of a run.

    The process inherits the locks of the attempt's devices, and a lifeline: a pipe that closes when
    the submit ends.
    """

    def __init__(self, folder: Path, job_id: str, inherited: Sequence[int]) -> None:
        super().__init__(folder)
        self._throttling = 0.0
        self._id = job_id
        self._inherited = tuple(inherited)
        self.lifeline = -1

    def _submit_command(self, command: str) -> "LocalJob[Any]":
        paths = JobPaths(self.folder, self._id)
        # The base class moves the pickle here only after the process has started, and a process
        # whose submit was killed in between would wait a minute for it.
        shutil.copy(next(Path(self.folder).glob("*.pkl")), paths.submitted_pickle)
        environment = {
            **os.environ,
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_JOB_ID": self._id,
            "SUBMITIT_LOCAL_NTASKS": "1",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_GLOBALID": "0",
            "SUBMITIT_LOCAL_LOCALID": "0",
        }
        standard_input, self.lifeline = os.pipe()
        with paths.stdout.open("ab") as output:
            process = subprocess.Popen(
                [*_SUBMITIT, str(self.folder)],
                stdin=standard_input,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=self._inherited,
                # Ctrl-C is for the submit, which then stops its runs one by one.
                start_new_session=True,
            )
        os.close(standard_input)
        return LocalJob(folder=self.folder, job_id=self._id, tasks=[0], process=process)


def run_all(
    runs: Sequence[Waiting],
    places: Places,
    slots: int | None,
    tell: Callable[[Event], None],
) -> dict[str, str]:
    """Run all of `runs` in order, as many at the same time as `places` and `slots` allow.

    places: the resources for runs.
    slots: the largest number of runs at the same time; None for no limit.
    tell: called when a run starts, ends or is given up. Also called once if other submits use
        so many devices that no run can start.

    A run of a series waits for the earlier runs of the series, and is given up if one of them
    fails. If this function ends by an exception or a signal, it stops all its runs. `places` may
    refuse a run; then this run, and perhaps others, are not started. Returns a dictionary from
    the ids of these runs to the reasons.
    """
    waiting = list(runs)
    running: list[_Job] = []
    failed: set[str] = set()
    left: dict[str, str] = {}
    others_told = False

    try:
        while waiting or running:
            for job in [job for job in running if job.job.done()]:
                running.remove(job)
                os.close(job.lifeline)
                # If the supervisor was killed, the processes of its run may still exist.
                close_abandoned_run(job.folder)
                state = job.folder.state()
                if outcome(state, None) in FAILURES:
                    failed.add(job.planned.run_id)
                tell(Event(job.planned, state))
            for run in [run for run in waiting if _given_up(run.planned, failed)]:
                waiting.remove(run)
                tell(Event(run.planned, GIVEN_UP))
            without_room = _start_what_fits(
                waiting, running, left, places=places, slots=slots, tell=tell
            )
            if left and not running and _first_ready(waiting, running, left) is None:
                # These runs must come after runs that will not be started.
                left.update({run.planned.run_id: _COMES_AFTER for run in waiting})
                break
            if without_room is not None and not running and not others_told:
                others_told = True
                tell(Event(without_room.planned, WAITING))
            time.sleep(_POLL_SECONDS)
    finally:
        for job in running:
            os.close(job.lifeline)
        for job in running:
            while not job.job.done():
                time.sleep(_POLL_SECONDS)
    return left


def _start_what_fits(
    waiting: list[Waiting],
    running: list[_Job],
    left: dict[str, str],
    *,
    places: Places,
    slots: int | None,
    tell: Callable[[Event], None],
) -> Waiting | None:
    """Start waiting runs while devices are free, and move them to `running`.

    Returns the first run that must wait for devices; None if no run has to wait for devices. If
    `places` refuses a run, the run is moved from `waiting` to `left`, with the reason. All waiting
    runs are moved if the reason applies to all runs. They are also moved if runs start in blocks,
    because the order within blocks must have no gaps.
    """
    while slots is None or len(running) < slots:
        first = _first_ready(waiting, running, left)
        if first is not None and (refusal := places.refusal(first.planned.run)) is not None:
            # An interleaved order has no gaps.
            in_order = first.position is not None and first.position.block is not None
            refused = list(waiting) if refusal.of_all or in_order else [first]
            for run in refused:
                waiting.remove(run)
                left[run.planned.run_id] = refusal.why
            continue
        started = None if first is None else _try_start(first, places)
        if first is None or started is None:
            return first
        waiting.remove(first)
        if isinstance(started, _Job):
            running.append(started)
            tell(Event(first.planned, RUNNING))
        else:
            tell(Event(first.planned, started))
    return None


def _given_up(planned: PlannedRun, failed: set[str]) -> bool:
    series = planned.series
    return series is not None and series.given_up(planned.run_id, failed.__contains__) is not None


def _first_ready(
    waiting: Sequence[Waiting], running: Sequence[_Job], left: Collection[str]
) -> Waiting | None:
    """Return the first waiting run that does not have to wait for another run of its series.

    Returns None if there is no such run.
    left: the ids of runs that will not be started.
    """
    unended = {run.planned.run_id for run in waiting} | {run.planned.run_id for run in running}
    unended.update(left)
    for run in waiting:
        series = run.planned.series
        if series is None or unended.isdisjoint(series.before(run.planned.run_id)):
            return run
    return None


def _try_start(waiting: Waiting, places: Places) -> _Job | str | None:
    """Start an attempt of a run and return its job.

    Returns None if too few devices are free, or if another process holds the lock of the run. A
    waiting run may already have ended, e.g. by `cancel`. Then nothing is started, and the result is
    the state of the run.
    """
    lease = places.lease(waiting.planned.run, waiting.folder.script)
    if lease is None:
        return None
    with disk_errors(waiting.folder.path):
        lock = locks.acquire(waiting.folder.lock)
    if lock is None:
        lease.close()
        return None
    try:
        attempts = waiting.folder.attempts()
        if len(attempts) > waiting.attempts and attempts[-1].ended is not None:
            return attempts[-1].ended.state
        environment = places.environment(lease, waiting.folder.script)
        return _start(waiting, lease, lock, environment, places)
    finally:
        # The supervisor has inherited the locks, and still holds them.
        lease.close()
        os.close(lock)


def _start(
    waiting: Waiting,
    lease: Lease,
    lock: int,
    environment: dict[str, str],
    places: Places,
) -> _Job:
    planned, folder = waiting.planned, waiting.folder
    with disk_errors(folder.path):
        attempt = folder.new_attempt()
        order = Order(
            script=folder.script,
            attempt=attempt.folder,
            time_limit_seconds=planned.run.resources.time_limit_seconds,
            devices=lease.devices,
            environment=environment,
            position=waiting.position,
            allocation=places.allocation,
            ranks=planned.run.resources.gpus_per_node,
            cores=places.cores,
        )
        executor = RunExecutor(
            attempt.folder / "submitit",
            job_id=f"{planned.run_id}-{attempt.number}",
            inherited=(lock, *lease.descriptors),
        )
        job = executor.submit(supervise, order)
    return _Job(planned, folder, job, executor.lifeline)


def close_abandoned_run(folder: RunFolder) -> None:
    """End a run whose `submit` has ended, and record the run's end.

    When a `submit` ends, the supervisors of its runs end within seconds. This function waits until
    the run's supervisor has ended. If the supervisor was killed before it recorded the run's end,
    this function ends the remaining processes of the run. Runs on Slurm are not touched. Raises
    UserError if the supervisor does not end, or if it runs on another machine.
    """
    attempts = folder.attempts()
    if not attempts or attempts[-1].ended is not None or attempts[-1].intent is not None:
        return
    deadline = time.monotonic() + END_SECONDS
    while (lock := locks.acquire(folder.lock)) is None:
        _refuse_other_host(attempts[-1])
        if time.monotonic() > deadline:
            raise UserError(
                f"{folder.lock}: is locked by a process that does not end; end this process"
            )
        time.sleep(_POLL_SECONDS)
    try:
        attempt = read_attempt(attempts[-1].folder)
        if attempt.ended is None:
            if attempt.started is not None:
                end_all(attempt.started.token)
            with disk_errors(folder.path):
                write_ended(attempt.folder, Ended(INTERRUPTED, utc_now()))
    finally:
        os.close(lock)


def cancel_local_run(folder: RunFolder) -> str:
    """Cancel a run on this machine, and return its state afterwards.

    A running run is stopped. A run that was not started or was interrupted is recorded as
    cancelled, so that no submit starts it. A run in another state is not changed. Raises UserError
    if the run does not end in time.
    """
    deadline = time.monotonic() + END_SECONDS
    signalled = False
    while (state := folder.state()) in CANCELLABLE:
        if time.monotonic() > deadline:
            raise UserError(
                f"{folder.path}: the run does not end; end the process with the pid in its "
                "attempt.json"
            )
        if state != RUNNING:
            close_abandoned_run(folder)
            _mark_cancelled(folder)
        elif not signalled:
            signalled = _signal_supervisor(folder)
        time.sleep(_POLL_SECONDS)
    return state


def _mark_cancelled(folder: RunFolder) -> None:
    with disk_errors(folder.path):
        lock = locks.acquire(folder.lock)
        if lock is None:
            return
        try:
            if folder.state() in (NOT_STARTED, INTERRUPTED):
                attempt = folder.new_attempt()
                write_ended(attempt.folder, Ended(CANCELLED, utc_now()))
        finally:
            os.close(lock)


def _signal_supervisor(folder: RunFolder) -> bool:
    # While the run's lock is held, the recorded pid is certain to be the supervisor's.
    attempt = folder.attempts()[-1]
    started = attempt.started
    if started is None:
        return False
    _refuse_other_host(attempt)
    with suppress(ProcessLookupError):
        os.kill(started.pid, signal.SIGTERM)
    return True


def _refuse_other_host(attempt: Attempt) -> None:
    """Raise UserError if an attempt was started on another machine.

    A process can be found by its pid only on its own machine.
    """
    here = socket.gethostname()
    if attempt.started is not None and attempt.started.host != here:
        raise UserError(
            f"{attempt.folder}: was started on {attempt.started.host}, but this machine is {here}; "
            f"log in to {attempt.started.host} and type the command there"
        )
