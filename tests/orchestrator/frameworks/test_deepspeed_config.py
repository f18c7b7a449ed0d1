"""The DeepSpeed configuration that teralog writes: its content, and that DeepSpeed accepts it."""

import itertools
import json
from importlib.resources import files
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.deepspeed.config import FILE_NAME, value_at
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run

RECORD = json.loads((files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text())


def config(run: Run) -> dict[str, Any]:
    """Return the DeepSpeed configuration of a run."""
    made = FRAMEWORKS[run.framework].start.config_files(run)
    assert list(made) == [FILE_NAME]
    return dict(made[FILE_NAME])


def test_a_configuration_is_complete(run_of: RunOf):
    """A DeepSpeed configuration sets the batch, the optimizer, the precision and ZeRO.

    It also lets DeepSpeed print a line for every step.
    """
    run = run_of(
        strategy="zero3",
        gpus_per_node=2,
        micro_batch_size=4,
        num_microbatches=3,
        precision="bf16",
        learning_rate=0.001,
        offload_optimizer="cpu",
        offload_param="cpu",
    )
    assert config(run) == {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 3,
        "steps_per_print": 1,
        "log_level": "info",
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01},
        },
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
            "offload_param": {"device": "cpu", "pin_memory": True},
        },
        "bf16": {"enabled": True},
    }


@pytest.mark.parametrize(
    ("values", "without_gpus"),
    [
        ({"strategy": "zero2"}, True),
        ({"framework": "hf_deepspeed", "zero_stage": 3}, True),
        ({"framework": "deepspeed", "script": "train.py", "zero_stage": 0}, True),
        # An offloaded optimizer is DeepSpeed's CPU Adam.
        ({"strategy": "zero2", "offload_optimizer": "cpu"}, None),
        ({"strategy": "zero2", "deepspeed": {"optimizer": {"type": "SGD"}}}, None),
        ({"strategy": "zero2", "deepspeed": {"optimizer": None}}, None),
        (
            {"strategy": "zero2", "deepspeed": {"optimizer": {"params": {"torch_adam": False}}}},
            False,
        ),
    ],
)
def test_torchs_own_adam_is_taken_only_without_gpus(
    run_of: RunOf, values: dict[str, Any], without_gpus: bool | None
):
    """The default optimizer is torch's AdamW without GPUs, and FusedAdam with GPUs."""
    run = run_of(**values)
    start = FRAMEWORKS[run.framework].start
    [there], [here] = (start.files_on(run, gpus=gpus).values() for gpus in (True, False))
    asked = value_at({"deepspeed": run.options.deepspeed}, "deepspeed.optimizer.params.torch_adam")
    assert value_at(there, "optimizer.params.torch_adam") is asked
    assert value_at(here, "optimizer.params.torch_adam") is without_gpus
    changed = {key for key in there if there[key] != here[key]}
    assert changed <= {"optimizer"}


def test_ddp_has_no_configuration(run_of: RunOf):
    """A ddp run does not use DeepSpeed, so it has no configuration."""
    assert FRAMEWORKS["gpt"].start.config_files(run_of(strategy="ddp")) == {}


OVERLAYS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "a key of its own": ({"gradient_clipping": 1.0}, "gradient_clipping", 1.0),
    "a key that is there": ({"steps_per_print": 10}, "steps_per_print", 10),
    "a section joined": (
        {"zero_optimization": {"reduce_bucket_size": 4096}},
        "zero_optimization",
        {"stage": 1, "reduce_bucket_size": 4096},
    ),
    "deep inside": (
        {"optimizer": {"params": {"eps": 1e-6, "betas": [0.8, 0.9]}}},
        "optimizer",
        {
            "type": "AdamW",
            "params": {
                "lr": 1.5e-4,
                "betas": [0.8, 0.9],
                "eps": 1e-6,
                "weight_decay": 0.01,
            },
        },
    ),
    "another optimizer, which does not take Adam's keys": (
        {"optimizer": {"type": "SGD", "params": {"momentum": 0.9}}},
        "optimizer",
        {"type": "SGD", "params": {"lr": 1.5e-4, "momentum": 0.9}},
    ),
    "a section replaced": ({"optimizer": None}, "optimizer", None),
}


@pytest.mark.parametrize(("extra", "key", "value"), OVERLAYS.values(), ids=OVERLAYS)
def test_the_user_s_settings_are_merged_into_the_configuration(
    run_of: RunOf, extra: dict[str, Any], key: str, value: Any
):
    """The user's `deepspeed` settings are merged into the configuration, section by section.

    Keys that teralog writes stay, unless the user sets them.
    """
    plain, laid_over = (
        config(run_of(strategy="zero1", deepspeed=overlay)) for overlay in ({}, extra)
    )
    assert laid_over == {**plain, key: value}
    assert plain == config(run_of(strategy="zero1"))


def test_the_record_has_every_section_that_is_written(run_of: RunOf):
    """Teralog's record of DeepSpeed's keys has every section and every key that teralog writes."""
    run = run_of(strategy="zero3", precision="fp16", offload_param="cpu", offload_optimizer="cpu")
    written = config(run)
    assert written.keys() <= set(RECORD["sections"][""])
    for section in ("zero_optimization", "optimizer", "fp16"):
        assert written[section].keys() <= set(RECORD["sections"][section])


def every_run(run_of: RunOf) -> list[Run]:
    """Return runs of the frameworks `gpt` and `deepspeed`, without the impossible ones.

    They cover each ZeRO stage, offload and precision, with 1 and 3 micro-batches per step.
    """
    frameworks = [
        *({"framework": "gpt", "strategy": f"zero{stage}"} for stage in range(4)),
        *({"framework": "deepspeed", "script": "a", "zero_stage": stage} for stage in range(4)),
    ]
    chosen = itertools.product(
        frameworks, ["fp32", "bf16", "fp16"], [1, 3], ["none", "cpu"], ["none", "cpu"]
    )
    runs = [
        run_of(
            **framework,
            precision=precision,
            num_microbatches=count,
            offload_optimizer=optimizer,
            offload_param=param,
        )
        for framework, precision, count, optimizer, param in chosen
    ]
    return [run for run in runs if not list(FRAMEWORKS[run.framework].checks.problems(run))]


@pytest.mark.train
def test_deepspeed_accepts_every_configuration_of_every_framework(run_of: RunOf):
    """DeepSpeed's own parser accepts every configuration, and reads the run's batch from it.

    The runs are of the frameworks `gpt` and `deepspeed`.
    """
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime.config import DeepSpeedConfig

    runs = every_run(run_of)
    assert len(runs) == 2 * 3 * 2 * (1 + 2 + 2 + 4)
    for run in runs:
        read = DeepSpeedConfig(config(run))
        assert read.train_micro_batch_size_per_gpu == run.batch.micro_batch_size
        assert read.gradient_accumulation_steps == run.num_microbatches
        assert read.zero_optimization_stage == run.zero_stage
        assert read.steps_per_print == 1
