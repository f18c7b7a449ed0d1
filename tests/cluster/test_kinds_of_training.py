"""Check on a real Slurm that every framework that needs no GPU trains and gives numbers."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.train]

SCRIPT = Path(__file__).parents[1] / "data" / "train_linear.py"
# The nodes only pose as having GPUs, so everything trains on the CPU, and what nvidia-smi would say
# a stand-in says.
PROFILE = f"""\
gpus_per_node: 4
gpu: V100-SXM2-32GB
constraint: v100-32g
partition: v100
python: {json.dumps(sys.executable)}
setup: ['export PATH="{{folder}}:$PATH"']
"""
NVIDIA_SMI = """\
#!/bin/bash
echo "timestamp, index, utilization.gpu [%], memory.used [MiB]"
while true; do
  echo "2026/01/02 03:04:05.000, 0, 75 %, 3072 MiB"
  sleep 0.2
done
"""
TINY = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 64,
}
BEGIN = """\
name: kinds
cluster: v100.yaml
warmup: 2
defaults:
  nodes: 2
  gpus_per_node: 1
  micro_batch_size: 2
  train_iters: 6
  time_limit: 10
  # FusedAdam, which clusters with GPUs get, would be compiled for the CPU.
  deepspeed: {optimizer: {params: {torch_adam: true}}}
"""
CAMPAIGN = f"""\
{BEGIN}include:
  - {{framework: gpt, strategy: zero2, model: &tiny {json.dumps(TINY)}}}
  - {{framework: hf_deepspeed, zero_stage: 2, model: *tiny}}
  - {{framework: hf_deepspeed, zero_stage: 3, model: *tiny, launcher: srun,
      offload_optimizer: cpu, offload_param: cpu}}
  - {{framework: deepspeed, zero_stage: 1, launcher: deepspeed, script: {json.dumps(str(SCRIPT))},
      script_args: [--width, "64", --steps, "6"]}}
"""
OWN_SCRIPT = {"script": str(SCRIPT), "script_args": ["--width", "64", "--steps", "6"]}
STAGES: list[dict[str, Any]] = [
    {"zero_stage": 0},
    {"zero_stage": 1},
    {"zero_stage": 1, "offload_optimizer": "cpu"},
    {"zero_stage": 2},
    {"zero_stage": 2, "offload_optimizer": "cpu"},
    {"zero_stage": 3},
    {"zero_stage": 3, "offload_optimizer": "cpu"},
    {"zero_stage": 3, "offload_optimizer": "cpu", "offload_param": "cpu"},
]


def trained(playground: Any, slurm: Any, campaign: str, runs: int) -> list[dict[str, Any]]:
    """Submit a campaign and wait for its end; return the rows of its runs in report.json.

    playground: the folder of the campaign. campaign: the text of the campaign file. runs: how many
    runs the campaign has.
    """
    for package in ("deepspeed", "transformers", "accelerate"):
        pytest.importorskip(package, reason="needs the extras train and hf")
    playground.environment |= slurm.environment
    (playground.path / "v100.yaml").write_text(PROFILE.replace("{folder}", str(playground.path)))
    (playground.path / "campaign.yaml").write_text(campaign)
    (playground.path / "nvidia-smi").write_text(NVIDIA_SMI)
    (playground.path / "nvidia-smi").chmod(0o755)
    submitted = playground.teralog("submit", "campaign.yaml", "--throttle", "1")
    assert submitted.returncode == 0, submitted.stderr
    playground.wait_for(["COMPLETED"] * runs, seconds=1000)
    report = playground.teralog("report", "campaign.yaml", "--write")
    assert report.returncode == 0, report.stderr
    page = json.loads((playground.path / "results" / "kinds" / "report.json").read_text())
    reported_runs: list[dict[str, Any]] = page["runs"]
    return reported_runs


@pytest.mark.timeout(1200)
def test_every_kind_of_training_ends_with_numbers(playground, slurm) -> None:
    """Every run has step times, losses, the memory that it allocated, and samples of both nodes."""
    gpt, zero2, zero3, linear = trained(playground, slurm, CAMPAIGN, 4)
    results = playground.path / "results" / "kinds"
    for run in (gpt, zero2, zero3, linear):
        assert run["reports"] == 4
        assert run["step_seconds_median"] > 0
        assert run["max_memory_allocated_gib"] > 0
    for run in (gpt, zero2, zero3):
        assert run["tflops_per_gpu"] > 0
        assert run["final_loss"] == pytest.approx(6.25, abs=0.2)
    assert zero2["final_loss"] == pytest.approx(zero3["final_loss"], rel=1e-5)
    assert linear["tflops_per_gpu"] is None

    for run in (gpt, zero2, zero3, linear):
        folder = results / run["run_id"] / "attempt-1"
        assert len(list(folder.glob("gpus-*.csv"))) == 2, [*folder.iterdir()]
        assert run["device_memory_gib"] == 3.0
        assert run["gpu_utilization_percent"] == 75


@pytest.mark.timeout(1200)
def test_every_stage_trains_with_and_without_offload(playground, slurm) -> None:
    """Every ZeRO stage trains, with Hugging Face's Trainer and with a user's own script.

    Stages 1 to 3 are tried with and without offload. With the Trainer, all runs end with the same
    loss. The test runs only if TERALOG_ALL_STAGES is set.
    """
    if "TERALOG_ALL_STAGES" not in os.environ:
        pytest.skip("takes minutes; TERALOG_ALL_STAGES=1 has it run")
    runs = [
        *({"framework": "hf_deepspeed", "model": TINY, **stage} for stage in STAGES),
        *({"framework": "deepspeed", **OWN_SCRIPT, **stage} for stage in STAGES),
    ]
    campaign = BEGIN + "include:\n" + "".join(f"  - {json.dumps(run)}\n" for run in runs)
    report = trained(playground, slurm, campaign, len(runs))
    assert [run["reports"] for run in report] == [4] * len(runs)
    trainer, own = report[: len(STAGES)], report[len(STAGES) :]
    assert {run["zero_stage"] for run in trainer} == {0, 1, 2, 3}
    assert [run["zero_stage"] for run in own] == [run["zero_stage"] for run in trainer]
    losses = [run["final_loss"] for run in trainer]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-5)
