"""ZeRO's limits and its column in reports, shared by all frameworks that use DeepSpeed."""

from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.table import FRAMEWORKS

OFFLOADS = {
    "nothing": ({}, None),
    "optimizer": ({"offload_optimizer": "cpu"}, "optimizer → cpu"),
    "both to one place": (
        {"offload_optimizer": "cpu", "offload_param": "cpu"},
        "optimizer+parameters → cpu",
    ),
    "both to two places": (
        {"offload_optimizer": "nvme", "offload_param": "cpu"},
        "optimizer → nvme, parameters → cpu",
    ),
}


@pytest.mark.parametrize(("values", "shown"), OFFLOADS.values(), ids=OFFLOADS)
def test_a_cell_shows_what_is_offloaded_and_where_to(
    run_of: RunOf, values: dict[str, Any], shown: str | None
):
    """The column `offload` shows the offloaded states and their device, e.g. "optimizer → cpu"."""
    run = run_of(framework="deepspeed", script="train.py", zero_stage=3, **values)
    cells = {column.name: column.value(run) for column in FRAMEWORKS["deepspeed"].report.chosen}
    assert cells["offload"] == shown


def gpt(**values: Any) -> dict[str, Any]:
    """Return options of the gpt framework."""
    return {"framework": "gpt", **values}


def deepspeed(**values: Any) -> dict[str, Any]:
    """Return options of the deepspeed framework."""
    return {"framework": "deepspeed", "script": "train.py", **values}


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "gpt, all well": (gpt(strategy="zero3", offload_param="cpu", offload_optimizer="cpu"), []),
    "deepspeed, all well": (deepspeed(zero_stage=1, offload_optimizer="cpu"), []),
    "gpt split over ranks": (
        gpt(gpus_per_node=2, tensor_parallel_size=2),
        [
            (
                "framework gpt cannot split layers: tensor_parallel_size=2 and "
                "pipeline_parallel_size=1 must both be 1"
            )
        ],
    ),
    "gpt with split sequences": (
        gpt(gpus_per_node=2, context_parallel_size=2),
        ["framework gpt cannot split sequences: context_parallel_size=2 must be 1"],
    ),
    "deepspeed options for ddp": (
        gpt(strategy="ddp", deepspeed={"gradient_clipping": 1.0}),
        [
            (
                "strategy=ddp does not use DeepSpeed; remove the key deepspeed, or choose strategy "
                "zero0, zero1, zero2 or zero3"
            )
        ],
    ),
    "offload without ZeRO": (
        gpt(strategy="ddp", offload_optimizer="cpu", offload_param="cpu"),
        [
            "offload_optimizer=cpu needs ZeRO stage 1, 2 or 3",
            "offload_param=cpu needs ZeRO stage 3",
        ],
    ),
    "offload with stage 0": (
        deepspeed(offload_optimizer="cpu"),
        ["offload_optimizer=cpu needs ZeRO stage 1, 2 or 3"],
    ),
    "a pipeline at stage 2": (
        deepspeed(zero_stage=2, gpus_per_node=2, pipeline_parallel_size=2),
        [
            (
                "zero_stage=2 divides gradients, but a pipeline (pipeline_parallel_size=2) "
                "needs whole gradients; use zero_stage=0 or 1, or pipeline_parallel_size=1"
            )
        ],
    ),
    "a pipeline at stage 1": (
        deepspeed(zero_stage=1, gpus_per_node=2, pipeline_parallel_size=2),
        [],
    ),
    "a configuration of one's own": (
        deepspeed(script_args=["--epochs", "2", "--deepspeed_config=my.json"]),
        [
            (
                "script_args: teralog adds --deepspeed_config; remove it, and write changes to the "
                "DeepSpeed configuration under the key deepspeed"
            )
        ],
    ),
    "offload by an old key": (
        gpt(strategy="zero2", deepspeed={"zero_optimization": {"cpu_offload": True}}),
        [
            (
                "deepspeed: zero_optimization.cpu_offload is set by the run's offload_optimizer; "
                "remove it"
            )
        ],
    ),
    "sequences split as the run says": (
        deepspeed(
            zero_stage=1,
            nodes=1,
            gpus_per_node=4,
            context_parallel_size=2,
            deepspeed={"sequence_parallel_size": 2, "data_parallel_size": 2},
        ),
        [],
    ),
    "layers split as the run says": (
        deepspeed(
            zero_stage=1,
            gpus_per_node=4,
            tensor_parallel_size=2,
            deepspeed={"tensor_parallel": {"autotp_size": 2}},
        ),
        [],
    ),
    "layers that are not split": (
        deepspeed(zero_stage=1, deepspeed={"tensor_parallel": {"autotp_size": 0}}),
        [],
    ),
    "sequences split, and the run knows nothing of it": (
        deepspeed(zero_stage=1, gpus_per_node=4, deepspeed={"sequence_parallel_size": 2}),
        [
            (
                "deepspeed: sequence_parallel_size=2 contradicts the run's context_parallel_size; "
                "remove it"
            )
        ],
    ),
    "parameters offloaded at stage 2": (
        gpt(strategy="zero2", offload_param="cpu"),
        ["offload_param=cpu needs ZeRO stage 3"],
    ),
    "a misspelt key": (
        gpt(strategy="zero1", deepspeed={"gradient_cliping": 1.0}),
        ["DeepSpeed 0.19.8 has no key 'gradient_cliping'; did you mean 'gradient_clipping'?"],
    ),
    "fp16 where it means nothing": (
        deepspeed(
            zero_stage=1,
            precision="fp16",
            deepspeed={"zero_optimization": {"fp16": {"enabled": True, "loss_scale": 0}}},
        ),
        [
            (
                "DeepSpeed 0.19.8 has no key 'zero_optimization.fp16': move fp16 out of "
                "zero_optimization, to the top level of the configuration"
            )
        ],
    ),
    "a bucket that there is not": (
        deepspeed(zero_stage=2, deepspeed={"zero_optimization": {"all_reduce_bucket_size": 5e8}}),
        [
            (
                "DeepSpeed 0.19.8 has no key 'zero_optimization.all_reduce_bucket_size'; did you "
                "mean "
                "'reduce_bucket_size'?"
            )
        ],
    ),
    "a loss scale for what needs none": (
        deepspeed(zero_stage=1, precision="bf16", deepspeed={"fp16": {"loss_scale": 0}}),
        [
            (
                "deepspeed: section fp16 is for precision=fp16, but this run has precision=bf16; "
                "remove the section"
            )
        ],
    ),
    "fp16 with a scale of its own": (
        deepspeed(
            zero_stage=2,
            precision="fp16",
            deepspeed={
                "fp16": {"loss_scale": 0, "initial_scale_power": 15, "hysteresis": 2},
                "zero_optimization": {"reduce_bucket_size": 500_000_000},
            },
        ),
        [],
    ),
}


@pytest.mark.parametrize(("values", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_deepspeed_refuses_or_ignores_is_reported_before_the_run(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    """If DeepSpeed would refuse or ignore a setting, a message reports that.

    It uses the terms of the campaign file.
    """
    run = run_of(**values)
    checks = FRAMEWORKS[run.framework].checks
    assert [*checks.problems(run), *checks.unknown_keys(run)] == problems


OVERLAYS: dict[str, tuple[dict[str, Any], str]] = {
    "another stage": ({"zero_optimization": {"stage": 2}}, "zero_optimization.stage=2"),
    "another micro-batch": (
        {"train_micro_batch_size_per_gpu": 9},
        "train_micro_batch_size_per_gpu=9",
    ),
    "other accumulation": ({"gradient_accumulation_steps": 9}, "gradient_accumulation_steps=9"),
    "another batch": ({"train_batch_size": 9}, "train_batch_size=9"),
    "another precision": ({"bf16": {"enabled": True}}, "bf16.enabled=True"),
    "another learning rate": ({"optimizer": {"params": {"lr": 1}}}, "optimizer.params.lr=1"),
    "other sequences": ({"sequence_parallel_size": 2}, "sequence_parallel_size=2"),
    "layers split": ({"tensor_parallel": {"autotp_size": 2}}, "tensor_parallel.autotp_size=2"),
    "other copies of the model": ({"data_parallel_size": 2}, "data_parallel_size=2"),
    "a null": ({"optimizer": {"params": {"lr": None}}}, "optimizer.params.lr=None"),
    "offload of its own": (
        {"zero_optimization": {"offload_param": {"device": "cpu"}}},
        "zero_optimization.offload_param.device=cpu",
    ),
}


@pytest.mark.parametrize(("overlay", "setting"), OVERLAYS.values(), ids=OVERLAYS)
def test_an_overlay_cannot_contradict_the_run(run_of: RunOf, overlay: dict[str, Any], setting: str):
    """A run is impossible if its `deepspeed` settings contradict its other parameters.

    Otherwise the report would show settings that DeepSpeed does not use.
    """
    run = run_of(**gpt(strategy="zero3", deepspeed=overlay))
    [problem] = FRAMEWORKS["gpt"].checks.problems(run)
    assert problem.startswith(f"deepspeed: {setting} contradicts the run's ")


def test_an_overlay_may_repeat_settings_of_the_run(run_of: RunOf):
    """The `deepspeed` settings of a run may repeat its other parameters with equal values."""
    overlay = {"zero_optimization": {"stage": 3}, "train_batch_size": 1}
    assert not list(
        FRAMEWORKS["gpt"].checks.problems(run_of(**gpt(strategy="zero3", deepspeed=overlay)))
    )


@pytest.mark.parametrize("stage", [1, 2])
def test_only_the_third_stage_offloads_to_nvme(run_of: RunOf, stage: int):
    """Below ZeRO stage 3, `offload_optimizer: nvme` gives a warning, and needs no folder on NVMe.

    The reason is that DeepSpeed would offload to the CPU's memory instead.
    """
    run = run_of(**deepspeed(zero_stage=stage, offload_optimizer="nvme"))
    framework = FRAMEWORKS[run.framework]
    assert not list(framework.checks.problems(run))
    sentence = (
        "offload_optimizer=nvme moves the optimizer states to NVMe only with ZeRO stage 3; with "
        "other stages they stay in memory"
    )
    assert sentence in framework.checks.warnings(run)


def test_offload_to_nvme_needs_a_path(run_of: RunOf):
    """With ZeRO stage 3, a run that offloads to NVMe is impossible without `nvme_path`.

    DeepSpeed's own check accepts a missing path, and the run would fail later.
    """
    values = deepspeed(zero_stage=3, offload_param="nvme")
    [problem] = FRAMEWORKS["deepspeed"].checks.problems(run_of(**values))
    assert "offload_param=nvme needs a folder" in problem
    path = {"zero_optimization": {"offload_param": {"nvme_path": "/scratch"}}}
    assert not list(FRAMEWORKS["deepspeed"].checks.problems(run_of(**values, deepspeed=path)))


SILENT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "each step": (gpt(strategy="zero1"), []),
    "without DeepSpeed": (gpt(strategy="ddp"), []),
    "some steps": (deepspeed(deepspeed={"steps_per_print": 20, "log_level": "debug"}), []),
    "no step": (
        deepspeed(deepspeed={"steps_per_print": 21}),
        [
            (
                "deepspeed: with steps_per_print=21, DeepSpeed would report none of the 20 steps; "
                "give at most 20"
            )
        ],
    ),
    "no step at all": (
        deepspeed(deepspeed={"steps_per_print": None}),
        [
            (
                "deepspeed: with steps_per_print=null, DeepSpeed would report none of the 20 "
                "steps; give at most 20"
            )
        ],
    ),
    "no step at this level": (
        gpt(strategy="zero1", deepspeed={"log_level": "warning"}),
        [
            (
                "deepspeed: with log_level=warning, DeepSpeed would report none of the 20 steps; "
                "give info or debug"
            )
        ],
    ),
}


@pytest.mark.parametrize(("values", "warnings"), SILENT.values(), ids=SILENT)
def test_a_run_whose_steps_deepspeed_does_not_report_gives_a_warning(
    run_of: RunOf, values: dict[str, Any], warnings: list[str]
):
    """A run gets a warning if DeepSpeed will not print its steps.

    The report then has no step time of the run.
    """
    run = run_of(**{"train_iters": 20, **values})
    assert list(FRAMEWORKS[run.framework].checks.warnings(run)) == warnings
