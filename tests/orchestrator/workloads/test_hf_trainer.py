"""What Hugging Face's Trainer refuses of a DeepSpeed configuration: what it is told otherwise."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.deepspeed.hf import config_files
from orchestrator.frameworks.table import FRAMEWORKS

HF = FRAMEWORKS["hf_deepspeed"]
WARMUP = {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}

# Of what is laid over the configuration; whether the Trainer of hf_gpt.py takes it.
CONFIGURATIONS: dict[str, tuple[dict[str, Any], str | None]] = {
    "nothing": ({}, None),
    "what it is told": (
        {
            "gradient_clipping": 1.0,
            "optimizer": {"params": {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01}},
        },
        None,
    ),
    "a scheduler for it to fill in": (
        {"scheduler": {"type": "WarmupLR", "params": WARMUP}},
        None,
    ),
    "another clipping": (
        {"gradient_clipping": 0.5},
        "gradient_clipping=0.5 contradicts the Trainer's max_grad_norm=1.0; take it out",
    ),
    "another weight decay": (
        {"optimizer": {"params": {"weight_decay": 0.1}}},
        (
            "optimizer.params.weight_decay=0.1 contradicts the Trainer's weight_decay=0.01; "
            "take it out"
        ),
    ),
    "other betas": (
        {"optimizer": {"params": {"betas": [0.9, 0.999]}}},
        (
            "optimizer.params.betas=[0.9, 0.999] contradicts the Trainer's adam_beta1 and "
            "adam_beta2=[0.9, 0.95]; take it out"
        ),
    ),
    "a scheduler with a rate of its own": (
        {"scheduler": {"type": "WarmupLR", "params": {**WARMUP, "warmup_max_lr": 0.5}}},
        (
            "scheduler.params.warmup_max_lr=0.5 contradicts the Trainer's learning_rate=0.00015; "
            "take it out"
        ),
    ),
    "a scheduler with a warm-up of its own": (
        {"scheduler": {"type": "WarmupLR", "params": {**WARMUP, "warmup_num_steps": 5}}},
        (
            "scheduler.params.warmup_num_steps=5 contradicts the Trainer's warmup_steps=1; "
            "take it out"
        ),
    ),
    "a scheduler of another length": (
        {
            "scheduler": {
                "type": "WarmupDecayLR",
                "params": {**WARMUP, "total_num_steps": 7},
            }
        },
        (
            "scheduler.params.total_num_steps=7 contradicts the Trainer's train_iters=20; "
            "take it out"
        ),
    ),
}


@pytest.mark.parametrize(("written", "problem"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_what_the_trainer_is_told_otherwise_is_a_problem(
    run_of: RunOf, written: dict[str, Any], problem: str | None
):
    run = run_of(framework="hf_deepspeed", deepspeed=written)
    assert list(HF.checks.problems(run)) == ([f"deepspeed: {problem}"] if problem else [])


# Makes the Trainer's arguments as hf_gpt.py does, and tells which configurations they refuse.
ASKING = """\
import json, sys
from pathlib import Path
from types import SimpleNamespace
import torch, transformers
from orchestrator.workloads.hf_gpt import trainer_arguments
from orchestrator.workloads.rank_process import leave
from orchestrator.workloads.settings import Settings

rate, iterations, warmup = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
small = dict.fromkeys(("num_layers", "num_attention_heads", "vocab_size", "seq_length"), 1)
refused = {}
for path in map(Path, sys.argv[4:]):
    settings = Settings(
        strategy="", **small, hidden_size=64, ffn_hidden_size=256, micro_batch_size=1,
        num_microbatches=1, train_iters=iterations, precision="fp32",
        activation_checkpointing=False, deepspeed_config=path, learning_rate=rate, seed=1,
        device="cpu",
    )
    arguments = trainer_arguments(settings, torch.device("cpu"), warmup, ".", transformers)
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=64))
    try:
        arguments.hf_deepspeed_config.trainer_config_finalize(arguments, model, iterations)
    except ValueError as error:
        refused[path.stem] = str(error)
print(json.dumps(refused))
leave(0)
"""


@pytest.mark.train
def test_the_trainer_itself_refuses_them(run_of: RunOf, tmp_path: Path):
    """And takes the others."""
    pytest.importorskip("transformers", reason="needs the hf extra")
    pytest.importorskip("deepspeed.utils", reason="needs the train extra", exc_type=ImportError)
    for name, (written, _) in CONFIGURATIONS.items():
        run = run_of(framework="hf_deepspeed", deepspeed=written)
        [config] = config_files(run).values()
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    training = run.training
    told = (training.learning_rate, training.train_iters, run.options.warmup_steps)
    done = subprocess.run(
        [sys.executable, "-c", ASKING, *map(str, told), *map(str, tmp_path.glob("*.json"))],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
    )
    refused = json.loads(done.stdout.splitlines()[-1])
    assert refused.keys() == {name for name, (_, problem) in CONFIGURATIONS.items() if problem}
    assert all("mismatch TrainingArguments" in words for words in refused.values())


@pytest.mark.parametrize("arguments", [["--max_grad_norm", "0.5"], ["--max-grad-norm=0.5"]])
def test_run_clm_is_told_by_its_arguments(run_of: RunOf, arguments: list[str]):
    values = {"framework": "hf_deepspeed", "program": "run_clm", "model": "s"}
    run = run_of(
        **values,
        script="run_clm.py",
        dataset="wikitext",
        deepspeed={"gradient_clipping": 0.5},
    )
    assert list(HF.checks.problems(run)) == [
        (
            "deepspeed: gradient_clipping=0.5 contradicts the Trainer's max_grad_norm=1.0; say it "
            "by --max_grad_norm in script_args, too, or take it out"
        )
    ]
    told = replace(run, options=replace(run.options, script_args=arguments))
    assert list(HF.checks.problems(told)) == []
