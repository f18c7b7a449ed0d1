"""Report, parse and compare runs of described models: Mixtral, and Nemotron-H with Mamba-2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.cli.main import main
from orchestrator.model.counting import count_flops
from orchestrator.model.description import Model
from orchestrator.model.huggingface import model_of_config
from orchestrator.model.megatron import named_arguments
from orchestrator.model.named import named_model
from orchestrator.run.flops import model_flops
from orchestrator.store.campaign_store import campaign_store
from orchestrator.submit.render import render_runs

H100 = 989.5
GPUS, BATCH, LENGTH = 64, 128, 4096
CONFIG = {**named_model("nemotron-h-8b").config, "max_position_embeddings": LENGTH}
CAMPAIGN: dict[str, Any] = {
    "name": "models",
    "defaults": {
        "framework": "megatron",
        "source": "megatron",
        "nodes": 8,
        "gpus_per_node": 8,
        "micro_batch_size": 1,
        "global_batch_size": BATCH,
        "tensor_parallel_size": 4,
        "train_iters": 8,
        "precision": "bf16",
        "seq_length": LENGTH,
    },
    "matrix": {"activation_checkpointing": [False, True]},
    "include": [
        {"model": "mixtral-8x7b"},
        {"model": {"name": "mixtral-8x7b", "num_layers": 16}},
        {"model": {"config": "config.json"}},
    ],
    "warmup": 2,
}
SECONDS = (8.0, 4.0, 5.0, 10.0, 5.0, 6.5)


def models() -> list[Model]:
    """Return the models of the campaign, in order."""
    mixtral = named_model("mixtral-8x7b")
    less = model_of_config({**mixtral.config, "num_hidden_layers": 16}, LENGTH)
    return [mixtral.model(LENGTH), less, model_of_config(CONFIG, LENGTH)]


def log_of(planned: Any, seconds: float) -> str:
    """Return a log as Megatron core prints it: its arguments, and eight iterations."""
    from orchestrator.frameworks.table import FRAMEWORKS

    run = planned.run
    words = [word for group in FRAMEWORKS["megatron"].model.arguments(run) for word in group]
    arguments = {
        **named_arguments(words),
        "seq_length": LENGTH,
        "padded_vocab_size": run.padded_vocab_size,
        "world_size": GPUS,
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 1,
        "global_batch_size": BATCH,
        "micro_batch_size": 1,
        "train_iters": 8,
        "bf16": "True",
        "recompute_granularity": "full" if run.training.activation_checkpointing else "None",
    }
    head = "------------------------ arguments ------------------------\n"
    body = "".join(
        f"  {name} {'.' * (46 - len(name))} {value}\n" for name, value in arguments.items()
    )
    end = "-------------------- end of arguments ---------------------\n"
    steps = "".join(
        f" [2026-01-02 03:04:{number:02}] iteration {number:8}/       8 | consumed samples: "
        f"{number * BATCH:12} | elapsed time per iteration (ms): "
        f"{1000 * seconds + number % 3:.1f} | learning rate: 1.0E-04 | "
        f"global batch size: {BATCH:5} | lm loss: 9.0E+00 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for number in range(1, 9)
    )
    return head + body + end + steps


def call(*arguments: str) -> str:
    """Return what a command prints; assert that it exits with code 0."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt_in: Callable[..., Any]
) -> tuple[Campaign, list[Path]]:
    """Return a campaign of completed runs on H100 GPUs, and the paths of their logs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("config.json").write_text(json.dumps(CONFIG))
    Path("h100.yaml").write_text(
        "gpus_per_node: 8\ngpu: H100-SXM5-80GB\ntime_limit: 1:00:00\npython: python3\n"
    )
    runs = [
        {**choice, "activation_checkpointing": again}
        for again in (False, True)
        for choice in CAMPAIGN["include"]
    ]
    text = {**CAMPAIGN, "cluster": "h100.yaml", "include": runs}
    del text["matrix"]
    Path("models.yaml").write_text(json.dumps(text))
    campaign = load_campaign(Path("models.yaml"))
    store = campaign_store(Path("results"), "models")
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    logs = []
    for planned, seconds in zip(campaign.runs, SECONDS, strict=True):
        attempt = attempt_in(
            store.run(planned.run_id), log=log_of(planned, seconds), state="COMPLETED"
        )
        logs.append(attempt.log)
    return campaign, logs


def expected(model: Model, vocabulary: int, again: bool) -> tuple[float, float]:
    """Return the model and hardware FLOPs of an iteration, counted from the model's description.

    vocabulary: the padded vocabulary. again: whether the iteration recomputes activations.
    """
    counted = count_flops(model.with_vocabulary(vocabulary), sequences=BATCH, recomputed=again)
    return counted.model, counted.hardware


def test_report_counts_described_models(finished: tuple[Campaign, list[Path]]) -> None:
    """`report` computes FLOPs, MFU, HFU and tokens per second from the model's description."""
    campaign, _ = finished
    report = json.loads(call("report", "models.yaml", "--format", "json"))
    assert len(report["runs"]) == 6
    assert "of each part of the model" in report["provenance"]
    for index, (planned, row) in enumerate(zip(campaign.runs, report["runs"], strict=True)):
        vocabulary = planned.run.padded_vocab_size
        assert vocabulary is not None
        model, hardware = expected(models()[index % 3], vocabulary, index >= 3)
        seconds = row["step_seconds_median"]
        per_gpu = 1e12 * seconds * GPUS
        assert model_flops(planned.run) == model
        assert row["model_tflops_per_gpu"] == pytest.approx(model / per_gpu)
        assert row["tflops_per_gpu"] == pytest.approx(hardware / per_gpu)
        assert row["mfu"] == pytest.approx(model / per_gpu / H100)
        assert row["hfu"] == pytest.approx(hardware / per_gpu / H100)
        assert (row["hfu"] > row["mfu"]) == (index >= 3)
        assert row["tokens_per_second_per_gpu"] == pytest.approx(BATCH * LENGTH / seconds / GPUS)


def test_parse_counts_the_same_from_the_log(finished: tuple[Campaign, list[Path]]) -> None:
    """`parse` reads the model from the log's arguments, and gives the same numbers as `report`."""
    report = json.loads(call("report", "models.yaml", "--format", "json"))
    _, logs = finished
    for row, log in zip(report["runs"], logs, strict=True):
        [parsed] = json.loads(
            call("parse", str(log), "--gpu", "H100-SXM5-80GB", "--warmup", "2", "--json")
        )
        assert parsed["model_tflops_per_gpu"] == pytest.approx(row["model_tflops_per_gpu"])
        assert parsed["tflops_per_gpu"] == pytest.approx(row["tflops_per_gpu"])
        assert parsed["mfu"] == pytest.approx(row["mfu"])
        assert parsed["parameters"] == row["parameters"]


def test_compare_knows_described_models(finished: tuple[Campaign, list[Path]]) -> None:
    """`compare` compares the two runs of each model: without and with recomputation."""
    compared = json.loads(
        call("compare", "models.yaml", "--by", "activation_checkpointing", "--json")
    )
    speeds = [comparison["ratio"] for comparison in compared]
    assert speeds == pytest.approx([8 / 10, 4 / 5, 5 / 6.5], rel=1e-3)
