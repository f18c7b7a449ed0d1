"""Forecast the memory of a rank before a run starts: an interval, with its parts.

The low end is the memory that tensors certainly need. The high end includes memory that
frameworks were observed to use in addition. docs/background/memory-accuracy.md measures how
accurate the interval is. GiB is 2**30 bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.memory import activations, states
from orchestrator.memory.placement import Placement
from orchestrator.memory.states import Rank, Size, added, beyond
from orchestrator.run.model import Run

GIB = 2**30

# With a GPU: CUDA's context, the libraries' kernels and NCCL's buffers. Without a GPU: Python,
# torch and its libraries; the ranks of this project's demo log these numbers.
_GPU_CONTEXT_GIB = (0.4, 2.0)
_CPU_CONTEXT_GIB = (0.3, 0.6)
# Memory that the allocator reserves in addition to the tensors: in the logs of 2021, at the peak,
# 8 to 22 % of the allocated memory. The low end is 0, because the allocator frees unused memory
# before it raises an out-of-memory error.
_ALLOCATOR_SHARE = 0.2

# The parts that are not tensors: torch's `max_memory_allocated` does not count them.
_NO_TENSORS = ("allocator", "context")


@dataclass(frozen=True, slots=True)
class Part:
    """One use of memory, e.g. the weights: from `low_gib` to `high_gib`.

    why: how the two numbers are derived.
    """

    name: str
    low_gib: float
    high_gib: float
    why: str


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """The memory of the rank that needs the most: an interval, and its parts.

    The low end of the interval is the sum of the parts' low ends; the high end is the sum of their
    high ends. is_open: whether the rank may need more than the high end, because the model has
    parts of unknown size.
    """

    parts: tuple[Part, ...]
    low_gib: float
    high_gib: float
    is_open: bool = False

    @property
    def middle_gib(self) -> float:
        """The mean of the low end and the high end."""
        return (self.low_gib + self.high_gib) / 2

    @property
    def tensors(self) -> "MemoryForecast":
        """The forecast of the memory that torch allocates for tensors.

        It leaves out unused memory in torch's allocator, and all other memory of the process.
        Programs log the peak of the memory for tensors.
        """
        return _forecast(part for part in self.parts if part.name not in _NO_TENSORS)


def forecast(run: Run, placement: Placement, *, gpu: bool = True) -> MemoryForecast | None:
    """Return the memory of the rank that needs the most; None if it cannot be computed.

    gpu: whether ranks have GPUs; if not, the forecast is for the memory of a process on the host.

    The first pipeline stage keeps the most activations, and the last stage has the logits. The
    result is the forecast of the stage that needs more. If `placement.may_save` is true, only the
    high end is known. The forecast cannot be computed if the model's shape is unknown, or if the
    ranks do not form whole copies of the model.
    """
    if run.model is None or run.padded_vocab_size is None or run.data_parallel_size is None:
        return None
    placement = _of_description(placement, run)
    if not gpu:
        placement = _in_host(placement, run.model.parameters(run.padded_vocab_size))
    ends = sorted({0, run.parallelism.pipeline_parallel_size - 1})
    stages = [Rank(run, run.model, run.padded_vocab_size, placement, stage) for stage in ends]
    tensors = max(
        (_forecast(_parts(rank)) for rank in stages),
        key=lambda rank_forecast: rank_forecast.middle_gib,
    )
    if placement.may_save:
        tensors = _forecast(replace(part, low_gib=0.0) for part in tensors.parts)
    context = (
        Part("context", *_GPU_CONTEXT_GIB, "CUDA, the libraries' kernels, NCCL's buffers")
        if gpu
        else Part("context", *_CPU_CONTEXT_GIB, "Python, torch and its libraries")
    )
    spare = _ALLOCATOR_SHARE * tensors.high_gib
    share = f"cached and fragmented memory: up to {_ALLOCATOR_SHARE:.0%} of the tensors"
    whole = _forecast((*tensors.parts, Part("allocator", 0.0, spare, share), context))
    return replace(whole, is_open=placement.may_hold_more)


def _of_description(placement: Placement, run: Run) -> Placement:
    """Return the placement, with facts from the description of the run's model.

    These facts are the model's experts, and whether some layers keep an unknown amount of
    activations. If the model has no description, the placement is returned unchanged.
    """
    model = run.model.described if run.model is not None else None
    if model is None:
        return placement
    from orchestrator.memory.described import has_unusual_layers, placed_experts

    tensor = run.parallelism.tensor_parallel_size
    return replace(
        placement,
        experts=placement.experts or placed_experts(model, ranks=1, tensor_ranks=tensor),
        may_hold_more=placement.may_hold_more or has_unusual_layers(model),
    )


def _in_host(placement: Placement, parameters: int) -> Placement:
    """Return the placement for a rank without a GPU.

    Nothing is offloaded, because all tensors are in the host's memory already.

    parameters: the number of parameters of the model. A buffer for gradients is counted with
    at most this many elements, because the operating system provides memory only for elements that
    are used.
    """
    return replace(
        placement,
        offload_optimizer=False,
        offload_parameters=False,
        checkpoints_in_cpu=False,
        bucket_elements=min(placement.bucket_elements, parameters),
    )


def _parts(rank: Rank) -> Iterable[Part]:
    """Yield the uses of memory by tensors, for the moment when a rank's memory is at its peak.

    The peak may be in the backward pass (at the logits, or at one layer) or in the optimizer's
    step. Memory that is needed at different moments must not be added. So only these
    differences are added, if they are above 0:

    - the logits minus the memory of one layer;
    - the memory of the optimizer's step minus the activations.

    With a single micro-batch, gradients are created while activations are freed. So the low end
    of the gradients is also reduced by the activations.
    """
    kept, work = activations.kept(rank), activations.layer_work(rank)
    logits, logits_why = activations.logits(rank)
    logits_beyond = beyond(logits, work[0])
    passes = added(kept[0], work[0], logits_beyond)
    gradients, gradients_why = states.gradients(rank)
    if (rank.run.num_microbatches or 1) == 1:
        # Gradients are created as the activations are freed.
        gradients = (max(0.0, gradients[0] - passes[0]), gradients[1])
    step, step_why = states.step(rank)
    parts: dict[str, Size] = {
        "weights": states.weights(rank),
        "gathered weights": states.gathered_weights(rank),
        "gradients": (gradients, gradients_why),
        "gradient copies": states.gradient_copies(rank),
        "optimizer": states.optimizer(rank),
        "buckets": states.buckets(rank),
        "activations": kept,
        "one layer": work,
        "logits": (logits_beyond, f"{logits_why}; minus the memory of one layer"),
        "optimizer step": (
            beyond(step, passes),
            f"{step_why}; minus the memory of the activations",
        ),
    }
    for name, ((low, high), why) in parts.items():
        if high:
            yield Part(name, low / GIB, high / GIB, why)


def _forecast(parts: Iterable[Part]) -> MemoryForecast:
    parts = tuple(parts)
    return MemoryForecast(
        parts, sum(part.low_gib for part in parts), sum(part.high_gib for part in parts)
    )
