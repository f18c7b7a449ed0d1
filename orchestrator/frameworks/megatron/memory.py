"""Find arguments of Megatron core that change a run's memory, or that need newer GPUs.

Some arguments work only on newer GPUs, i.e. from a certain compute capability on. Others request
selective recomputation, or change the memory in a way that the forecast does not count.
"""

from collections.abc import Iterator

from orchestrator.frameworks.arguments import Given, given, whole_number
from orchestrator.frameworks.megatron import pipeline, shared
from orchestrator.hardware.gpus import Capability
from orchestrator.memory.experts import ExpertPlacement
from orchestrator.memory.placement import Recomputation, recomputation
from orchestrator.run.model import Run

# On older GPUs, Transformer Engine's get_attention_backend has no fused and no flash attention. It
# splits sequences only in these two kinds of attention.
FUSED_ATTENTION = (8, 0)
_GROUPED_GEMM = (8, 0)  # validate_args
# Transformer Engine's check_fp8_support, and the recipes that need newer GPUs.
_FP8 = (8, 9)
_RECIPES = {"blockwise": (9, 0), "mxfp8": (10, 0), "nvfp4": (10, 0)}
_USUAL_RECIPES = {"fp8": "delayed", "fp4": "nvfp4"}


def needed(run: Run) -> Iterator[tuple[str, Capability]]:
    """Yield each setting of a Megatron core run that only newer GPUs support, as text.

    Each setting comes with the lowest compute capability of the GPUs that support it.
    """
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


_GRANULARITY, _ACTIVATIONS = "--recompute-granularity", "--recompute-activations"
_MODULES = "--recompute-modules"
# By default, selective recomputation recomputes the attention scores, as `Placement` assumes.
_SCORES = ["core_attn"]


def selective(run: Run) -> list[str]:
    """Return the further arguments that request selective recomputation.

    The list is empty if no argument requests it, or if the run recomputes whole layers.
    """
    options = given(run.options.extra_args)
    asked = _ACTIVATIONS in options or list(options.get(_GRANULARITY, ())) == ["selective"]
    if run.training.activation_checkpointing or not asked:
        return []
    return [option for option in (_ACTIVATIONS, _GRANULARITY) if option in options]


def mode(run: Run) -> Recomputation | None:
    """Return which activations a Megatron core run recomputes, for the memory forecast.

    Selective recomputation recomputes only some parts of a layer. If these parts are the attention
    scores, the forecast can count the effect, and the result is "selective". If the run selects
    other parts, the result is None.
    """
    if not selective(run):
        return recomputation(run.training.activation_checkpointing)
    modules = given(run.options.extra_args).get(_MODULES, _SCORES)
    return "selective" if list(modules) == _SCORES else None


# With these options, states or activations are divided, are offloaded or have fewer bytes, or the
# model is smaller.
_SAVES = (
    "--use-torch-fsdp2", "--use-megatron-fsdp", "--optimizer-cpu-offload",
    "--cpu-offloading-num-layers", "--use-precision-aware-optimizer", "--main-grads-dtype",
    "--main-params-dtype", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--grad-reduce-in-bf16",
    "--fp8-format", "--fp8-param-gather", "--fp4-format", "--fp4-param-gather", "--optimizer",
    "--distribute-saved-activations", "--distribute-checkpointed-activations",
    "--num-experts", "--group-query-attention", "--kv-channels", "--multi-latent-attention",
    "--spec", "--heterogeneous-layers-config-path", "--heterogeneous-layers-config-encoded-json",
)  # fmt: skip


# With these options, the model has more parameters, or other layers, than its shape describes.
_GROWS = (
    "--num-experts", "--mtp-num-layers", "--spec", "--heterogeneous-layers-config-path",
    "--heterogeneous-layers-config-encoded-json", "--hybrid-layer-pattern",
    "--hybrid-override-pattern", "--kv-channels", "--experimental-attention-variant",
    "--num-moe-experts", "--swiglu", "--untie-embeddings-and-output-weights",
)  # fmt: skip


def may_hold_more(run: Run) -> bool:
    """Return whether a further argument may add parts to the model that the forecast leaves out."""
    included = {"--num-experts"} if experts(run) else set()
    model = run.model
    if model is not None and model.gated_mlp:
        included.add("--swiglu")
    if model is not None and model.untied_head:
        included.add("--untie-embeddings-and-output-weights")
    return bool(run.options.gives(*(option for option in _GROWS if option not in included)))


def experts(run: Run) -> ExpertPlacement | None:
    """Return the experts of a run's model: their number, sizes and division over ranks.

    They come from the model's description or from the run's further arguments. Returns None if the
    model has no experts, or if it is unclear which layers have experts.
    """
    options, model = given(run.options.extra_args), run.model
    number = whole_number(options, "--num-experts")
    ranks = whole_number(options, "--expert-model-parallel-size") or 1
    tensor = run.parallelism.tensor_parallel_size
    tensor_ranks = whole_number(options, "--expert-tensor-parallel-size") or tensor
    if model is not None and model.described is not None:
        from orchestrator.memory.described import placed_experts

        return placed_experts(model.described, ranks=ranks, tensor_ranks=tensor_ranks)
    if model is None or not number:
        return None
    layers = _expert_layers(options, model.num_layers)
    if layers is None:
        return None
    return ExpertPlacement(
        number=number,
        # Megatron's defaults: moe_router_topk 2, the width of the MLP, the tensor parallelism.
        top_k=whole_number(options, "--moe-router-topk") or 2,
        width=whole_number(options, "--moe-ffn-hidden-size") or model.ffn_width,
        layers=layers,
        shared_width=whole_number(options, "--moe-shared-expert-intermediate-size") or 0,
        ranks=ranks,
        tensor_ranks=tensor_ranks,
    )


_FREQUENCY = "--moe-layer-freq"


def _expert_layers(options: Given, count: int) -> tuple[bool, ...] | None:
    """Return for each layer whether it has experts; None if --moe-layer-freq is unclear."""
    words = options.get(_FREQUENCY)
    if words is None:
        return (True,) * count
    from orchestrator.model.megatron import layers_in_pattern

    return layers_in_pattern(" ".join(words), count)


def may_save(run: Run) -> bool:
    """Return whether a further argument may lower a run's memory below the forecast."""
    saves = [option for option in _SAVES if option != "--num-experts" or not experts(run)]
    return bool(run.options.gives(*saves, *pipeline.UNEVEN))


def warnings(run: Run) -> Iterator[str]:
    """Yield a warning for each further argument that saves memory which the forecast still counts.

    Arguments that `shared.unreckoned` returns are left out, because they have another warning.
    """
    other_warnings = shared.unreckoned(run)
    for option in given(run.options.extra_args):
        if option in _SAVES and option not in other_warnings:
            yield f"extra_args: the memory forecast ignores {option}"
