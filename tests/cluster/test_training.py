"""A campaign that really trains, on a real Slurm, from submission to its table."""

import csv
import json
import sys

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
