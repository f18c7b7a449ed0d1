"""Options and limits of the two frameworks that run Megatron under DeepSpeed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from orchestrator.frameworks.arguments import given, whole_number
from orchestrator.frameworks.megatron import argument_rules, memory, shared
from orchestrator.frameworks.megatron.shared import MegatronLauncher, MegatronOptions
from orchestrator.memory.placement import Placement, recomputation
from orchestrator.run.model import Run

_CHECKPOINTING = (
    "partition_activations",
    "checkpoint_in_cpu",
    "synchronize_each_layer",
    "contiguous_checkpointing",
)

# Keys that DeepSpeed has renamed. DeepSpeed of 2021 does not know the new names.
KEYS_OF_2021 = ("zero_optimization.stage3_gather_fp16_weights_on_model_save",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronDeepspeedOptions(MegatronOptions):
    """Parameters of both frameworks that run Megatron under DeepSpeed."""

    partition_activations: Annotated[
        bool, Field(description="Divide activation checkpoints over tensor-parallel ranks.")
    ] = False
    checkpoint_in_cpu: Annotated[
        bool, Field(description="Keep activation checkpoints in host memory.")
    ] = False
    synchronize_each_layer: Annotated[
        bool, Field(description="Wait for the GPU before and after each checkpointed layer.")
    ] = False
    contiguous_checkpointing: Annotated[
        bool, Field(description="Keep activation checkpoints in one piece of memory.")
    ] = False
    # DeepSpeed 0.3 reads its rank from --local_rank, which only this launcher passes.
    launcher: Annotated[MegatronLauncher, Field(description="Program that starts the ranks.")] = (
        "launch"
    )
    deepspeed: Annotated[
        dict[str, Any],
        Field(description="Changes to the DeepSpeed configuration, section by section."),
    ] = field(default_factory=dict)


def checkpointing(run: Run) -> list[str]:
    """Return the names of those parameters of activation checkpointing that are on in a run.

    An example is `partition_activations`.
    """
    return [name for name in _CHECKPOINTING if getattr(run.options, name)]


def checkpointing_problems(run: Run) -> Iterator[str]:
    """Yield a problem if an option of activation checkpointing needs a setting that is off."""
    asked = checkpointing(run)
    if asked and not run.training.activation_checkpointing:
        need = "needs" if len(asked) == 1 else "need"
        yield f"{' and '.join(asked)} {need} activation_checkpointing=true"
    if "contiguous_checkpointing" in asked and "partition_activations" not in asked:
        yield "contiguous_checkpointing needs partition_activations=true"


def optimizer_problems(run: Run) -> Iterator[str]:
    """Yield a problem if the user's DeepSpeed settings have an `optimizer` section.

    DeepSpeed would ignore the section, because it uses the optimizer that Megatron makes.
    """
    if "optimizer" in run.options.deepspeed:
        yield (
            "deepspeed: the program ignores `optimizer` and uses its own optimizer; remove it, and "
            "set the program's optimizer in extra_args"
        )


def version_1_problems(run: Run) -> Iterator[str]:
    """Yield one sentence for each setting of a run that is impossible in Megatron 1.1.5."""
    if run.training.precision == "bf16":
        yield "Megatron 1.1.5 has no bf16; use precision=fp16"
    model = run.model
    if model is not None and not model.has_gpt2_layers:
        yield (
            f"Megatron 1.1.5 cannot set ffn_hidden_size={model.ffn_width}: its MLP has "
            f"4*hidden_size={4 * model.hidden_size}; remove ffn_hidden_size"
        )
    unique = whole_number(given(run.options.extra_args), "--num-unique-layers")
    if unique is not None and model is not None and (unique < 1 or model.num_layers % unique):
        yield (
            f"extra_args: --num-unique-layers={unique} does not divide "
            f"num_layers={model.num_layers}"
        )
    yield from argument_rules.problems_of_all(run)


def placed(run: Run, states: Placement) -> Placement:
    """Return the placement of a run's states and activations.

    states: the placement of weights, gradients and optimizer states. The function adds the
    placement of activations and experts, which follows from the run's options. The program does
    not use fused attention.
    """
    options: MegatronDeepspeedOptions = run.options
    return replace(
        states,
        recomputation=recomputation(run.training.activation_checkpointing),
        checkpoint_num_layers=options.checkpoint_num_layers,
        checkpoints_in_cpu=options.checkpoint_in_cpu,
        partition_activations=options.partition_activations,
        fused_attention=False,
        may_save=memory.may_save(run),
        may_hold_more=memory.may_hold_more(run),
        experts=memory.experts(run),
    )


def warnings(run: Run) -> Iterator[str]:
    """Yield warnings about valid but unusual settings."""
    if run.options.launcher != "launch":
        yield (
            f"launcher={run.options.launcher} does not pass --local_rank, which DeepSpeed of 2021 "
            "(0.3) needs; use launcher=launch"
        )
    yield from shared.option_warnings(run)
    yield from memory.warnings(run)
