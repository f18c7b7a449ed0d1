"""Settings of Megatron core that older GPUs do not support, and their memory forecasts."""

from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.checks import run_problems
from orchestrator.campaign.fit import run_forecast
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run
from parsers.summary.warmup import Warmup

CORE: dict[str, Any] = {
    "framework": "megatron",
    "source": "megatron",
    "model": "18B",
    "gpus_per_node": 8,
    "precision": "fp16",
}
FP8, FP4 = ["--fp8-format", "hybrid"], ["--fp4-format", "e2m1"]
EXPERTS = ["--num-experts", "8", "--moe-grouped-gemm"]


def problems_on(gpu: str | None, run: Run) -> list[str]:
    """Return the reasons why a run is impossible on a given GPU."""
    return list(run_problems(run, Cluster(name="a", gpu=gpu), Warmup(1)))


@pytest.mark.parametrize(
    ("gpu", "values", "problem"),
    [
        (
            "V100-SXM2-32GB",
            {"context_parallel_size": 2},
            (
                "context_parallel_size=2 needs a GPU of compute capability 8.0 or more, and "
                "V100-SXM2-32GB has 7.0"
            ),
        ),
        (
            "V100",
            {"extra_args": FP8},
            (
                "extra_args: --fp8-format needs a GPU of compute capability 8.9 or more, and V100 "
                "has 7.0"
            ),
        ),
        (
            "A100",
            {"extra_args": FP8},
            (
                "extra_args: --fp8-format needs a GPU of compute capability 8.9 or more, and A100 "
                "has 8.0"
            ),
        ),
        (
            "H100",
            {"extra_args": [*FP8, "--fp8-recipe", "mxfp8"]},
            (
                "extra_args: --fp8-format with --fp8-recipe mxfp8 needs a GPU of compute "
                "capability 10.0 or more, and H100 has 9.0"
            ),
        ),
        (
            "L40S",
            {"extra_args": [*FP8, "--fp8-recipe", "blockwise"]},
            (
                "extra_args: --fp8-format with --fp8-recipe blockwise needs a GPU of compute "
                "capability 9.0 or more, and L40S has 8.9"
            ),
        ),
        (
            "H100",
            {"extra_args": FP4},
            (
                "extra_args: --fp4-format needs a GPU of compute capability 10.0 or more, and H100 "
                "has 9.0"
            ),
        ),
    ],
)
def test_settings_that_need_a_newer_gpu_are_reported_before_the_run(
    run_of: RunOf, gpu: str, values: dict[str, Any], problem: str
):
    assert problems_on(gpu, run_of(**{**CORE, **values})) == [problem]


def test_experts_in_one_product_need_a_gpu_with_bf16(run_of: RunOf):
    """The option --moe-grouped-gemm needs a GPU of compute capability 8.0 or more, e.g. an A100."""
    run = run_of(**{**CORE, "precision": "bf16", "extra_args": EXPERTS})
    assert problems_on("V100", run) == [
        "precision=bf16 is not supported by V100; try fp16",
        (
            "extra_args: --moe-grouped-gemm needs a GPU of compute capability 8.0 or more, and "
            "V100 has 7.0"
        ),
    ]
    assert problems_on("A100", run) == []


@pytest.mark.parametrize(
    ("gpu", "values"),
    [
        ("V100", {}),
        ("A100", {"context_parallel_size": 2}),
        ("L40S", {"extra_args": FP8}),
        ("H100", {"extra_args": [*FP8, "--fp8-recipe", "blockwise"]}),
        ("H100", {"extra_args": [*FP4, "--fp4-recipe", "custom"]}),
        ("B200", {"extra_args": FP4}),
        ("B200", {"extra_args": [*FP8, "--fp8-recipe", "mxfp8"]}),
        ("MI300X", {"extra_args": FP8}),
        ("Z9000", {"extra_args": FP8}),
        (None, {"extra_args": FP8}),
    ],
)
def test_capable_and_unknown_gpus_give_no_warning(
    run_of: RunOf, gpu: str | None, values: dict[str, Any]
):
    assert problems_on(gpu, run_of(**{**CORE, **values})) == []


def low_gib(gpu: str | None, run: Run) -> float:
    """Return the low end of a run's memory forecast on a given GPU, in GiB."""
    memory = run_forecast(run, Cluster(name="a", gpu=gpu))
    assert memory is not None
    return memory.low_gib


def test_a_gpu_without_fused_attention_keeps_the_scores(run_of: RunOf):
    """Without fused attention, the memory forecast includes attention's scores.

    A V100 does not support fused attention. On any GPU, `transformer_impl: local` and
    `--attention-backend unfused` do not use it.
    """
    values = {**CORE, "micro_batch_size": 8}
    fused, local = run_of(**values), run_of(**values, transformer_impl="local")
    unfused = run_of(**values, extra_args=["--attention-backend", "unfused"])
    assert low_gib("A100", unfused) == low_gib("A100", local)
    assert low_gib("V100", fused) == low_gib("V100", local) == low_gib("A100", local)
    assert low_gib("A100", fused) == low_gib(None, fused) < low_gib("V100", fused)
