"""Megatron core's fully sharded data parallelism, and what formats of checkpoints go with what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.submit.scripts import job_script

CORE = {"framework": "megatron", "source": "megatron", "model": "18B", "precision": "bf16"}
OF_2021 = {
    **CORE,
    "version": "2",
    "data_path": "tokens",
    "vocab_file": "vocab.json",
    "merge_file": "merges.txt",
}
TORCH_FSDP = [
    "--use-torch-fsdp2",
    "--no-gradient-accumulation-fusion",
    "--untie-embeddings-and-output-weights",
]


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        (CORE, [], True),
        (CORE, TORCH_FSDP, False),
        (CORE, ["--use-megatron-fsdp", "--ckpt-format", "fsdp_dtensor"], False),
        (OF_2021, [], False),
    ],
)
def test_core_has_one_queue_to_a_gpu_but_under_fsdp(
    campaign_of: Callable[[str], Campaign],
    program: dict[str, Any],
    arguments: list[str],
    *,
    expected: bool,
):
    """What overlaps with computation needs it, and FSDP refuses to start with it."""
    run = {**program, "gpus_per_node": 1, "extra_args": arguments}
    campaign = campaign_of(f"name: queue\ninclude: [{run}]\n")
    script = job_script(campaign.runs[0], campaign, Path("/results/queue/run"))
    assert ("CUDA_DEVICE_MAX_CONNECTIONS" in script) == expected


ACCEPTED: dict[str, dict[str, Any]] = {
    "models of before core": {
        **CORE,
        "extra_args": ["--use-legacy-models", "--ckpt-format", "torch"],
    },
    "torch's FSDP": {**CORE, "extra_args": TORCH_FSDP},
    "torch's FSDP with its own checkpoints": {
        **CORE,
        "extra_args": [*TORCH_FSDP, "--ckpt-format=torch_dcp"],
    },
}


@pytest.mark.parametrize("values", ACCEPTED.values(), ids=ACCEPTED)
def test_what_goes_together_is_no_problem(run_of: RunOf, values: dict[str, Any]):
    run = run_of(**values)
    assert not list(FRAMEWORKS[run.framework].checks.problems(run))


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "models of before core with checkpoints of core": (
        {**CORE, "extra_args": ["--use-legacy-models"]},
        ["--use-legacy-models needs --ckpt-format torch"],
    ),
    "Megatron's FSDP with checkpoints of others": (
        {**CORE, "extra_args": ["--use-megatron-fsdp", "--ckpt-format", "torch"]},
        ["--use-megatron-fsdp needs --ckpt-format fsdp_dtensor"],
    ),
    "checkpoints of Megatron's FSDP without it": (
        {**CORE, "extra_args": ["--ckpt-format", "fsdp_dtensor"]},
        ["--ckpt-format fsdp_dtensor needs --use-megatron-fsdp"],
    ),
    "checkpoints of torch's FSDP without it": (
        {**CORE, "extra_args": ["--ckpt-format", "torch_dcp"]},
        ["--ckpt-format torch_dcp needs --use-torch-fsdp2"],
    ),
    "torch's FSDP with all that it lacks": (
        {
            **CORE,
            "gpus_per_node": 2,
            "pipeline_parallel_size": 2,
            "use_distributed_optimizer": True,
            "precision": "fp16",
            "extra_args": ["--use-torch-fsdp2", "--ckpt-format", "zarr"],
        },
        [
            "--use-torch-fsdp2 needs --no-gradient-accumulation-fusion",
            "--use-torch-fsdp2 needs --untie-embeddings-and-output-weights",
            "--use-torch-fsdp2 does not go with pipeline_parallel_size=2",
            "--use-torch-fsdp2 does not go with use_distributed_optimizer=true",
            "--use-torch-fsdp2 does not go with precision=fp16; try bf16",
            "--use-torch-fsdp2 needs --ckpt-format torch_dist or torch_dcp",
        ],
    ),
    "torch's FSDP with experts over ranks": (
        {
            **CORE,
            "gpus_per_node": 8,
            "extra_args": [
                *("--num-experts", "8", "--expert-model-parallel-size", "8"),
                *TORCH_FSDP,
            ],
        },
        ["--use-torch-fsdp2 does not go with --expert-model-parallel-size=8"],
    ),
}


@pytest.mark.parametrize(("values", "problems"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_together_is_said_before_the_run(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    run = run_of(**values)
    said = list(FRAMEWORKS[run.framework].checks.problems(run))
    assert said == [f"extra_args: {problem}" for problem in problems]
