"""A campaign that really trains, on a real Slurm, from submission to its table."""

import csv
import json
import re
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.train]

CAMPAIGN = """\
name: stages
cluster: cpu.yaml
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 2
  train_iters: 6
matrix:
  strategy: [ddp, zero1]
warmup: 2
"""


@pytest.mark.timeout(900)
def test_runs_train_in_an_array_and_their_logs_make_the_table(playground, slurm) -> None:
    """The same run on this machine ends with the same loss."""
    pytest.importorskip("deepspeed")
    playground.environment |= slurm.environment
    (playground.path / "cpu.yaml").write_text(
        f"gpus_per_node: 0\nmemory: 8G\npython: {json.dumps(sys.executable)}\n"
    )
    (playground.path / "campaign.yaml").write_text(CAMPAIGN)
    submitted = playground.teralog("submit", "campaign.yaml", "--throttle", "1")
    assert submitted.stdout.endswith(": 2 runs\n"), submitted.stderr
    runs = playground.wait_for(["COMPLETED"] * 2, seconds=600)
    assert {run["outcome"] for run in runs} == {"completed"}
    assert playground.teralog("report", "campaign.yaml").returncode == 0
    report = json.loads((playground.path / "results" / "stages" / "report.json").read_text())
    assert [run["reports"] for run in report["runs"]] == [4, 4]
    losses = [run["final_loss"] for run in report["runs"]]
    playground.teralog("collect", "campaign.yaml")
    with (playground.path / "results" / "stages" / "steps.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12

    (playground.path / "cpu.yaml").write_text(
        f"scheduler: local\nname: here\ngpus_per_node: 0\npython: {json.dumps(sys.executable)}\n"
    )
    environment = {"TERALOG_RESULTS": str(playground.path / "here")}
    playground.environment |= environment
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    playground.teralog("report", "campaign.yaml")
    here = json.loads((playground.path / "here" / "stages" / "report.json").read_text())
    assert [run["final_loss"] for run in here["runs"]] == pytest.approx(losses, rel=1e-5)


WIDE = """\
name: wide
cluster: cpu.yaml
defaults:
  framework: gpt
  model: {num_layers: 1, hidden_size: 32, num_attention_heads: 2, vocab_size: 128, seq_length: 32}
  train_iters: 6
  time_limit: 20
include:
  - {nodes: 1, gpus_per_node: 2, micro_batch_size: 8}
  - {nodes: 4, gpus_per_node: 1, micro_batch_size: 4}
  - {nodes: 16, gpus_per_node: 1, micro_batch_size: 1}
warmup: 2
"""
# What a table tells that does not depend on where it was measured.
SAME = ("data_parallel_size", "global_batch_size", "world_size", "reports", "outcome", "parameters")


@pytest.mark.timeout(1500)
def test_one_four_and_sixteen_nodes_train_what_one_machine_does(playground, sixteen_nodes) -> None:
    """Submitted, watched, collected and reported: the same table, by as many ranks here."""
    playground.environment |= sixteen_nodes.environment
    (playground.path / "cpu.yaml").write_text(
        f"gpus_per_node: 0\npython: {json.dumps(sys.executable)}\n"
    )
    (playground.path / "campaign.yaml").write_text(WIDE)
    submitted = playground.teralog("submit", "campaign.yaml")
    assert submitted.returncode == 0, submitted.stderr
    watched = playground.teralog("watch", "campaign.yaml", "--interval", "2")
    assert watched.returncode == 0, watched.stdout + watched.stderr
    *last, totals = watched.stdout.splitlines()[-4:]
    assert all(re.search(r"COMPLETED +1 +gpu\S+ +6 +6 ", line) for line in last)
    assert totals.startswith("3 runs: 3 completed")
    assert playground.teralog("collect", "campaign.yaml").returncode == 0
    there = reported(playground, "results")

    (playground.path / "cpu.yaml").write_text(
        f"scheduler: local\nname: here\ngpus_per_node: 0\npython: {json.dumps(sys.executable)}\n"
    )
    here_only = WIDE
    for nodes in (4, 16):
        here_only = here_only.replace(
            f"nodes: {nodes}, gpus_per_node: 1", f"gpus_per_node: {nodes}"
        )
    (playground.path / "campaign.yaml").write_text(here_only)
    playground.environment |= {"TERALOG_RESULTS": str(playground.path / "here")}
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    here = reported(playground, "here")
    assert [run["nodes"] for run in there] == [1, 4, 16]
    assert [{name: run[name] for name in SAME} for run in there] == [
        {name: run[name] for name in SAME} for run in here
    ]
    assert [run["final_loss"] for run in there] == pytest.approx(
        [run["final_loss"] for run in here], rel=1e-5
    )
    assert all(run["tflops_per_gpu"] > 0 for run in (*here, *there))


def reported(playground: Any, results: str) -> list[dict[str, Any]]:
    """Return the rows of the report of the campaign."""
    assert playground.teralog("report", "campaign.yaml").returncode == 0
    text = (playground.path / results / "wide" / "report.json").read_text()
    rows: list[dict[str, Any]] = json.loads(text)["runs"]
    return rows
