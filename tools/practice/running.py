"""Start, find and end practice clusters, from any process."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from practice import holder
from practice.daemons import command_environment
from practice.packages import how_to_install, missing_packages
from practice.plan import Plan, PracticeError

_COMMAND = Path(__file__).parent.parent / "practice_cluster.py"
_END_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running practice cluster.

    process: the process that keeps the cluster running. If `start` was called with `bound`, this
        process ends the cluster when the pipe to its standard input is closed.
    start_seconds: how long it took until all nodes were idle.
    """

    plan: Plan
    process: "subprocess.Popen[str]"
    start_seconds: float

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment for commands on this cluster, with its SLURM_CONF and PATH."""
        return command_environment(self.plan)

    def run(self, *command: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command with the cluster's environment, and wait until it ends."""
        return subprocess.run(
            command,
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def start(plan: Plan, *, bound: bool = True) -> Cluster:
    """Start a cluster and return it when all its nodes are idle.

    If `bound`, the cluster ends when this process ends, even if this process is killed. Otherwise
    the cluster runs until `stop`. Raises PracticeError if packages are missing, if the folder has
    another cluster or other files, or if a daemon does not start.
    """
    plan.check()
    if packages := missing_packages(with_accounting=plan.with_accounting):
        raise PracticeError(
            f"{', '.join(packages)} must be installed; type: {how_to_install(packages)}"
        )
    _make_folder(plan.folder)
    process = subprocess.Popen(
        [sys.executable, str(_COMMAND), "hold", holder.order(plan, bound=bound)],
        stdin=subprocess.PIPE if bound else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    with process.stdout:
        answer = json.loads(process.stdout.readline() or '{"problem": "it was killed"}')
    if "problem" in answer:
        process.wait(_END_SECONDS)
        raise PracticeError(f"it did not start: {answer['problem']}")
    return Cluster(plan=plan, process=process, start_seconds=answer["ready"])


@contextlib.contextmanager
def running(plan: Plan) -> Iterator[Cluster]:
    """Start a cluster for a `with` block, and end it after the block."""
    cluster = start(plan)
    try:
        yield cluster
    finally:
        assert cluster.process.stdin is not None  # noqa: S101  (it is a pipe)
        cluster.process.stdin.close()
        cluster.process.wait(_END_SECONDS)


def is_up(folder: Path) -> bool:
    """Return whether a practice cluster is running in a folder.

    A running cluster holds a lock on its folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def stop(folder: Path) -> bool:
    """End the cluster in a folder, and return whether a cluster was running there.

    Raises PracticeError if the cluster does not end in time.
    """
    if not is_up(folder):
        return False
    # While the cluster starts or ends, the file or the process may not exist.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int((folder / "holder.pid").read_text()), signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while is_up(folder):
        if time.monotonic() > deadline:
            raise PracticeError(f"{folder}: the cluster does not end")
        time.sleep(0.02)
    return True


def _make_folder(folder: Path) -> None:
    """Make a cluster's folder; first remove the folder that a killed cluster has left.

    If root starts the cluster, other users can enter the folder, because the cluster's daemons may
    run jobs of these users. Otherwise only the folder's owner can enter it. Raises PracticeError if
    a cluster is running in the folder, or if the folder contains files of another program.
    """
    for _ in range(2):
        try:
            folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700)
        except FileExistsError:
            if is_up(folder):
                raise PracticeError(f"{folder}: a cluster is up there already") from None
            if not (folder / "holder.pid").exists() and any(folder.iterdir()):
                raise PracticeError(f"{folder}: is there, and no cluster's; give another") from None
            shutil.rmtree(folder)
        else:
            return
    raise PracticeError(f"{folder}: another cluster is being started there")
