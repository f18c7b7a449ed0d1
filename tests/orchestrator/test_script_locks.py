"""A job script takes away the lock of an extension's compilation that nobody will release."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.cluster import Cluster
from orchestrator.model import Run
from orchestrator.scripts import job_script
from orchestrator.warmup import Warmup

Start = Callable[[str], None]

JOB = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "here"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock of one extension, as torch makes it, in a folder whose name is no pattern."""
    path = tmp_path / "a [cache]" / "cpu_adam" / "lock"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.fixture
def start(run_of: Callable[..., Run], tmp_path: Path, lock: Path) -> Start:
    """Run a job script here, with programs that do nothing, as the scheduler would."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python", "srun", "scontrol"):
        (programs / name).write_text("#!/bin/bash\n")
        (programs / name).chmod(0o755)

    def start_with(scheduler: str) -> None:
        cluster = Cluster(
            name="here", scheduler=scheduler, gpus_per_node=2, python=f"{programs}/python"
        )
        planned = PlannedRun(run_of(launcher="torchrun"), "0123456789ab", "label", ())
        campaign = Campaign(tmp_path / "c.yaml", "name", cluster, Warmup(), (planned,), ())
        environment = os.environ | JOB | {"TORCH_EXTENSIONS_DIR": str(lock.parent.parent)}
        script = job_script(planned, campaign, tmp_path)
        subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)

    return start_with


@contextmanager
def compiling(lock: Path) -> Iterator[None]:
    """Hold a lock open, as a process that compiles does."""
    with lock.open():
        yield


def test_here_a_lock_is_kept_as_long_as_a_process_holds_it(lock: Path, start: Start) -> None:
    """However old it is, and however young: what was killed a second ago releases nothing."""
    os.utime(lock, (0, 0))
    with compiling(lock):
        start("local")
        assert lock.exists()
    lock.touch()
    start("local")
    assert not lock.exists()


def test_on_a_cluster_a_lock_is_kept_for_ten_minutes(lock: Path, start: Start) -> None:
    """Who holds it may be on another node; nothing compiles for so long."""
    start("slurm")
    assert lock.exists()
    old = time.time() - 11 * 60
    os.utime(lock, (old, old))
    start("slurm")
    assert not lock.exists()


@pytest.mark.parametrize("scheduler", ["local", "slurm"])
def test_a_folder_of_extensions_that_is_not_there_is_no_mistake(
    lock: Path, start: Start, scheduler: str
) -> None:
    """The first run of all makes it."""
    lock.unlink()
    lock.parent.rmdir()
    lock.parent.parent.rmdir()
    start(scheduler)
