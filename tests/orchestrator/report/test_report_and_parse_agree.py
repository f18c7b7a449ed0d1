"""`teralog report` and `teralog parse` give the same step times for the same log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.campaign.campaign import load_campaign
from orchestrator.cli.main import main
from orchestrator.common.text import counted
from orchestrator.store.campaign_store import campaign_store
from orchestrator.submit.render import render_runs

GPT = """\
name: mine
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 40
"""
# DeepSpeed's lines contain neither how many iterations there are to be, nor the batch.
DEEPSPEED = """\
name: mine
defaults:
  framework: deepspeed
  script: train.py
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 40
"""
# A slow start, then a spread of some percent.
SECONDS = [9.0, 5.0, 3.0, 2.0, 1.5, 1.2, *(1.0 + 0.01 * (at * 7 % 5) for at in range(14))]
ITERATIONS = range(2, 2 * len(SECONDS) + 1, 2)
LOGS = {
    GPT: "".join(
        f"[teralog] iteration {number}/40 | step_seconds {time} | samples_per_second {8 / time} "
        "| loss 6.25 | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
        for number, time in zip(ITERATIONS, SECONDS, strict=True)
    ),
    DEEPSPEED: "".join(
        f"[2026-01-02 03:04:05,678] [INFO] [timer.py:260:stop] epoch=0/micro_step={number}"
        f"/global_step={number}, RunningAvgSamplesPerSec=4.0, CurrSamplesPerSec={8 / time}, "
        "MemAllocated=0.25GB, MaxMemAllocated=0.5GB\n"
        for number, time in zip(ITERATIONS, SECONDS, strict=True)
    ),
}
# How many of the 20 reports, one per 2 iterations, each warm-up leaves.
WARMUPS = {"5": 18, "10%": 18, "first": 19, "auto": None}


def call(*arguments: str) -> tuple[Any, str]:
    """Return the JSON that a command prints, and its messages."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("text", [GPT, DEEPSPEED], ids=["gpt", "deepspeed"])
def test_report_and_parse_give_the_same_step_times(
    text: str,
    warmup: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempt_in: Callable[..., Any],
) -> None:
    """With the warm-up of the campaign, or the same one from the command line."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    Path("mine.yaml").write_text(f"{text}warmup: {warmup}\n")
    campaign = load_campaign(Path("mine.yaml"))
    store = campaign_store(Path("results"), "mine")
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    (planned,) = campaign.runs
    attempt = attempt_in(store.run(planned.run_id), log=LOGS[text], state="COMPLETED")
    [row] = call("report", "mine.yaml", "--format", "json")[0]["runs"]
    [run], messages = call("parse", str(attempt.log), "--format", "json")
    times = run["step_seconds"]
    left_out = counted(20 - times["n"], "report")
    assert (times["mean"], times["median"], times["std"], times["n"]) == (
        row["step_seconds_mean"],
        row["step_seconds_median"],
        row["step_seconds_spread"],
        row["reports"],
    )
    assert row["reports"] == WARMUPS[warmup] or (warmup == "auto" and 5 < row["reports"] < 18)
    assert f"warm-up {warmup} (by campaign mine; {left_out} left out)" in messages
    [given], messages = call("parse", str(attempt.log), "--format", "json", "--warmup", warmup)
    assert given == run
    assert f"warm-up {warmup} ({left_out} left out)" in messages


def test_a_log_whose_campaign_is_not_on_record_has_the_warm_up_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So has every log outside a folder of results."""
    monkeypatch.chdir(tmp_path)
    log = Path("results/mine/abc123/attempt-1/output.log")
    log.parent.mkdir(parents=True)
    log.write_text(LOGS[GPT])
    [run], messages = call("parse", str(log), "--format", "json")
    assert run["warmup"]["policy"] == "first"
    assert "warm-up first (1 report left out)" in messages
