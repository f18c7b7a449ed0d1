"""Which compute capability of GPUs Megatron core and its Transformer Engine need for what."""

from collections.abc import Iterator

from orchestrator.frameworks.arguments import given
from orchestrator.gpus import Capability
from orchestrator.model import Run

# Transformer Engine's get_attention_backend has neither fused nor flash attention on older GPUs,
# and splits sequences in those alone.
FUSED_ATTENTION = (8, 0)
_GROUPED_GEMM = (8, 0)  # validate_args
# Transformer Engine's check_fp8_support, and what recipes need beyond it.
_FP8 = (8, 9)
_RECIPES = {"blockwise": (9, 0), "mxfp8": (10, 0), "nvfp4": (10, 0)}
_USUAL_RECIPES = {"fp8": "delayed", "fp4": "nvfp4"}


def needed(run: Run) -> Iterator[tuple[str, Capability]]:
    """Yield what of a run of Megatron core needs which compute capability."""
    options = given(run.options.extra_args)
    if (context := run.parallelism.context_parallel_size) > 1:
        yield f"context_parallel_size={context}", FUSED_ATTENTION
    if "--moe-grouped-gemm" in options:
        yield "extra_args: --moe-grouped-gemm", _GROUPED_GEMM
    for kind, usual in _USUAL_RECIPES.items():
        if f"--{kind}-format" in options:
            recipe = " ".join(options.get(f"--{kind}-recipe", (usual,)))
            beside = f" with --{kind}-recipe {recipe}" if recipe != usual else ""
            yield f"extra_args: --{kind}-format{beside}", _RECIPES.get(recipe, _FP8)
