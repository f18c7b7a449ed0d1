"""Compare configurations by interleaved runs on a real Slurm, while other programs use its CPUs.

Each block of runs is a separate job, so one unusual allocation cannot decide the result.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from practice.running import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.train,
    pytest.mark.timeout(3600),
    # The test takes minutes, and disturbs other programs on the machine.
    pytest.mark.skipif("TERALOG_DISTURBED" not in os.environ, reason="`make soak` runs it"),
]

TERALOG = str(Path(sys.executable).parent / "teralog")
# Two learning rates give two configurations with equal work; eight layers do more than two.
CAMPAIGN = """\
name: turns
cluster: cpu.yaml
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 128, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  micro_batch_size: 4
  train_iters: 60
  time_limit: 10
include:
  - {}
  - {learning_rate: 0.0002}
  - {num_layers: 8}
repeats: 12
order: interleaved
warmup: 25%
"""
JSON = ("campaign.yaml", "--json")
# Busy for 3 to 12 seconds, and idle for as long, until it is ended.
DISTURBANCE = """\
import random, time
chance = random.Random({seed})
while True:
    until = time.monotonic() + chance.uniform(3, 12)
    while time.monotonic() < until:
        sum(range(10000))
    time.sleep(chance.uniform(3, 12))
"""


@pytest.fixture
def disturbed() -> Iterator[None]:
    """Run two programs that use the CPU at random times, until the test ends."""
    others = [
        subprocess.Popen([sys.executable, "-c", DISTURBANCE.format(seed=seed)]) for seed in (1, 2)
    ]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.usefixtures("disturbed")
def test_more_layers_are_slower_and_equal_runs_are_equally_fast(
    tmp_path: Path, slurm: Cluster
) -> None:
    """`compare` finds that more layers are slower, and finds no difference between equal runs.

    With a probability of 4 %, it finds a difference between equal runs. Then the test accepts a
    difference below 10 %.
    """
    pytest.importorskip("torch")
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "cpu.yaml").write_text("gpus_per_node: 0\nmemory: 4G\n")

    def teralog(*arguments: str) -> str:
        return subprocess.run(
            [TERALOG, *arguments],
            cwd=tmp_path,
            env={**os.environ, **slurm.environment},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    teralog("salloc", "campaign.yaml", "--batch", "--run")
    while any(run["outcome"] is None for run in json.loads(teralog("status", *JSON))):
        time.sleep(5)
    layers, rates = (
        json.loads(teralog("compare", "campaign.yaml", "--by", name, "--json"))[0]
        for name in ("num_layers", "learning_rate")
    )
    for comparison in (layers, rates):
        sys.stdout.write("\n".join(comparison["said"]) + "\n")
        assert (comparison["units_a"], comparison["balanced"], comparison["not_measured"]) == (
            6,
            6,
            [],
        )
        assert comparison["allocations"] == 6
    sys.stdout.write(teralog("noise", "campaign.yaml"))
    assert layers["verdict"] == "slower"
    assert rates["verdict"] == "cannot tell" or abs(rates["ratio"] - 1) < 0.1
