"""Describe how a framework stores its states: bytes, split, offloaded, recomputed.

If a value is two numbers, they are (least, most): versions of a framework differ, and the forecast
is an interval.
"""

from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.memory.experts import ExpertPlacement

Range = tuple[float, float]
# DeepSpeed's defaults, in elements: reduce_bucket_size, stage3_max_live_parameters and
# stage3_prefetch_bucket_size.
ZERO_BUCKET, ZERO_LIVE, ZERO_PREFETCH = 500_000_000, 1_000_000_000, 50_000_000

Recomputation = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How the states and activations of a run are placed on a rank.

    weight_bytes, gradient_bytes, optimizer_bytes: per parameter, before ZeRO divides them; master
        weights count with the optimizer.
    gradient_copy_bytes: of copies of the gradients that stay from step to step.
    step_bytes: further bytes per parameter while the optimizer steps.
    activation_bytes: of an element of an activation.
    zero_stage: 1 divides the optimizer states over the data-parallel ranks, 2 the gradients too,
        3 the weights too. None or 0: nothing. Megatron's distributed optimizer is 1.
    recomputation: of activations; None if not known.
    checkpoint_num_layers: layers between two checkpoints under full recomputation.
    virtual_stages: the number of parts of a pipeline stage in an interleaved schedule, else 1.
    fused_attention: True if no matrix of attention scores is kept; None if unknown.
    fused_since: the compute capability from which on attention is fused; None if on all GPUs.
    bucket_elements: the size of each buffer through which gradients are reduced. buckets: how many
        there are.
    live_elements: the most weights that ZeRO-3 keeps gathered.
    may_save: whether options make the program keep less by an unknown amount; then the low end
        of a rank's need is unknown.
    may_hold_more: whether the model has parts of unknown size; then the forecast never says that a
        run fits.
    experts: mixtures of experts in place of the MLPs, or None.
    """

    weight_bytes: Range
    gradient_bytes: Range
    gradient_copy_bytes: Range = (0, 0)
    optimizer_bytes: Range
    step_bytes: Range = (0, 0)
    activation_bytes: int
    zero_stage: int | None = None
    offload_optimizer: bool = False
    offload_parameters: bool = False
    recomputation: Recomputation | None = "none"
    checkpoint_num_layers: int = 1
    virtual_stages: int = 1
    checkpoints_in_cpu: bool = False
    partition_activations: bool = False
    sequence_parallel: bool = False
    fused_attention: bool | None = None
    fused_since: tuple[int, int] | None = None
    bucket_elements: int = 0
    buckets: Range = (0, 0)
    live_elements: int = 0
    may_save: bool = False
    may_hold_more: bool = False
    experts: ExpertPlacement | None = None


def recomputation(activation_checkpointing: bool) -> Recomputation:
    """Return the recomputation mode for `activation_checkpointing`: whole layers, or none."""
    return "full" if activation_checkpointing else "none"


def ddp_placement(precision: str) -> Placement:
    """Return the states of torch's DDP with AdamW, under autocast for lower precision.

    Weights, gradients, momentum and variance are fp32, 4 bytes each. DDP copies gradients into
    buckets of the same size (`gradient_as_bucket_view` is False by default). Autocast casts each
    weight once and keeps the result, 2 bytes, for the backward pass. AdamW's `foreach` form, the
    default on GPUs, needs one more copy while it steps (torch.optim's documentation).
    """
    lower = precision != "fp32"
    return Placement(
        weight_bytes=(4, 6 if lower else 4),
        gradient_bytes=(4, 4),
        gradient_copy_bytes=(4, 4),
        optimizer_bytes=(8, 8),
        step_bytes=(0, 4),
        activation_bytes=2 if lower else 4,
    )


def deepspeed_placement(precision: str, zero_stage: int) -> Placement:
    """Return the states of DeepSpeed with AdamW.

    Mixed precision is that of the ZeRO paper (arXiv 1910.02054, section 3.1): 2 bytes for the
    weight, 2 for the gradient, 12 for master weight, momentum and variance. ZeRO keeps a master
    copy in fp32 too. Stage 0 in mixed precision makes fp32 copies of all gradients, and flattens
    them, at each step.

    Buckets and gathered weights have DeepSpeed's defaults (runtime/zero/config.py of 0.19).
    Gradients go through one bucket, or through two if communication overlaps, as it does in stage
    3. Older versions had no bucket in stage 1.
    """
    if zero_stage == 0 and precision == "fp32":
        return _states(4, (4, 4), (8, 8), (0, 4), 0)
    if zero_stage == 0:
        return _states(2, (2, 2), (12, 12), (4, 10), 0)
    states = (
        _states(4, (4, 4), (12, 12), (0, 8), zero_stage)
        if precision == "fp32"
        else _states(2, (2, 2), (12, 12), (0, 10), zero_stage)
    )
    return replace(
        states,
        bucket_elements=ZERO_BUCKET,
        buckets=(float(zero_stage > 1), 2.0 if zero_stage == 3 else 1.0),
        live_elements=ZERO_LIVE + ZERO_PREFETCH,
    )


def bf16_optimizer_placement(zero_stage: int, *, sure: bool) -> Placement:
    """Return the states of DeepSpeed's BF16_Optimizer.

    sure: whether this optimizer is certainly used. It adds up gradients in fp32 for all parameters
    of a rank: 4 bytes in addition to the 2 of the bf16 gradients, which it may free at once. It
    divides master weights, momentum and variance over the data-parallel ranks, in stage 0 too
    (runtime/bf16_optimizer.py). Whether it is used for a bf16 model in stages 0 and 1 depends on
    the version and on `data_types.grad_accum_dtype`. If `sure` is false, the low end is what ZeRO
    needs without it, and the high end covers both cases.
    """
    usual = deepspeed_placement("bf16", zero_stage)
    if sure:
        return replace(
            usual,
            gradient_bytes=(0, 2),
            gradient_copy_bytes=(4, 4),
            step_bytes=(0, usual.step_bytes[1]),
            zero_stage=1,
        )
    optimizer = usual.optimizer_bytes[1]
    return replace(
        usual,
        gradient_copy_bytes=(0, 4),
        # In stage 0 they may be divided.
        optimizer_bytes=(0 if zero_stage == 0 else optimizer, optimizer),
    )


def megatron_placement(precision: str) -> Placement:
    """Return the states of Megatron-LM with Adam, without ZeRO or a distributed optimizer.

    Weights take 2 bytes per parameter, master weights 4, momentum and variance 8. Gradients take 4
    bytes in a main buffer, which gives 18 bytes in all (theoretical_memory_usage.py of
    Megatron-LM). Or they take 2 bytes, with an fp32 copy of 4 that stays (20 in all), and 2 more
    during the backward pass. Logs of 2021 show the latter, at rest and at the peak.
    """
    if precision == "fp32":
        return _states(4, (4, 4), (8, 8), (0, 4), None)
    return replace(_states(2, (0, 4), (12, 12), (0, 4), None), gradient_copy_bytes=(4, 4))


def _states(
    weight: int, gradient: Range, optimizer: Range, step: Range, zero_stage: int | None
) -> Placement:
    return Placement(
        weight_bytes=(weight, weight),
        gradient_bytes=gradient,
        optimizer_bytes=optimizer,
        step_bytes=step,
        activation_bytes=weight,
        zero_stage=zero_stage,
    )
