"""Check that no run starts twice if Slurm accepts a job after sbatch has given up."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")

# Some sites let a plug-in look at each new job. sbatch waits 10 s for it here, as by default.
LATE_SECONDS = 14


@pytest.fixture
def late(playground, slow_to_accept) -> Any:
    """Return a playground on a cluster that takes long to accept a job."""
    playground.environment |= slow_to_accept.environment
    playground.plugin = slow_to_accept.plan.submit_seconds
    return playground


def names(slurm) -> list[str]:
    """Return the names of all jobs that Slurm has accepted so far."""
    return slurm.run("squeue", "-h", "-t", "all", "-o", "%A %j").stdout.splitlines()


@pytest.mark.parametrize("count", [1, 5], ids=["single job", "array"])
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("seconds", [5, LATE_SECONDS])
def test_a_job_that_slurm_accepts_late_runs_nothing_twice(
    late, slow_to_accept, seconds: int, killed: bool, count: int
) -> None:
    """If Slurm accepts a job after sbatch has given up, each run still starts only once.

    Either the late job starts the runs, or the job of the next submit does. In the second case, the
    late job ends at once.
    """
    late.write_slurm_campaign("sleep 0.2", matrix=f"seed: {[*range(count)]}")
    late.plugin.write_text(f"{seconds}\n")
    first = subprocess.Popen(
        [TERALOG, "submit", "campaign.yaml"],
        cwd=late.path,
        env={**os.environ, **late.environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if killed:
        asked = late.path / "results/play/submissions"
        wait_until(lambda: bool([*asked.glob("[!.]*/script.sh")]), lambda: "no script is there")
        wait_until(
            lambda: any("sbatch" in process.name() for process in late.processes()),
            lambda: "sbatch does not run",
        )
        os.killpg(first.pid, signal.SIGKILL)
    _, output = first.communicate(timeout=120)
    late.plugin.write_text("0\n")
    if not killed:
        assert ("Socket timed out" in output) == (seconds == LATE_SECONDS)
    # The plug-in examines one job after another, so later submits may be late as well.
    wait_until(lambda: late.teralog("submit", "campaign.yaml").returncode == 0, lambda: "refused")
    late.wait_for(["COMPLETED"] * count)
    # The plug-in finally accepts the first job, if it was asked.
    wait_until(
        lambda: len({*names(slow_to_accept)}) >= 1 + (seconds == LATE_SECONDS and not killed),
        lambda: str(names(slow_to_accept)),
    )
    wait_until(lambda: not slow_to_accept.run("squeue", "-h").stdout, lambda: "jobs are left", 60)
    assert sorted(late.starts().values()) == [1] * count
    assert late.teralog("submit", "campaign.yaml").returncode == 0
    assert sorted(late.starts().values()) == [1] * count
    assert {run["attempts"] for run in late.status()} == {1}
