"""Arguments of Megatron that go only with others, or not with them."""

from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.table import FRAMEWORKS

CORE = {"framework": "megatron", "source": "megatron", "model": "18B", "precision": "bf16"}
DATA = {"data_path": "tokens", "vocab_file": "vocab.json", "merge_file": "merges.txt"}
PROGRAMS = {
    "core": CORE,
    "2": {**CORE, **DATA, "version": "2"},
    "3d": {**CORE, **DATA, "framework": "megatron_deepspeed_3d", "precision": "fp16"},
}
DISTRIBUTED = {"use_distributed_optimizer": True}
TENSORS = {"gpus_per_node": 2, "tensor_parallel_size": 2}
FSDP = "--use-megatron-fsdp --ckpt-format fsdp_dtensor"
FSDP2 = "--use-torch-fsdp2 --no-gradient-accumulation-fusion --untie-embeddings-and-output-weights"


def problems_of(run_of: RunOf, program: dict[str, Any], arguments: str) -> list[str]:
    """Return what makes a run impossible."""
    run = run_of(**program, extra_args=arguments.split())
    return list(FRAMEWORKS[run.framework].checks.problems(run))


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("--use-precision-aware-optimizer --optimizer-cpu-offload", DISTRIBUTED),
    ("--optimizer muon --ckpt-format torch", {}),
    ("--fp8-format hybrid --fp8-param-gather", DISTRIBUTED),
    (f"--fp8-format hybrid --fp8-param-gather {FSDP}", {}),
    ("--fp4-format e2m1 --fp4-param-gather", {}),
    ("--mtp-num-layers 1 --position-embedding-type rope", {}),
    ("--mtp-num-layers 1 --use-rotary-position-embeddings", {}),
    ("--mtp-num-layers 0", {}),
    ("--no-position-embedding --position-embedding-type rope", {}),
    ("--position-embedding-type relative", {}),
    ("--delay-wgrad-compute", {}),
    ("--attention-backend local --spec local", {}),
    ("--fp16-lm-cross-entropy", {"precision": "fp16"}),
    ("--fp32-residual-connection", {}),
    ("--squared-relu --disable-bias-linear", {}),
    ("--distribute-saved-activations", {**TENSORS, "activation_checkpointing": True}),
    ("--cuda-graph-impl local", {}),
    ("--cuda-graph-impl none", {"activation_checkpointing": True}),
    (f"{FSDP2} --ckpt-format torch_dcp", {}),
    ("--per-split-data-args-path paths.json", {}),
]


@pytest.mark.parametrize(("arguments", "values"), ACCEPTED, ids=str)
def test_what_goes_together_is_no_problem(run_of: RunOf, arguments: str, values: dict[str, Any]):
    assert problems_of(run_of, {**CORE, **values}, arguments) == []


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "--use-precision-aware-optimizer --optimizer-cpu-offload",
        {},
        (
            "--use-precision-aware-optimizer needs use_distributed_optimizer=true or "
            "--use-megatron-fsdp"
        ),
    ),
    ("--optimizer muon", {}, "--optimizer muon needs --ckpt-format torch"),
    (
        "--optimizer muon --ckpt-format torch",
        DISTRIBUTED,
        "--optimizer muon does not go with use_distributed_optimizer=true",
    ),
    (
        "--fp8-format hybrid --fp8-param-gather",
        {},
        (
            "--fp8-param-gather needs use_distributed_optimizer=true or --use-torch-fsdp2 or "
            "--use-megatron-fsdp"
        ),
    ),
    ("--fp4-param-gather", {}, "--fp4-param-gather needs --fp4-format"),
    (
        "--fp8-format hybrid --fp4-format e2m1",
        {},
        "--fp8-format does not go with --fp4-format",
    ),
    (
        "--mtp-num-layers 1",
        {},
        (
            "--mtp-num-layers needs --position-embedding-type rope or "
            "--use-rotary-position-embeddings or --position-embedding-type none"
        ),
    ),
    (
        "--no-position-embedding",
        {},
        (
            "--no-position-embedding needs --position-embedding-type rope or "
            "--use-rotary-position-embeddings"
        ),
    ),
    (
        "--position-embedding-type relative",
        {"transformer_impl": "local"},
        "--position-embedding-type relative needs transformer_impl=transformer_engine",
    ),
    (
        "--delay-wgrad-compute",
        {"transformer_impl": "local"},
        "--delay-wgrad-compute needs transformer_impl=transformer_engine",
    ),
    ("--attention-backend local", {}, "--attention-backend local needs --spec local"),
    (
        "--squared-relu",
        {},
        "--squared-relu needs --no-bias-gelu-fusion or --disable-bias-linear",
    ),
    (
        "--squared-relu --disable-bias-linear --swiglu",
        {},
        "--squared-relu does not go with --swiglu",
    ),
    (
        "--distribute-saved-activations",
        TENSORS,
        "--distribute-saved-activations needs activation_checkpointing=true",
    ),
    (
        "--distribute-saved-activations",
        {"activation_checkpointing": True},
        "--distribute-saved-activations needs tensor_parallel_size of 2 or more",
    ),
    (
        "--cuda-graph-impl local",
        {"activation_checkpointing": True},
        "--cuda-graph-impl local does not go with activation_checkpointing=true",
    ),
    (
        f"{FSDP2} --ckpt-format torch_dcp",
        TENSORS,
        "--ckpt-format torch_dcp does not go with tensor_parallel_size=2",
    ),
    (
        "--use-legacy-models --ckpt-format torch",
        {"gpus_per_node": 2, "context_parallel_size": 2},
        "--use-legacy-models does not go with context_parallel_size=2",
    ),
    (
        "--per-split-data-args-path x --train-data-path y",
        {},
        "--per-split-data-args-path does not go with --train-data-path",
    ),
]


@pytest.mark.parametrize(("arguments", "values", "problem"), REFUSED, ids=str)
def test_what_does_not_go_together_is_said(
    run_of: RunOf, arguments: str, values: dict[str, Any], problem: str
):
    assert problems_of(run_of, {**CORE, **values}, arguments) == [f"extra_args: {problem}"]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_no_megatron_since_2_puts_together_is_said(run_of: RunOf, program: dict[str, Any]):
    fp32 = {**program, "precision": "fp32"}
    assert problems_of(run_of, fp32, "--fp16-lm-cross-entropy --fp32-residual-connection") == [
        "extra_args: --fp16-lm-cross-entropy needs precision=fp16",
        "extra_args: --fp32-residual-connection needs precision=fp16 or precision=bf16",
    ]


@pytest.mark.parametrize("program", [PROGRAMS["2"], PROGRAMS["3d"]], ids=["2", "3d"])
def test_checkpoints_that_are_not_there_are_not_distributed(run_of: RunOf, program: dict[str, Any]):
    assert problems_of(run_of, program, "--distribute-checkpointed-activations") == [
        f"extra_args: --distribute-checkpointed-activations needs {needed}"
        for needed in ("activation_checkpointing=true", "tensor_parallel_size of 2 or more")
    ]
