"""A job script removes the lock file of a torch extension whose compilation was killed."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run
from orchestrator.submit.scripts import job_script
from parsers.summary.warmup import Warmup

Start = Callable[[str], "subprocess.Popen[str]"]

JOB = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "here"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Return a lock file like the one that torch makes while it compiles an extension.

    The name of a folder above it has characters with a meaning in shell patterns.
    """
    path = tmp_path / "a [cache]" / "cpu_adam" / "lock"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.fixture
def start(run_of: Callable[..., Run], tmp_path: Path, lock: Path) -> Start:
    """Return a function that starts a job script on this machine, as the given scheduler would.

    Stand-ins that do nothing replace Python and scontrol; the one for srun runs its command.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    srun = 'while [[ $1 == --* ]]; do shift; done; "$@"\n'
    for name, body in {"python": "", "srun": srun, "scontrol": ""}.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}")
        (programs / name).chmod(0o755)

    def start_with(scheduler: str) -> "subprocess.Popen[str]":
        cluster = Cluster(
            name="here", scheduler=scheduler, gpus_per_node=2, python=f"{programs}/python"
        )
        planned = PlannedRun(run_of(launcher="torchrun"), "0123456789ab", "label", ())
        campaign = Campaign(tmp_path / "c.yaml", "name", cluster, Warmup(), (planned,), ())
        environment = os.environ | JOB | {"TORCH_EXTENSIONS_DIR": str(lock.parent.parent)}
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        script = job_script(planned, campaign, tmp_path)
        return subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        )

    return start_with


@contextmanager
def compiling(lock: Path) -> Iterator[None]:
    """Hold a lock file open, as a process does that compiles an extension."""
    with lock.open():
        yield


def age(lock: Path, seconds: float) -> None:
    """Set the age of a lock file, in seconds."""
    then = time.time() - seconds
    os.utime(lock, (then, then))


def test_here_a_lock_is_kept_as_long_as_a_process_holds_it(lock: Path, start: Start) -> None:
    """On this machine, a job script keeps a lock while a process holds it, whatever the lock's age.

    If no process holds it, the script removes it: a killed process leaves its lock behind.
    """
    age(lock, 3600)
    with compiling(lock):
        assert start("local").wait() == 0
        assert lock.exists()
    assert start("local").wait() == 0
    assert not lock.exists()


def test_here_a_lock_made_in_this_second_is_kept(lock: Path, start: Start) -> None:
    """On this machine, a job script keeps a lock that is younger than a second.

    A rank may have made it at the moment in which the script looks for processes that hold it.
    """
    age(lock, -60)
    assert start("local").wait() == 0
    assert lock.exists()


def test_on_a_cluster_a_job_waits_for_a_lock_with_a_message(lock: Path, start: Start) -> None:
    """On a cluster, a job prints a message and waits for the lock, at most 10 minutes.

    The process that holds the lock may be on another node. The job continues when the lock is gone.
    """
    job = start("slurm")
    assert job.stdout is not None
    assert job.stdout.readline() == (
        f"[teralog] {lock}: another program is compiling, or was killed while it compiled; "
        "waiting for 10 minutes at most\n"
    )
    assert job.poll() is None
    lock.unlink()
    assert job.wait() == 0


def test_on_a_cluster_a_lock_older_than_ten_minutes_is_abandoned(lock: Path, start: Start) -> None:
    """On a cluster, a lock older than ten minutes is removed: no compilation takes that long."""
    age(lock, 11 * 60)
    assert start("slurm").communicate() == ("", None)
    assert not lock.exists()


@pytest.mark.parametrize("scheduler", ["local", "slurm"])
def test_a_missing_folder_of_extensions_is_accepted(
    lock: Path, start: Start, scheduler: str
) -> None:
    """A job script runs if the folder of torch extensions does not exist yet."""
    lock.unlink()
    lock.parent.rmdir()
    lock.parent.parent.rmdir()
    assert start(scheduler).wait() == 0
