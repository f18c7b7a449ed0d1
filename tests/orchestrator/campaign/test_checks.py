"""Check the reasons why a run is impossible: one sentence per reason."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.checks import run_problems, run_warnings
from orchestrator.hardware.cluster import Cluster
from parsers.summary.warmup import Warmup

CPUS = Cluster(name="here", scheduler="local", nodes=1, gpus_per_node=0)
V100 = Cluster(name="jean-zay", nodes=4, gpus_per_node=4, gpu="v100-SXM2-32GB")
UNKNOWN = Cluster(name="somewhere")

PROBLEMS: dict[str, tuple[dict[str, Any], Cluster, list[str]]] = {
    "nothing": ({}, CPUS, []),
    "a cluster that says nothing of itself": (
        {"nodes": 1000, "gpus_per_node": 1000, "precision": "fp16"},
        UNKNOWN,
        [],
    ),
    "heads": (
        {"num_attention_heads": 7},
        CPUS,
        ["hidden_size=64 is not divisible by num_attention_heads=7"],
    ),
    "a batch that does not divide": (
        {"gpus_per_node": 3, "micro_batch_size": 2, "global_batch_size": 8},
        CPUS,
        ["global_batch_size=8 is not divisible by micro_batch_size*data_parallel_size=6"],
    ),
    "a batch smaller than one pass": (
        {"gpus_per_node": 3, "micro_batch_size": 2, "global_batch_size": 3},
        CPUS,
        ["global_batch_size=3 is not divisible by micro_batch_size*data_parallel_size=6"],
    ),
    "a batch that is not made of its parts": (
        {"gpus_per_node": 4, "num_microbatches": 4, "global_batch_size": 4},
        CPUS,
        [
            (
                "global_batch_size=4 contradicts "
                "micro_batch_size*num_microbatches*data_parallel_size=16"
            )
        ],
    ),
    "copies that the ranks do not make": (
        {"gpus_per_node": 4, "data_parallel_size": 2},
        CPUS,
        [
            (
                "data_parallel_size=2 contradicts "
                "world_size/(tensor_parallel_size*pipeline_parallel_size)=4"
            )
        ],
    ),
    "copies that they do make": ({"gpus_per_node": 4, "data_parallel_size": 4}, CPUS, []),
    "sequences split over more ranks than there are": (
        {"framework": "deepspeed", "script": "a", "gpus_per_node": 2, "context_parallel_size": 4},
        CPUS,
        [
            (
                "world_size=2 is not divisible by "
                "tensor_parallel_size*pipeline_parallel_size*context_parallel_size=4"
            )
        ],
    ),
    "ranks that do not divide into replicas": (
        {"framework": "deepspeed", "script": "a", "gpus_per_node": 3, "tensor_parallel_size": 2},
        CPUS,
        ["world_size=3 is not divisible by tensor_parallel_size*pipeline_parallel_size=2"],
    ),
    "fewer ranks than a replica needs": (
        {
            "framework": "deepspeed",
            "script": "a",
            "tensor_parallel_size": 2,
            "pipeline_parallel_size": 2,
        },
        CPUS,
        ["world_size=1 is not divisible by tensor_parallel_size*pipeline_parallel_size=4"],
    ),
    "too many nodes": ({"nodes": 5}, V100, ["nodes=5, but cluster jean-zay has 4"]),
    "too many GPUs": ({"gpus_per_node": 8}, V100, ["gpus_per_node=8, but cluster jean-zay has 4"]),
    "as many processes as one likes, without GPUs": ({"gpus_per_node": 64}, CPUS, []),
    "fp16 without a GPU": (
        {"precision": "fp16"},
        CPUS,
        ["precision=fp16 needs a GPU, and cluster here has none; try bf16 or fp32"],
    ),
    "bf16 on a V100": (
        {"precision": "bf16"},
        V100,
        ["precision=bf16 is not supported by v100-SXM2-32GB; try fp16"],
    ),
    "bf16 on a T4": (
        {"precision": "bf16"},
        replace(V100, gpu="T4"),
        ["precision=bf16 is not supported by T4; try fp16"],
    ),
    **{
        f"bf16 on a {gpu}, which is not in the list": (
            {"precision": "bf16"},
            replace(V100, gpu=gpu),
            [f"precision=bf16 is not supported by {gpu}; try fp16"],
        )
        for gpu in ("V100-SXM3-32GB", "v100sxm2", "Tesla V100 (ours)")
    },
    "bf16 on an A100": ({"precision": "bf16"}, replace(V100, gpu="A100-SXM4-80GB"), []),
    "bf16 on a GPU that is not known": ({"precision": "bf16"}, replace(V100, gpu="X1"), []),
    "fp16 on a V100": ({"precision": "fp16"}, V100, []),
    "srun without Slurm": (
        {"launcher": "srun"},
        CPUS,
        ["launcher=srun needs a Slurm cluster, and here is not one"],
    ),
    "srun with Slurm": ({"launcher": "srun"}, V100, []),
    "everything at once": (
        {
            "num_attention_heads": 7,
            "nodes": 2,
            "micro_batch_size": 2,
            "global_batch_size": 3,
            "precision": "fp16",
            "launcher": "srun",
            "train_iters": 3,
            "offload_param": "cpu",
        },
        CPUS,
        [
            "hidden_size=64 is not divisible by num_attention_heads=7",
            "global_batch_size=3 is not divisible by micro_batch_size*data_parallel_size=4",
            "nodes=2, but cluster here has 1",
            "precision=fp16 needs a GPU, and cluster here has none; try bf16 or fp32",
            "launcher=srun needs a Slurm cluster, and here is not one",
            "offload_param=cpu needs ZeRO stage 3",
            (
                "warmup is the first 3 iterations, which leaves no iteration of train_iters=3; "
                "lower warmup, or raise train_iters"
            ),
        ],
    ),
}


@pytest.mark.parametrize(("values", "cluster", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_every_reason_is_reported_with_its_numbers(
    run_of: RunOf, values: dict[str, Any], cluster: Cluster, problems: list[str]
):
    """All reasons why a run is impossible are reported at once.

    A reason contains the names and the numbers of the parameters in the campaign file.
    """
    assert list(run_problems(run_of(**values), cluster, Warmup(3))) == problems


@pytest.mark.parametrize(
    ("nodes", "gpus_per_node", "tensor_parallel_size", "worth_a_look"),
    [(1, 4, 8, False), (2, 4, 4, False), (2, 4, 2, False), (2, 4, 8, True), (3, 4, 3, True)],
)
def test_layers_split_across_nodes_are_reported_as_a_warning(
    run_of: RunOf, nodes: int, gpus_per_node: int, tensor_parallel_size: int, worth_a_look: bool
):
    """A run gets a warning if its tensor parallelism divides a layer across nodes.

    Such a run is slow, because each layer waits for the network.
    """
    split = {"nodes": nodes, "gpus_per_node": gpus_per_node}
    run = run_of(
        framework="deepspeed", script="a", tensor_parallel_size=tensor_parallel_size, **split
    )
    sentence = (
        f"tensor_parallel_size={tensor_parallel_size} does not divide gpus_per_node=4: each "
        "layer is divided over several nodes and waits for the network"
    )
    assert list(run_warnings(run, Cluster(name="far"), Path())) == [sentence] * worth_a_look


@pytest.mark.parametrize(
    ("profile", "warnings"),
    [
        ({"gpu": "V100-SXM2-32GB"}, []),
        (
            {"gpu": "V100"},
            [
                (
                    "gpu: 'V100' may mean V100 SXM2 or V100 PCIe with 16 GiB, V100 SXM2 or V100 "
                    "PCIe with 32 GiB; give the full name, or gpu_memory_gib"
                )
            ],
        ),
        ({"gpu": "V100", "gpu_memory_gib": 32}, []),
        ({}, []),
        ({"gpu": "A10G", "gpus_per_node": 0}, []),
        (
            {"gpu": "A100-SMX4-80GB"},
            [
                (
                    "gpu: 'A100-SMX4-80GB' is not a GPU that teralog knows; did you mean "
                    "'A100-SXM4-80GB'? For an unknown GPU, give gpu_peak_tflops and "
                    "gpu_memory_gib in the cluster profile, to compute MFU and to check whether "
                    "runs fit into memory"
                )
            ],
        ),
        (
            {"gpu": "GeForce", "gpu_memory_gib": 24},
            [
                (
                    "gpu: 'GeForce' is not a GPU that teralog knows. For an unknown GPU, give "
                    "gpu_peak_tflops in the cluster profile, to compute MFU"
                )
            ],
        ),
        (
            {"gpu": "GeForce", "gpu_peak_tflops": {"fp32": 40}},
            [
                (
                    "gpu: 'GeForce' is not a GPU that teralog knows. For an unknown GPU, give "
                    "gpu_memory_gib in the cluster profile, to check whether runs fit into memory"
                )
            ],
        ),
        ({"gpu": "GeForce", "gpu_peak_tflops": {"fp32": 40}, "gpu_memory_gib": 24}, []),
    ],
)
def test_a_gpu_that_is_not_known_is_reported_as_a_warning(
    run_of: RunOf, profile: dict[str, Any], warnings: list[str]
):
    """An unknown or ambiguous name of a GPU gives a warning that says what to write instead.

    For an unknown GPU, the warning also lists what teralog cannot compute, e.g. MFU.
    """
    assert list(run_warnings(run_of(), Cluster(name="a", **profile), Path())) == warnings


@pytest.mark.parametrize(
    ("framework", "cluster", "warnings"),
    [
        ("megatron", CPUS, ["framework megatron trains only on GPUs, and cluster here has none"]),
        ("megatron", V100, []),
        ("gpt", CPUS, []),
    ],
)
def test_a_program_that_needs_gpus_is_reported_as_a_warning_without_any(
    run_of: RunOf, framework: str, cluster: Cluster, warnings: list[str], tmp_path: Path
):
    """If a framework needs GPUs and the cluster has none, a run gets a warning, not an error.

    Such a run cannot train, but it can still be rehearsed.
    """
    (tmp_path / "pretrain_gpt.py").touch()
    values = {"source": str(tmp_path)} if framework == "megatron" else {}
    run = run_of(framework=framework, **values)
    assert list(run_warnings(run, cluster, Path())) == warnings


@pytest.mark.parametrize(
    ("stage", "cluster", "warnings"),
    [
        (
            3,
            CPUS,
            ["zero_stage=3 with program=run_clm trains only on GPUs, and cluster here has none"],
        ),
        (2, CPUS, []),
        (3, V100, []),
    ],
)
def test_run_clm_with_parameters_divided_is_reported_as_a_warning_without_gpus(
    run_of: RunOf, stage: int, cluster: Cluster, warnings: list[str], tmp_path: Path
):
    """On a cluster without GPUs, run_clm with ZeRO stage 3 gets a warning.

    Without GPUs, DeepSpeed refuses the batch size of such a run.
    """
    files = {name: str(tmp_path / name) for name in ("script", "dataset")}
    for path in files.values():
        Path(path).touch()
    run = run_of(framework="hf_deepspeed", program="run_clm", zero_stage=stage, **files)
    assert list(run_warnings(run, cluster, Path())) == warnings


@pytest.mark.parametrize(
    ("values", "cores", "warned"),
    [
        ({"strategy": "zero2", "offload_optimizer": "cpu"}, None, True),
        ({"strategy": "zero2", "offload_optimizer": "cpu"}, 8, False),
        ({"strategy": "zero2"}, None, False),
        ({"framework": "colossalai_gpt", "strategy": "colossalai_zero2_cpu"}, None, True),
        ({"framework": "colossalai_gpt", "strategy": "colossalai_zero2"}, None, False),
    ],
)
def test_an_optimizer_with_one_core_gives_a_warning(
    run_of: RunOf, values: dict[str, Any], cores: int | None, *, warned: bool
):
    """If the optimizer runs on the CPU with one core per rank, the run gets a warning.

    With one core, a step takes many times as long as with several.
    """
    if "framework" in values:
        values = {**values, "source": "c"}
    cluster = Cluster(name="a", scheduler="slurm", gpus_per_node=8, cores_per_rank=cores)
    warnings = [
        warning
        for warning in run_warnings(run_of(**values), cluster, Path())
        if "one thread" in warning
    ]
    assert len(warnings) == warned


@pytest.mark.parametrize(
    ("warmup", "train_iters", "measured"),
    [
        *[(0, 1, True), (1, 1, False), (3, 4, True), (4, 4, False), ("99%", 1, True)],
        *[(5, 4, False), ("first", 1, False), ("first", 2, True), ("auto", 1, True)],
    ],
)
def test_a_warmup_must_leave_something_to_measure(
    run_of: RunOf, warmup: int | str, train_iters: int, measured: bool
):
    """A run is impossible if its warm-up is as long as the run."""
    problems = list(run_problems(run_of(train_iters=train_iters), CPUS, Warmup.parse(warmup)))
    assert (not problems) == measured
