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
# DeepSpeed's lines contain neither the total number of iterations nor the batch.
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
    """Return the JSON that a command prints, and the messages that it prints."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


@pytest.fixture
def log_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt_in: Callable[..., Any]
) -> Callable[[str, str, str], str]:
    """Return a function that writes mine.yaml and the log of its run, and returns the log's path.

    The function takes the text of the campaign, its warm-up, and the text of the log.
    """

    def make(text: str, warmup: str, log: str) -> str:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.chdir(tmp_path)
        Path("train.py").touch()
        Path("mine.yaml").write_text(f"{text}warmup: {warmup}\n")
        campaign = load_campaign(Path("mine.yaml"))
        store = campaign_store(Path("results"), "mine")
        render_runs(campaign, campaign.runs, store)
        store.save_submission(campaign)
        (planned,) = campaign.runs
        return str(attempt_in(store.run(planned.run_id), log=log, state="COMPLETED").log)

    return make


def assert_alike(row: dict[str, Any], run: dict[str, Any]) -> None:
    """Assert that a run has the same step times in the JSON of `report` and of `parse`."""
    times = run["step_seconds"]
    assert (times["mean"], times["median"], times["std"], times["n"]) == (
        row["step_seconds_mean"],
        row["step_seconds_median"],
        row["step_seconds_spread"],
        row["reports"],
    )


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("text", [GPT, DEEPSPEED], ids=["gpt", "deepspeed"])
def test_report_and_parse_give_the_same_step_times(
    text: str, warmup: str, log_of: Callable[[str, str, str], str]
) -> None:
    """`parse` uses the campaign's warm-up, as `report` does.

    The same warm-up on the command line gives the same numbers.
    """
    log = log_of(text, warmup, LOGS[text])
    [row] = call("report", "mine.yaml", "--format", "json")[0]["runs"]
    [run], messages = call("parse", log, "--format", "json")
    left_out = counted(20 - run["step_seconds"]["n"], "report")
    assert_alike(row, run)
    assert row["reports"] == WARMUPS[warmup] or (warmup == "auto" and 5 < row["reports"] < 18)
    assert f"warm-up {warmup} (by campaign mine; {left_out} left out)" in messages
    [given], messages = call("parse", log, "--format", "json", "--warmup", warmup)
    assert given == run
    assert f"warm-up {warmup} ({left_out} left out)" in messages


def reports(*numbers: int) -> str:
    """Return the lines that DeepSpeed logs for the iterations with these numbers."""
    return "".join(LOGS[DEEPSPEED].splitlines(keepends=True)[number // 2 - 1] for number in numbers)


LAUNCHER = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
CHECKPOINT = "  successfully loaded checkpoint from ckpt at iteration {}\n"
FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
# Each framework with the reports that count after a warm-up of 5 iterations.
SEVERAL_LAUNCHES = {
    "resumed from a checkpoint": (
        CHECKPOINT.format(20) + reports(*range(22, 41, 2)),
        range(26, 41, 2),
    ),
    "begun again from a checkpoint": (
        LAUNCHER
        + reports(*range(2, 21, 2))
        + FAILED
        + LAUNCHER
        + CHECKPOINT.format(10)
        + reports(*range(12, 41, 2)),
        [*range(6, 21, 2), *range(16, 41, 2)],
    ),
    "begun again from the beginning": (
        LAUNCHER + reports(*range(2, 11, 2)) + FAILED + LAUNCHER + reports(*range(2, 31, 2)),
        range(6, 31, 2),
    ),
    "nothing after another start": (
        LAUNCHER + reports(*range(2, 31, 2)) + FAILED + LAUNCHER,
        range(6, 31, 2),
    ),
}


@pytest.mark.parametrize("case", SEVERAL_LAUNCHES)
def test_report_and_parse_agree_on_several_launches(
    case: str, log_of: Callable[[str, str, str], str]
) -> None:
    """If a log has several launches, `report` uses the last run in it that trained.

    A launch that continues from a checkpoint belongs to the same run as the launch before it. A
    launch that begins at the first iteration is a new run. Every launch has a warm-up of its own.
    """
    text, left = SEVERAL_LAUNCHES[case]
    log = log_of(DEEPSPEED, "5", text)
    [row] = call("report", "mine.yaml", "--format", "json")[0]["runs"]
    runs = [run for run in call("parse", log, "--format", "json")[0] if run["step_seconds"]["n"]]
    assert_alike(row, runs[-1])
    assert row["reports"] == len(left)
    seconds = [SECONDS[number // 2 - 1] for number in left]
    # The rate of a line has as many digits as Python prints.
    assert row["step_seconds_mean"] == pytest.approx(sum(seconds) / len(seconds))


def test_a_log_whose_campaign_is_not_on_record_has_the_warm_up_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no campaign is recorded for a log, `parse` uses the warm-up `first`.

    In this test, it leaves out one step report.
    """
    monkeypatch.chdir(tmp_path)
    log = Path("results/mine/abc123/attempt-1/output.log")
    log.parent.mkdir(parents=True)
    log.write_text(LOGS[GPT])
    [run], messages = call("parse", str(log), "--format", "json")
    assert run["warmup"]["policy"] == "first"
    assert "warm-up first (1 report left out)" in messages
