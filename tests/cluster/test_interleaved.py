"""Check interleaved runs on a real Slurm: one block of runs per allocation."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
BODY = """\
for step in 1 2 3 4 5 6 7 8 9 10; do
  echo "[teralog] iteration $step/10 | step_seconds 0.$((RANDOM % 90 + 10)) | samples_per_second 1 \
| loss 6 | memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2"
done
"""


@pytest.fixture
def play(playground: Any, slurm: Any) -> Any:
    """Return a playground (a folder with a campaign) with two blocks of runs."""
    playground.environment |= slurm.environment
    playground.write_slurm_campaign(
        BODY, matrix="num_layers: [1, 2]", launcher="srun", train_iters=10
    )
    with (playground.path / "campaign.yaml").open("a") as file:
        file.write("repeats: 4\norder: interleaved\n")
    return playground


def in_allocation(play: Any, nodes: int, command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in an allocation of this many nodes."""
    line = f"salloc --nodes={nodes} --gres=gpu:1 --mem=1G --constraint=v100-32g {command}"
    return subprocess.run(
        shlex.split(line),
        cwd=play.path,
        env={**os.environ, **play.environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_blocks_are_recorded_with_their_allocations(play: Any) -> None:
    """Each of two allocations executes one block; each attempt records the id of its allocation.

    The runs of a block run one at a time, although the allocation has nodes for two.
    """
    refused = play.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "`teralog salloc --batch --run`" in refused.stderr
    for _ in range(2):
        done = in_allocation(play, 2, f"{TERALOG} submit campaign.yaml --here --blocks 1")
        assert done.returncode == 0, done.stderr
    assert play.states() == ["COMPLETED"] * 8
    assert [words[1] for words in play.events()] == ["start", "end"] * 8
    texts = {
        path.parts[-3]: json.loads(path.read_text())
        for path in play.path.glob("results/play/*/attempt-1/attempt.json")
    }
    started = [texts[words[0]] for words in play.events() if words[1] == "start"]
    assert [(attempt["block"], attempt["place"]) for attempt in started] == [
        (block, place) for block in (1, 2) for place in (1, 2, 3, 4)
    ]
    first, second = (
        {attempt["allocation"] for attempt in started[:4]},
        {attempt["allocation"] for attempt in started[4:]},
    )
    assert len(first) == len(second) == 1
    assert int(*first) < int(*second)
    record = json.loads(
        play.teralog("compare", "campaign.yaml", "--by", "num_layers", "--json").stdout
    )
    assert (record[0]["units_a"], record[0]["allocations"], record[0]["balanced"]) == (2, 2, 2)
    sources = json.loads(play.teralog("noise", "campaign.yaml", "--json").stdout)["sources"]
    measured = {source["source"]: source["percent"] is not None for source in sources}
    assert measured["runs"]
    assert measured["allocations"]


def test_blocks_run_unattended_each_in_an_allocation_of_its_own(play: Any) -> None:
    """`salloc --batch` submits one job per missing block, and the jobs do not overlap."""
    line = play.teralog("salloc", "campaign.yaml", "--batch").stdout.strip()
    assert {"--array=1-2%1", "--dependency=singleton"} < {*shlex.split(line)}
    # The line has the path of teralog if teralog is not on the PATH.
    assert re.fullmatch(
        r"--wrap=\S*teralog submit campaign.yaml --results=results --here --blocks 1",
        shlex.split(line)[-1],
    )
    done = play.teralog("salloc", "campaign.yaml", "--batch", "--run")
    assert done.stdout.startswith("Submitted batch job"), done.stderr
    play.wait_for(["COMPLETED"] * 8)
    assert [words[1] for words in play.events()] == ["start", "end"] * 8
    shared = {
        (attempt["allocation"], attempt["block"])
        for path in play.path.glob("results/play/*/attempt-1/attempt.json")
        for attempt in [json.loads(path.read_text())]
    }
    assert len(shared) == len({allocation for allocation, _ in shared}) == 2
    # Each task sees the nodes of its own job, and not those of the array's other tasks.
    printed = [path.read_text() for path in sorted(play.path.glob("slurm-*_*.out"))]
    assert len(printed) == 2
    assert all("4 runs to start on 1 node of the allocation" in text for text in printed)
    nothing = play.teralog("salloc", "campaign.yaml", "--batch")
    assert "no run is missing" in nothing.stderr


def test_a_second_call_waits_for_the_jobs_of_the_first(play: Any) -> None:
    """The jobs of a second `salloc --batch` start only after the jobs of the first have ended.

    Both calls together complete all runs.
    """
    for _ in range(2):
        done = play.teralog("salloc", "campaign.yaml", "--batch", "--run")
        assert done.returncode == 0, done.stderr
    play.wait_for(["COMPLETED"] * 8)
    printed = [path.read_text() for path in play.path.glob("slurm-*_*.out")]
    assert not any("another submit" in text for text in printed)
