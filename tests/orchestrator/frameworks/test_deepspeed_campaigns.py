"""DeepSpeed itself accepts the configuration of every run in this project's campaign files."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.campaign.campaign import PlannedRun, load_campaign
from orchestrator.frameworks.deepspeed.config import trainer_sizes, value_at
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run

ROOT = Path(__file__).parents[3]
CAMPAIGNS = sorted(
    (*(ROOT / "tests" / "scripts").glob("*.yaml"), *(ROOT / "examples").glob("[!_]*.yaml"))
)


def configurations(path: Path) -> Iterator[tuple[PlannedRun, dict[str, Any]]]:
    """Yield each run of a campaign file together with its DeepSpeed configuration."""
    for planned in load_campaign(path).runs:
        for content in FRAMEWORKS[planned.run.framework].start.config_files(planned.run).values():
            if "zero_optimization" in content or "train_micro_batch_size_per_gpu" in content:
                yield planned, content


def left_to_the_program(content: dict[str, Any]) -> bool:
    """Return whether any value of a DeepSpeed configuration is "auto"."""
    return any(
        value == "auto" or (isinstance(value, dict) and left_to_the_program(value))
        for value in content.values()
    )


def filled_in(run: Run, content: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration after Hugging Face's own code has replaced its "auto" values.

    The code gets the TrainingArguments of the run's script. If these arguments contradict the
    configuration, it raises ValueError, as the Trainer does.
    """
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    assert run.model is not None
    arguments = SimpleNamespace(
        world_size=run.world_size,
        per_device_train_batch_size=run.batch.micro_batch_size,
        gradient_accumulation_steps=run.num_microbatches,
        max_grad_norm=1.0,
        learning_rate=run.training.learning_rate,
        adam_beta1=0.9,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        save_on_each_node=False,
        fp16=run.training.precision == "fp16",
        fp16_full_eval=False,
        bf16=run.training.precision == "bf16",
        bf16_full_eval=False,
        get_warmup_steps=lambda steps: run.options.warmup_steps,
    )
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=run.model.hidden_size))
    config = HfTrainerDeepSpeedConfig(content)
    config.trainer_config_process(arguments)
    config.trainer_config_finalize(arguments, model, run.training.train_iters)
    settings: dict[str, Any] = config.config
    return settings


@pytest.mark.train
@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_deepspeed_accepts_what_its_runs_are_given(path: Path, monkeypatch: pytest.MonkeyPatch):
    """DeepSpeed accepts each run's configuration with the run's number of ranks."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime import config as deepspeed_config

    # Without a group of processes there is no rank; the topology gives the number of ranks.
    monkeypatch.setattr(deepspeed_config.dist, "get_rank", lambda: 0)
    for planned, content in configurations(path):
        run = planned.run
        if left_to_the_program(content):
            pytest.importorskip("accelerate", reason="needs the hf extra")
            pytest.importorskip("transformers", reason="needs the hf extra")
            content = filled_in(run, content)  # noqa: PLW2901  (as the program would)
            assert not left_to_the_program(content)
        replicas = run.data_parallel_size
        topology = SimpleNamespace(get_data_parallel_world_size=lambda count=replicas: count)
        read = deepspeed_config.DeepSpeedConfig(content, mpu=topology)
        assert read.train_batch_size == run.batch.global_batch_size, planned.label
        assert read.train_micro_batch_size_per_gpu == run.batch.micro_batch_size
        assert read.gradient_accumulation_steps == run.num_microbatches
        assert read.zero_optimization_stage == (run.zero_stage or 0)
        assert read.float16_config.enabled == (run.training.precision == "fp16")
        assert read.bfloat16_config.enabled == (run.training.precision == "bf16")


@pytest.mark.train
def test_deepspeed_accepts_every_way_to_run_the_trainer(
    run_of: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
):
    """DeepSpeed accepts the configuration of every possible run of the framework `hf_deepspeed`.

    The test covers each ZeRO stage, offload and precision, with 1 and 3 micro-batches per step.
    """
    for package in ("deepspeed", "transformers", "accelerate"):
        pytest.importorskip(package, reason="needs the extras train and hf")
    from deepspeed.runtime import config as deepspeed_config

    monkeypatch.setattr(deepspeed_config.dist, "get_rank", lambda: 0)
    framework = FRAMEWORKS["hf_deepspeed"]
    chosen = itertools.product(
        range(4), ["none", "cpu"], ["none", "cpu"], ["fp32", "bf16", "fp16"], [1, 3]
    )
    accepted = 0
    for stage, optimizer, param, precision, count in chosen:
        run = run_of(
            framework="hf_deepspeed",
            zero_stage=stage,
            offload_optimizer=optimizer,
            offload_param=param,
            precision=precision,
            num_microbatches=count,
            gpus_per_node=4,
        )
        if list(framework.checks.problems(run)):
            continue
        [content] = framework.start.config_files(run).values()
        topology = SimpleNamespace(get_data_parallel_world_size=lambda: 4)
        read = deepspeed_config.DeepSpeedConfig(filled_in(run, content), mpu=topology)
        assert read.train_batch_size == 4 * count
        assert read.zero_config.stage == stage
        assert (read.zero_config.offload_param is not None) == (param == "cpu")
        accepted += 1
    assert accepted == (1 + 2 + 2 + 4) * 3 * 2


@pytest.mark.train
def test_another_batch_than_that_of_its_ranks_would_be_refused(monkeypatch: pytest.MonkeyPatch):
    """DeepSpeed refuses a global batch that is not micro-batch * accumulation steps * ranks.

    This shows that the tests above can fail.
    """
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime import config as deepspeed_config

    monkeypatch.setattr(deepspeed_config.dist, "get_rank", lambda: 0)
    topology = SimpleNamespace(get_data_parallel_world_size=lambda: 64)
    written = {
        "train_batch_size": 8,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 1,
    }
    with pytest.raises(AssertionError, match=r"8 != 4 \* 1 \* 64"):
        deepspeed_config.DeepSpeedConfig(written, mpu=topology)


@pytest.mark.train
def test_the_sizes_that_the_trainer_fills_in_are_those_of_the_forecast():
    """The memory forecast uses the same bucket sizes as Hugging Face's Trainer.

    The Trainer computes them from the model's hidden size.
    """
    pytest.importorskip("accelerate", reason="needs the hf extra")
    [(planned, content), *_] = configurations(ROOT / "tests" / "scripts" / "hf_deepspeed-v100.yaml")
    model = planned.run.model
    assert model is not None
    section = filled_in(planned.run, content)["zero_optimization"]
    sizes = trainer_sizes(model.hidden_size)
    assert {key: section[key] for key in sizes} == sizes
    assert value_at(content, "zero_optimization.reduce_bucket_size") == "auto"
