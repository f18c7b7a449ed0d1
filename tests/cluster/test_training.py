"""Run a campaign that really trains on a real Slurm, from its submission to its report."""

import csv
import json
import re
import sys

import pytest
from launched import options

pytestmark = [pytest.mark.slurm, pytest.mark.train]

MODEL = {
    "num_layers": 1,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "vocab_size": 128,
    "seq_length": 32,
}
PARAMETERS = 12 * 32**2 + 13 * 32 + 128 * 32 + 32 * 32 + 2 * 32
TRAINING = {"train_iters": 6, "learning_rate": 0.01}
CAMPAIGN = f"""\
name: wide
cluster: cpu.yaml
defaults:
  framework: gpt
  model: {json.dumps(MODEL)}
  train_iters: 6
  learning_rate: 0.01
  time_limit: 20
include:
  - {{nodes: 1, gpus_per_node: 2, micro_batch_size: 8}}
  - {{nodes: 1, gpus_per_node: 2, micro_batch_size: 8, strategy: zero1}}
  - {{nodes: 16, gpus_per_node: 1, micro_batch_size: 1}}
warmup: 2
"""
RANKS = (2, 2, 16)


@pytest.mark.timeout(1500)
def test_one_and_sixteen_nodes_train_what_one_process_does(playground, sixteen_nodes) -> None:
    """Runs on one node and on sixteen end with the same loss as a plain training loop."""
    pytest.importorskip("deepspeed")
    from plain_loop import plain_losses

    from orchestrator.workloads import gpt

    playground.environment |= sixteen_nodes.environment
    (playground.path / "cpu.yaml").write_text(
        f"gpus_per_node: 0\npython: {json.dumps(sys.executable)}\n"
    )
    (playground.path / "campaign.yaml").write_text(CAMPAIGN)
    submitted = playground.teralog("submit", "campaign.yaml")
    assert submitted.returncode == 0, submitted.stderr
    # The two runs on one node request the same resources, so they are an array.
    assert sum(line.endswith(": 2 runs") for line in submitted.stdout.splitlines()) == 1
    watched = playground.teralog("watch", "campaign.yaml", "--interval", "2", seconds=1000)
    assert watched.returncode == 0, watched.stdout + watched.stderr
    *last, totals = watched.stdout.splitlines()[-4:]
    assert all(re.search(r"COMPLETED +1 +gpu\S+ +6/6 ", line) for line in last)
    assert totals.startswith("3 runs: 3 completed")
    assert playground.teralog("collect", "campaign.yaml").returncode == 0
    results = playground.path / "results" / "wide"
    with (results / "steps.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3 * 6

    assert playground.teralog("report", "campaign.yaml", "--write").returncode == 0
    rows = json.loads((results / "report.json").read_text())["runs"]
    assert [row["nodes"] for row in rows] == [1, 1, 16]
    for row, ranks in zip(rows, RANKS, strict=True):
        assert (row["world_size"], row["data_parallel_size"]) == (ranks, ranks)
        assert (row["outcome"], row["reports"], row["global_batch_size"]) == ("completed", 4, 16)
        assert row["tflops_per_gpu"] > 0
        assert row["parameters"] == PARAMETERS
        settings = gpt.parse_arguments(
            options({"strategy": "ddp", "micro_batch_size": 16 // ranks} | MODEL | TRAINING)
        )
        loss = plain_losses(settings, ranks)[-1]
        assert row["final_loss"] == pytest.approx(loss, rel=1e-5)
