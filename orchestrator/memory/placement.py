"""Describe how a framework places weights, gradients, optimizer states and activations on ranks.

Most values are pairs, the smallest and the largest number that is possible, because versions of a
framework differ. So a forecast is an interval, too.
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

    weight_bytes, gradient_bytes, optimizer_bytes: bytes per parameter, before ZeRO divides them;
        master weights count with the optimizer.
    gradient_copy_bytes: bytes per parameter of gradient copies that stay in memory between steps.
    step_bytes: further bytes per parameter while the optimizer steps.
    activation_bytes: bytes per element of an activation.
    zero_stage: 1 divides the optimizer states over the data-parallel ranks, 2 the gradients too,
        3 the weights too. None or 0: nothing. Megatron's distributed optimizer counts as 1.
    recomputation: which activations are recomputed; None if not known.
    checkpoint_num_layers: layers between two checkpoints under full recomputation.
    virtual_stages: the number of chunks of a pipeline stage; 1 if stages are not interleaved.
    fused_attention: True if no matrix of attention scores is kept; None if unknown.
    fused_since: the lowest compute capability with fused attention; None if all GPUs have it.
    bucket_elements: the number of elements of each buffer through which gradients are reduced.
    buckets: the least and the most number of these buffers.
    live_elements: the most elements of weights that ZeRO-3 keeps gathered.
    may_save: whether options reduce the memory by an unknown amount; then the low end of the
        forecast is 0 for all tensors.
    may_hold_more: whether the model has parts of unknown size; then the verdict of a forecast is
        never `yes`.
    experts: the experts that some layers have in place of an MLP; None without experts.
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
    """Return the recomputation mode: "full" with activation checkpointing, otherwise "none"."""
    return "full" if activation_checkpointing else "none"


def ddp_placement(precision: str) -> Placement:
    """Return the placement of states by torch's DDP with AdamW, and with autocast except in fp32.

    Weights, gradients, momentum and variance are fp32, 4 bytes per parameter each. DDP copies
    gradients into buckets, which need as much memory as the gradients (`gradient_as_bucket_view` is
    False by default). Autocast casts each weight once and keeps the result, 2 bytes, for the
    backward pass. AdamW's `foreach` form, the default on GPUs, needs one more copy of the
    parameters while it steps (torch.optim's documentation).
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
    """Return the placement of states by DeepSpeed with AdamW.

    In mixed precision, the bytes per parameter are those of the ZeRO paper (arXiv 1910.02054,
    section 3.1): 2 for the weight, 2 for the gradient, 12 for master weight, momentum and variance.
    In fp32, ZeRO keeps a master copy of the weights as well. In mixed precision, stage 0 makes fp32
    copies of all gradients at each step, and joins them in one flat tensor.

    Buckets and gathered weights have DeepSpeed's defaults (runtime/zero/config.py of 0.19).
    Gradients go through one bucket, or through two if communication overlaps with computation, as
    it does in stage 3. Older versions had no bucket in stage 1.
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
    """Return the placement of states by DeepSpeed's BF16_Optimizer.

    This optimizer adds up gradients in fp32 for all parameters of a rank, 4 bytes each. The bf16
    gradients take 2 bytes in addition, but may be freed at once. Master weights, momentum and
    variance are divided over the data-parallel ranks, even in stage 0 (runtime/bf16_optimizer.py).

    sure: whether DeepSpeed certainly uses this optimizer. For a bf16 model in stages 0 and 1, this
    depends on DeepSpeed's version and on `data_types.grad_accum_dtype`. If `sure` is false, the
    result covers both cases, with and without this optimizer.
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
        # If DeepSpeed uses this optimizer, they are divided even in stage 0.
        optimizer_bytes=(0 if zero_stage == 0 else optimizer, optimizer),
    )


def megatron_placement(precision: str) -> Placement:
    """Return the placement of states by Megatron-LM with Adam, without a distributed optimizer.

    In mixed precision, weights take 2 bytes per parameter, master weights 4, and momentum and
    variance 8. For gradients, the result covers two cases:

    - theoretical_memory_usage.py of Megatron-LM counts 4 bytes in a main buffer, so 18 bytes in
      all.
    - In logs of 2021, gradients take 2 bytes, and an fp32 copy, which stays in memory, takes 4.
      That is 20 bytes in all. During the backward pass, 2 more bytes are needed.
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
