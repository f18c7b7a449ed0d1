"""Real training, from campaign file to table: some runs complete, and others fail."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from once import made_once

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]

TERALOG = str(Path(sys.executable).parent / "teralog")
SCRIPT = Path(__file__).parent.parent.parent / "data" / "train_linear.py"
CAMPAIGN = f"""\
name: real
defaults:
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 12
  time_limit: 5
include:
  - {{framework: gpt, model: &tiny {{num_layers: 2, hidden_size: 64, num_attention_heads: 4,
      vocab_size: 512, seq_length: 64}}, num_microbatches: 2, activation_checkpointing: true}}
  - {{framework: gpt, model: *tiny, strategy: zero2, launcher: deepspeed, precision: bf16}}
  # 3.3 TB for the first weight: more than any machine here has.
  - {{framework: gpt, model: {{num_layers: 1, hidden_size: 524288, num_attention_heads: 4,
      vocab_size: 512, seq_length: 64}}}}
  # One rank, which has time to load torch on a busy machine.
  - {{framework: gpt, model: *tiny, gpus_per_node: 1, train_iters: 1000000, time_limit: "0:30"}}
  - {{framework: deepspeed, script: {SCRIPT}, script_args: ["--width", "64"], zero_stage: 1}}
  - {{framework: deepspeed, script: {SCRIPT}, script_args: ["--width", "64", "--fail"]}}
warmup: 4
"""
ENDS = ["completed", "completed", "oom", "timeout", "completed", "failed"]


def teralog(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a teralog command in `folder`, and return its exit code, stdout and stderr."""
    return subprocess.run(
        [TERALOG, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )


def run_campaign(folder: Path) -> Path:
    """Write this module's campaign into a folder, run it and make its report; return the folder."""
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    assert teralog(folder, "submit", "campaign.yaml", "--force").returncode == 1
    assert teralog(folder, "report", "campaign.yaml").returncode == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which this module's campaign has run and has a report."""
    pytest.importorskip("deepspeed")
    return made_once(tmp_path_factory, "real", run_campaign)


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[dict[str, Any]]:
    """Return the objects under "runs" in report.json: one per run."""
    report = json.loads((folder / "results" / "real" / "report.json").read_text())
    rows: list[dict[str, Any]] = report["runs"]
    return rows


def test_every_run_ends_as_it_should(folder: Path) -> None:
    """Each run has the expected outcome: completed, out of memory, timeout or failed."""
    status = json.loads(teralog(folder, "status", "campaign.yaml", "--json").stdout)
    assert [run["outcome"] for run in status] == ENDS


def test_a_failed_run_keeps_its_row(folder: Path) -> None:
    """The table has a row for every run, and shows how failed runs ended."""
    page = (folder / "results" / "real" / "report.md").read_text()
    lines = (line for line in page.splitlines() if line.startswith("|"))
    _, _, *rows = (line for line in lines if line.strip("| "))
    ends = [row.rstrip("| ").rsplit("|", 1)[1].strip() for row in rows]
    assert ends == [end if end == "completed" else end.upper() for end in ENDS]
    assert "DefaultCPUAllocator" in page
    assert "ValueError: the option --fail ends this run" in page


def test_a_completed_run_has_all_its_numbers(runs: list[dict[str, Any]]) -> None:
    """A completed run has a step time, TFLOPs, memory and a loss.

    Of its 12 step reports, the 4 of the warm-up are left out.
    """
    for run in (runs[0], runs[1]):
        assert run["reports"] == 12 - 4
        assert run["step_seconds_median"] > 0
        assert run["tflops_per_gpu"] > 0
        assert run["max_memory_allocated_gib"] > 0
        assert run["final_loss"] == pytest.approx(6.25, abs=0.5)


def test_recomputation_counts_in_tflops_and_not_in_model_tflops(runs: list[dict[str, Any]]) -> None:
    """With activation checkpointing, TFLOPs include the recomputation; model TFLOPs do not."""
    assert runs[0]["tflops_per_gpu"] > 1.2 * runs[0]["model_tflops_per_gpu"]
    assert runs[1]["tflops_per_gpu"] == pytest.approx(runs[1]["model_tflops_per_gpu"])


def test_a_timed_out_run_still_has_numbers(runs: list[dict[str, Any]]) -> None:
    """A run that exceeds its time limit has the numbers of the steps that it completed."""
    assert runs[3]["outcome"] == "timeout"
    assert runs[3]["reports"] > 0
    assert runs[3]["tflops_per_gpu"] > 0


def test_a_script_without_a_model_has_rates_and_no_tflops(runs: list[dict[str, Any]]) -> None:
    """If the model is unknown, TFLOPs are absent, never 0."""
    assert runs[4]["samples_per_second"] > 0
    assert runs[4]["tflops_per_gpu"] is None
    assert runs[4]["parameters"] is None


def test_collect_writes_every_step(folder: Path) -> None:
    """The file steps.csv has one row per run and iteration, and marks the warm-up."""
    import pandas as pd

    assert teralog(folder, "collect", "campaign.yaml").returncode == 0
    steps = pd.read_csv(folder / "results" / "real" / "steps.csv")
    first = steps[steps["run_id"] == steps["run_id"].iloc[0]]
    assert list(first["iteration"]) == list(range(1, 13))
    assert list(first["warmup"]) == [True] * 4 + [False] * 8
    assert first["step_seconds"].notna().all()
