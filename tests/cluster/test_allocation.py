"""Working within an allocation of a real Slurm: runs are steps on its nodes."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
# What a run would start on its nodes, in place of a training.
BODY = 'echo "$run on $SLURMD_NODENAME gpus $CUDA_VISIBLE_DEVICES step $SLURM_STEP_ID" ; sleep 1'


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground on the cluster."""
    playground.environment |= slurm.environment
    return playground


def run_line(play, line: str, command: str) -> "subprocess.CompletedProcess[str]":
    """Run what `teralog salloc` printed, with a command in the allocation."""
    return subprocess.run(
        [*shlex.split(line), "bash", "-c", command],
        cwd=play.path,
        env={**os.environ, **play.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_line_asks_for_what_the_largest_run_needs_and_the_time_of_all(play) -> None:
    """Slurm grants it as it is printed."""
    play.write_slurm_campaign(
        "true",
        matrix="nodes: [1, 2], gpus_per_node: [2, 4]",
        profile="cores_per_rank: 5\nrequeue: false\n",
    )
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    assert line == (
        "salloc --job-name=play --nodes=2 --ntasks-per-node=1 --cpus-per-task=20 --gres=gpu:4 "
        "--constraint=v100-32g --mem=1G --time=0:20:00"
    )
    told = run_line(play, line, "scontrol --oneliner show job $SLURM_JOB_ID").stdout
    assert "NumNodes=2" in told
    assert "TimeLimit=00:20:00" in told
    other = play.teralog("salloc", "campaign.yaml", "--time", "45").stdout
    assert "--time=0:45:00" in other


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_runs_are_steps_side_by_side_on_nodes_of_their_own(play, launcher: str) -> None:
    """Two of one node at once, then one of both; each sees its own GPUs."""
    play.write_slurm_campaign(
        BODY, matrix="nodes: [1, 2], seed: [1, 2]", gpus_per_node=2, launcher=launcher
    )
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    begun = time.monotonic()
    done = run_line(play, line, f"{TERALOG} submit campaign.yaml --here")
    assert done.returncode == 0, done.stderr
    assert "4 runs to start on 2 nodes of the allocation" in done.stderr
    runs = play.status()
    assert [run["state"] for run in runs] == ["COMPLETED"] * 4
    ranks = 2 if launcher == "srun" else 1
    nodes = []
    for run in runs:
        words = [
            line.split()
            for line in Path(run["log"]).read_text().splitlines()
            if line.startswith(run["run_id"])
        ]
        count = 1 if run in runs[:2] else 2
        assert len(words) == count * ranks
        assert {len(one[4].split(",")) for one in words} == {2}
        nodes.append({one[2] for one in words})
        assert len(nodes[-1]) == count
    assert nodes[0] != nodes[1]
    assert time.monotonic() - begun < 60


def test_a_run_that_slurm_has_is_left_to_it(play) -> None:
    """`--here` takes what is missing only."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2]")
    play.teralog("submit", "campaign.yaml", "--hold")
    done = run_line(
        play,
        "salloc --nodes=1 --gres=gpu:1 --mem=1G --constraint=v100-32g",
        f"{TERALOG} submit campaign.yaml --here",
    )
    assert done.returncode == 0, done.stderr
    assert play.states() == ["PENDING"] * 2
    play.teralog("cancel", "campaign.yaml")


def test_too_small_an_allocation_and_none_at_all_are_said(play) -> None:
    """Before anything is started."""
    play.write_slurm_campaign("true", matrix="nodes: [3]")
    none = play.teralog("submit", "campaign.yaml", "--here")
    assert none.returncode == 1
    assert "--here: this is no allocation" in none.stderr
    small = run_line(
        play,
        "salloc --nodes=1 --gres=gpu:1 --mem=1G",
        f"{TERALOG} submit campaign.yaml --here",
    )
    assert small.returncode == 1
    assert "nodes=3, but this allocation has 1" in small.stderr
    assert play.states() == ["NOT_STARTED"]


def test_a_run_in_an_allocation_is_ended_by_cancel(play) -> None:
    """Its steps too."""
    play.write_slurm_campaign("sleep 600", matrix="seed: [1]")
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    process = subprocess.Popen(
        [*shlex.split(line), TERALOG, "submit", "campaign.yaml", "--here"],
        cwd=play.path,
        env={**os.environ, **play.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    play.wait_for(["RUNNING"])
    while "sleep" not in play.process_names():
        time.sleep(0.1)
    assert play.teralog("cancel", "campaign.yaml").returncode == 0
    process.wait(timeout=60)
    assert play.states() == ["CANCELLED"]
    assert "sleep" not in play.process_names()
