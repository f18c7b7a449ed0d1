"""Supervise one attempt of a run on this machine, in a separate Python process.

The supervisor starts the job script, enforces the time limit, ends remaining processes, and records
how the attempt ended. It stops the attempt if the run is cancelled (the supervisor then gets
SIGTERM), or if the submit that started the supervisor has ended. To notice the end of the submit,
the supervisor reads its standard input, a pipe whose other end only the submit has open. When the
submit ends, for any reason, the kernel closes the pipe.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from orchestrator.common.text import signal_name
from orchestrator.local.devices import lock_folder
from orchestrator.local.neighbours import Neighbours
from orchestrator.local.processes import MARK, end_all
from orchestrator.store.folders import write_ended, write_started
from orchestrator.store.record_files import utc_now
from orchestrator.store.records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    TIMEOUT,
    Ended,
    Position,
    Started,
)

# The end of the log, in which srun prints why it could not start anything.
_LAST_BYTES = 2**14


@dataclass(frozen=True, slots=True)
class Order:
    """The attempt that a supervisor must start, with its settings.

    attempt: the folder of the attempt, in which the job script runs and the log is written.
    environment: variables to add to the environment.
    position: the place of the attempt in the order of starts; None if not given.
    allocation: the id of the Slurm job on whose nodes the attempt runs; None on this machine.
    cores: how many cores of this machine the runs share; None if they do not share cores.
    ranks: how many processes the attempt starts.
    """

    script: Path
    attempt: Path
    time_limit_seconds: int
    devices: tuple[str, ...]
    environment: Mapping[str, str]
    position: Position | None = None
    allocation: str | None = None
    ranks: int | None = None
    cores: int | None = None


class _Stop:
    """A request to stop the attempt, and the state in which the attempt then ends.

    Only the first request sets the state.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self.state: str | None = None

    def set(self, state: str) -> None:
        if self.state is None:
            self.state = state
        self._event.set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)


def supervise(order: Order) -> None:
    """Run an attempt until it ends, and record its start and its end.

    Called in the supervisor's process. Does nothing if the submit has already ended.
    """
    stop = _Stop()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set(CANCELLED))
    signal.signal(signal.SIGINT, lambda number, frame: stop.set(INTERRUPTED))
    if _parent_is_gone():
        return
    threading.Thread(target=_watch_parent, args=(stop,), daemon=True).start()
    token = uuid.uuid4().hex
    write_started(order.attempt, _started(order, token))
    neighbours = None if order.cores is None else Neighbours.join(lock_folder(), token)
    begun = time.monotonic()
    job = _start(order, token)
    deadline = begun + order.time_limit_seconds
    while job.poll() is None and stop.state is None:
        if time.monotonic() > deadline:
            stop.set(TIMEOUT)
        if neighbours is not None:
            neighbours.look()
        stop.wait(0.1)
    seconds = time.monotonic() - begun
    exit_code = job.poll()
    end_all(token, group=job.pid)
    job.wait()
    ended = _ended(exit_code, stop.state, seconds)
    if order.allocation is not None and ended.state in {FAILED, CANCELLED, INTERRUPTED}:
        ended = replace(ended, state=_end_of_allocation(order) or ended.state)
    if neighbours is not None:
        ended = replace(ended, other_runs=neighbours.most)
        neighbours.leave()
    write_ended(order.attempt, ended)


def _end_of_allocation(order: Order) -> str | None:
    """Return an attempt's state if the end of its Slurm allocation interrupted it; None otherwise.

    Slurm's answer decides. If Slurm gives no clear answer, the last lines of the log decide.
    """
    from orchestrator.slurm.allocation_end import interrupted_by_end

    with (order.attempt / "output.log").open("rb") as log:
        log.seek(max(log.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        last = log.read().decode(errors="replace")
    return interrupted_by_end(order.allocation or "", last)


def _start(order: Order, token: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, **order.environment, MARK: token}
    with (order.attempt / "output.log").open("wb") as log:
        return subprocess.Popen(
            ["bash", str(order.script)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=order.attempt,
            start_new_session=True,
        )


def _started(order: Order, token: str) -> Started:
    position = {} if order.position is None else asdict(order.position)
    return Started(
        pid=os.getpid(),
        host=socket.gethostname(),
        token=token,
        started_at=utc_now(),
        time_limit_seconds=order.time_limit_seconds,
        devices=order.devices,
        ranks=order.ranks,
        cores=order.cores,
        **position,
    )


def _ended(exit_code: int | None, stopped: str | None, seconds: float) -> Ended:
    # If the job ended by itself before it was stopped, only its exit code decides the state.
    if exit_code is None:
        return Ended(stopped or FAILED, utc_now(), seconds)
    state = COMPLETED if exit_code == 0 else FAILED
    name = signal_name(-exit_code) if exit_code < 0 else None
    return Ended(state, utc_now(), seconds, exit_code if exit_code >= 0 else None, name)


def _parent_is_gone() -> bool:
    return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])


def _watch_parent(stop: _Stop) -> None:
    os.read(sys.stdin.fileno(), 1)
    stop.set(INTERRUPTED)
