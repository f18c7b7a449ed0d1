"""Forecast a rank's share of weights, gradients and optimizer states.

Functions return a `Size`: the least and the most bytes, and a text that explains the numbers.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.memory.placement import Placement, Range
from orchestrator.run.model import Parallelism, Run
from orchestrator.run.shape import ModelShape

# Most models have only sizes. A forecast of these need not import the description of models.
if TYPE_CHECKING:
    from orchestrator.model.description import Model

Size = tuple[Range, str]

NOTHING: Range = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank of pipeline stage `stage` (from 0) of a run whose model is known.

    placement: how the framework stores the model's weights, gradients, optimizer states and
    activations on its ranks.
    """

    run: Run
    model: ModelShape
    padded_vocab_size: int
    placement: Placement
    stage: int

    @property
    def tensor_parallel_size(self) -> int:
        """The number of ranks over which each layer is split."""
        return self.run.parallelism.tensor_parallel_size

    @property
    def tokens(self) -> float:
        """The number of tokens of a micro-batch on this rank.

        If context_parallel_size divides sequences, the rank has only a part of each sequence.
        """
        sequences = self.run.batch.micro_batch_size / self.run.parallelism.context_parallel_size
        return sequences * self.model.seq_length

    @property
    def is_last(self) -> bool:
        """Whether the rank belongs to the last pipeline stage, which has the output head."""
        return self.stage == self.run.parallelism.pipeline_parallel_size - 1

    @property
    def layers(self) -> int:
        """The number of layers on this rank: as many as on the fullest pipeline stage."""
        return stage_layers(self.model, self.run.parallelism)

    @property
    def described(self) -> "Model | None":
        """The model's description with the padded vocabulary; None if the model has only sizes."""
        description = self.model.described
        return (
            description.with_vocabulary(self.padded_vocab_size) if description is not None else None
        )

    @property
    def expert_layers(self) -> int:
        """How many layers of the rank have experts."""
        experts = self.placement.experts
        return experts.on_stage(self.run.parallelism, self.stage) if experts else 0

    @property
    def expert_parameters(self) -> int:
        """The number of parameters of the rank's routed experts, before ZeRO divides them."""
        experts = self.placement.experts
        if experts is None:
            return 0
        if self.described is not None:
            from orchestrator.memory.described import routed_parameters

            return routed_parameters(self.described, self.run.parallelism, self.stage, experts)
        return self.expert_layers * experts.rank_parameters(self.model)

    @property
    def parameters(self) -> int:
        """The number of the rank's parameters before ZeRO divides them, without routed experts."""
        held = rank_parameters(self.model, self.padded_vocab_size, self.run.parallelism, self.stage)
        experts = self.placement.experts
        if experts is None or self.described is not None:
            return held
        beyond_mlp = experts.beyond_mlp(self.model, self.tensor_parallel_size)
        return held + self.expert_layers * beyond_mlp

    @property
    def largest_matrix(self) -> int:
        """The number of elements of the rank's largest matrix, which ZeRO-3 gathers at once."""
        h = self.model.hidden_size
        embedding = self.padded_vocab_size if self.stage == 0 or self.is_last else 0
        return h * max(self.model.ffn_width, embedding, 3 * h) // self.tensor_parallel_size

    def shards(self, zero_stage: int) -> int:
        """Return over how many ranks ZeRO divides weights, gradients or optimizer states.

        zero_stage: the lowest stage that divides them: 1 for optimizer states, 2 for gradients, 3
        for weights. If the run has a lower stage, they are not divided, and the result is 1.
        """
        divided = (self.placement.zero_stage or 0) >= zero_stage
        # Context-parallel ranks have copies of the weights, just as data-parallel ranks do.
        copies = (self.run.data_parallel_size or 1) * self.run.parallelism.context_parallel_size
        return copies if divided else 1

    def expert_shards(self, zero_stage: int) -> int:
        """Return over how many ranks ZeRO divides the experts' states of one kind.

        zero_stage: the lowest stage that divides states of this kind: 1 for optimizer states, 2 for
        gradients, 3 for weights. If the run has a lower stage, or no experts, the result is 1.
        """
        experts, parallelism = self.placement.experts, self.run.parallelism
        if experts is None or (self.placement.zero_stage or 0) < zero_stage:
            return 1
        copies = (self.run.data_parallel_size or 1) * parallelism.context_parallel_size
        return experts.copies(copies * parallelism.tensor_parallel_size)


def rank_parameters(
    model: ModelShape, padded_vocab_size: int, parallelism: Parallelism, stage: int
) -> int:
    """Return how many parameters a rank of pipeline stage `stage` (from 0) has, before ZeRO.

    The letters are t = tensor-parallel ranks, p = pipeline stages, l = layers, h = hidden size and
    V = padded vocabulary.

    - In a layer, t divides all matrices, and the biases of query, key, value and of the MLP's first
      matrix. The other biases and the norms are whole on each rank.
    - The first stage has the token embedding (Vh/t) and the positions.
    - The last stage has the final norm and the head (Vh/t). A tied head is a copy of the embedding,
      and costs nothing if the last stage is also the first.
    - If p does not divide the l layers, the fullest stage has ceil(l/p) layers.

    For BigScience's 52B model with t = 4 and p = 16, the results are the numbers that
    Megatron-DeepSpeed logs: 917,757,952 on the first stage, and 805,560,320 on a middle stage. (On
    the last stage, Megatron-DeepSpeed has the positions, too, because it copies the whole embedding
    to this stage.)
    """
    if model.described is not None:
        from orchestrator.memory.described import dense_parameters

        whole_model = model.described.with_vocabulary(padded_vocab_size)
        return dense_parameters(whole_model, parallelism, stage)
    h, f, k = model.hidden_size, model.ffn_width, model.key_value_width
    t, last = parallelism.tensor_parallel_size, parallelism.pipeline_parallel_size - 1
    inner = 2 * f if model.gated_mlp else f
    split = 2 * h * h + 2 * h * k + h * inner + f * h
    split += 0 if model.biases == "none" else h + 2 * k
    split += inner if model.biases == "all" else 0
    norm = 2 * h if model.norm == "layernorm" else h
    whole = 2 * norm + (2 * h if model.biases == "all" else 0)
    embedding = -(-padded_vocab_size * h // t)
    held = stage_layers(model, parallelism) * (-(-split // t) + whole)
    if stage == 0:
        held += embedding + (model.seq_length * h if model.position_table else 0)
        held += norm if model.embedding_norm else 0
    if stage == last:
        held += norm + (embedding if model.untied_head or last else 0)
    return held


def stage_layers(model: ModelShape, parallelism: Parallelism) -> int:
    """Return how many layers the fullest pipeline stage has."""
    return -(-model.num_layers // parallelism.pipeline_parallel_size)


def weights(rank: Rank) -> Size:
    """Return the size of the weights that are always in memory."""
    if rank.placement.offload_parameters:
        return NOTHING, ""
    return _states(rank, rank.placement.weight_bytes, 3)


def gradients(rank: Rank) -> Size:
    """Return the size of a rank's gradients.

    If the optimizer is offloaded, the low end is 0: the gradients may be in the host's memory.
    """
    sizes, why = _states(rank, rank.placement.gradient_bytes, 2)
    if rank.placement.offload_optimizer:
        return (0.0, sizes[1]), f"{why}, or in the host's memory"
    return sizes, why


def gradient_copies(rank: Rank) -> Size:
    """Return the size of the gradient copies that stay in memory between steps."""
    return _states(rank, rank.placement.gradient_copy_bytes, 2)


def optimizer(rank: Rank) -> Size:
    """Return the size of the optimizer's states and master weights."""
    if rank.placement.offload_optimizer:
        return NOTHING, ""
    return _states(rank, rank.placement.optimizer_bytes, 1)


def step(rank: Rank) -> Size:
    """Return the memory that the optimizer needs only while it steps."""
    if rank.placement.offload_optimizer:
        return NOTHING, ""
    return _states(rank, rank.placement.step_bytes, 1)


def gathered_weights(rank: Rank) -> Size:
    """Return the size of the weights that ZeRO-3 has gathered from other ranks or from the host.

    The least is the rank's largest matrix. The most is the placement's `live_elements` (ZeRO-3's
    limit for gathered weights), but at most all weights of the rank. The size is above 0 only if
    ZeRO-3 divides the weights among ranks, or if the weights are offloaded.
    """
    if rank.shards(3) == 1 and not rank.placement.offload_parameters:
        return NOTHING, ""
    least = rank.largest_matrix
    most = min(rank.parameters + rank.expert_parameters, max(least, rank.placement.live_elements))
    each = rank.placement.weight_bytes[1]
    return scaled((least, most), each), f"{least:,} to {most:,} parameters"


def buckets(rank: Rank) -> Size:
    """Return the memory of the buffers (buckets) through which ranks add up their gradients.

    The most also includes one gradient that is not yet in a buffer.
    """
    placement, gradient = rank.placement, rank.largest_matrix
    each = placement.weight_bytes[0]
    low, high = scaled(placement.buckets, placement.bucket_elements * each)
    held = f"{numbers(placement.buckets)} buckets of {placement.bucket_elements:,} elements"
    return (low, high + gradient * each), f"{held}; one gradient of {gradient:,} elements"


def _states(rank: Rank, each: Range, zero_stage: int) -> Size:
    shards = rank.shards(zero_stage)
    over = f", divided over {shards} ranks" if shards > 1 else ""
    why = f"{rank.parameters:,} parameters of {numbers(each)} bytes{over}"
    held = rank.parameters / shards
    if rank.expert_parameters:
        shards = rank.expert_shards(zero_stage)
        over = f", divided over {shards} ranks" if shards > 1 else ""
        why = f"{why}; {rank.expert_parameters:,} parameters of experts{over}"
        held += rank.expert_parameters / shards
    return scaled(each, held), why


def scaled(sizes: Range, factor: float) -> Range:
    """Return an interval with both ends multiplied by `factor`."""
    return sizes[0] * factor, sizes[1] * factor


def added(*sizes: Range) -> Range:
    """Return the sum of intervals: the sum of their low ends, and the sum of their high ends."""
    return sum(size[0] for size in sizes), sum(size[1] for size in sizes)


def beyond(sizes: Range, others: Range) -> Range:
    """Return by how much the interval `sizes` exceeds the interval `others`.

    The new low end is the low end of `sizes` minus the low end of `others`. The new high end is
    the difference of the high ends. A difference below 0 becomes 0.
    """
    return max(0.0, sizes[0] - others[0]), max(0.0, sizes[1] - others[1])


def numbers(ends: Range) -> str:
    """Return an interval as text, e.g. `1 to 2`; only one number if both ends are equal."""
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
