"""Forecast the memory of activations, and of other tensors that a backward pass needs.

Letters in this module:

- b = micro_batch_size, s = seq_length, t = tensor_parallel_size;
- h = hidden_size, f = width of the MLP, k = width of all keys (and of all values);
- a = attention heads, V = padded vocabulary.

The hidden states of a micro-batch have sbh elements. If context_parallel_size divides sequences, s
is a rank's part of a sequence, and s² is this part times the whole sequence.
"""

from typing import TYPE_CHECKING

from orchestrator.memory.placement import Range
from orchestrator.memory.states import NOTHING, Rank, Size, added, numbers, scaled

# Most models have only sizes. A forecast of these need not import the description of models.
if TYPE_CHECKING:
    from orchestrator.model.description import Model


def kept(rank: Rank) -> Size:
    """Return the memory of activations kept for backward passes that have not run yet.

    Full recomputation keeps only the input of each layer, or of every
    `checkpoint_num_layers`-th layer (Korthikanti et al. 2022, section 5). An input has b·s·h
    elements: micro-batch size, sequence length and hidden size. If these inputs are offloaded
    to the host, up to two of them are still on the GPU: one that is being copied to the host, and
    one that is being copied back. With a pipeline, the high end also includes the output
    of the rank's stage.
    """
    placement, layers = rank.placement, rank.layers
    layer, scores = _layer_activations(rank), _scores(rank)
    split = placement.partition_activations or placement.sequence_parallel
    checkpoint = _hidden(rank) / (rank.tensor_parallel_size if split else 1)
    count = -(-layers // placement.checkpoint_num_layers)
    all_checkpoints: Range = (count * checkpoint, count * checkpoint)
    match placement.recomputation:
        case "none":
            sizes, what = scaled(layer, layers), f"all activations of {layers} layers"
        case "selective":
            least, most = (whole - part for whole, part in zip(layer, scores, strict=True))
            sizes, what = (
                scaled((least, most), layers),
                f"{layers} layers without their attention scores",
            )
        case "full" if placement.checkpoints_in_cpu:
            sizes, what = (
                (0.0, 2 * checkpoint),
                f"2 of {count} checkpoints; others are in the host's memory",
            )
        case "full":
            sizes, what = all_checkpoints, f"{count} checkpoints"
        case None:
            sizes = (all_checkpoints[0], layers * layer[1])
            what = f"from {count} checkpoints to all activations of {layers} layers"
    flight = _in_flight(rank)
    chunks = rank.placement.virtual_stages
    output = chunks * _hidden(rank) if rank.run.parallelism.pipeline_parallel_size > 1 else 0
    ends = (flight[0] * sizes[0], flight[1] * (sizes[1] + output))
    return ends, f"{what}; micro-batches in flight: {numbers(flight)}"


def layer_work(rank: Rank) -> Size:
    """Return the memory that the backward pass uses at one moment, besides kept activations.

    The backward pass works on one layer at a time. Under full recomputation, it works on all
    layers between two checkpoints. The memory contains:

    - the recomputed activations of these layers;
    - the gradients of activations. They have 2 to 8 times as many elements as the hidden
      states: the gradients of the values before, inside and after the MLP.
    """
    flow = _hidden(rank) / (rank.tensor_parallel_size if rank.placement.sequence_parallel else 1)
    layer, scores = _layer_activations(rank), _scores(rank)
    made_anew = {
        "none": NOTHING,
        "selective": scores,
        "full": scaled(layer, rank.placement.checkpoint_num_layers),
        None: (0.0, layer[1]),
    }[rank.placement.recomputation]
    what = "recomputed activations and gradients" if made_anew[1] else "gradients of activations"
    return added(made_anew, (2 * flow, 8 * flow)), what


def logits(rank: Rank) -> Size:
    """Return the memory of the logits, their softmax and their gradient.

    Each has s·b·V/t elements: sequence length, micro-batch size and padded vocabulary, divided
    by the tensor-parallel size. The low end has all three in the precision of activations. The
    high end has the logits in this precision, and three tensors of the same shape in fp32. Only
    the last pipeline stage has logits.
    """
    if not rank.is_last:
        return NOTHING, ""
    elements = int(rank.tokens * rank.padded_vocab_size / rank.tensor_parallel_size)
    each = rank.placement.activation_bytes
    return scaled(
        (3 * each, each + 12), elements
    ), f"logits, softmax, gradient: {elements:,} elements each"


def _hidden(rank: Rank) -> float:
    """Return the size in bytes of the hidden states of a micro-batch.

    They have s·b·h elements: sequence length, micro-batch size and hidden size.
    """
    return rank.tokens * rank.model.hidden_size * rank.placement.activation_bytes


def _layer_activations(rank: Rank) -> Range:
    """Return the bytes that a layer keeps for its backward pass.

    The formulas are equations 1 and 2 of Korthikanti et al. 2022 (arXiv 2205.05198), for any
    width and element size. The letters are s = sequence length, b = micro-batch size,
    t = tensor-parallel size, h = hidden size, f = width of the MLP, k = width of all keys (and of
    all values), a = attention heads.

    - Each rank keeps the inputs of two norms, of attention and of the MLP, which are 4sbh
      elements together. At the high end, it also keeps 2sbh bytes of dropout masks. Sequence
      parallelism divides these sizes by t.
    - t always divides 2sbh elements of queries and of the attention's output, 2sbk of keys and
      values, 2sbf of the MLP's inner values (3sbf to 4sbf if the MLP is gated), and the scores.

    With f = 4h, k = h and 2 bytes per element, the high end is sbh(10 + 24/t + 5as/(ht)) bytes.
    """
    if rank.described is not None:
        return _described_activations(rank, rank.described)
    model, t = rank.model, rank.tensor_parallel_size
    h, scores = model.hidden_size, _scores(rank)
    whole = t if rank.placement.sequence_parallel else 1
    masks = 2 * _hidden(rank) / rank.placement.activation_bytes / whole
    attention = 2 + 2 * model.key_value_width / h
    each = 4 / whole
    least, most = (_hidden(rank) * (each + (attention + mlp) / t) for mlp in _mlp_activations(rank))
    return added((least, most + masks), scores)


def _described_activations(rank: Rank, model: "Model") -> Range:
    """Return the bytes that a layer of a described model keeps for its backward pass.

    The layers may differ: the result is the mean over the layers of the rank's pipeline stage.
    """
    from orchestrator.memory.described import kept_per_token, stage_of

    t, each = rank.tensor_parallel_size, rank.placement.activation_bytes
    held = stage_of(model, rank.run.parallelism, rank.stage)
    norms, least, most = kept_per_token(held.layers, model.hidden_size)
    whole = norms / (t if rank.placement.sequence_parallel else 1)
    low, high = (rank.tokens * each * (whole + split / t) for split in (least, most))
    return added((low, high), _scores(rank))


def _mlp_activations(rank: Rank) -> Range:
    """Return what an MLP or experts keep for the backward pass, in multiples of the hidden states.

    An MLP of width f keeps 2f/h, or 3f/h to 4f/h if it is gated; h is the hidden size. The
    formula is the same for experts, but there f is the width of all experts that a token uses.
    Experts also keep copies of each token: 1 to 4 per expert that the token uses (top_k
    experts). A rank whose experts get more tokens than others keeps up to twice as much.
    """
    model, experts = rank.model, rank.placement.experts
    each: Range = (3, 4) if model.gated_mlp else (2, 2)
    dense = scaled(each, model.ffn_width / model.hidden_size)
    if experts is None or not rank.expert_layers:
        return dense
    least, most = scaled(each, experts.active_width() / model.hidden_size)
    least, most = least + experts.top_k, 2 * (most + 4 * experts.top_k)
    if rank.expert_layers == rank.layers:
        return least, most
    return min(dense[0], least), max(dense[1], most)


def _scores(rank: Rank) -> Range:
    """Return the bytes of a layer's attention scores: softmax, and the dropout's output and mask.

    The softmax and the output have as²b elements each, and the mask has as²b bytes. Here a is
    the number of attention heads, s the sequence length and b the micro-batch size. These sizes
    are divided by the tensor-parallel size. If context parallelism divides sequences, s² is the
    rank's part of a sequence times the whole sequence.

    A fused kernel keeps neither softmax, output nor mask. If it is not known whether the kernel
    is fused, the low end is 0.
    """
    elements = rank.tokens * rank.model.seq_length * rank.model.num_attention_heads
    size = elements * (2 * rank.placement.activation_bytes + 1) / rank.tensor_parallel_size
    fused = rank.placement.fused_attention
    return (size if fused is False else 0.0, 0.0 if fused else size)


def _in_flight(rank: Rank) -> Range:
    """Return how many micro-batches have activations in memory when memory is at its peak.

    These micro-batches wait for their backward pass. In the 1F1B schedule (Narayanan et al.
    2021), stage i of p (i from 0) begins with p - i forward passes. It begins with fewer if
    there are fewer micro-batches.

    In the interleaved schedule with v chunks per stage, the stage begins with
    2(p - i - 1) + (v - 1)p + 1 forward passes. Each of these passes is through only one chunk,
    so the number is divided by v, and the result may be a fraction. Source: section 2.2 of the
    paper, and forward_backward_pipelining_with_interleaving of Megatron core.

    The result is an interval. With m micro-batches, its low end is not above m - 1, unless m is 1.
    The reason: memory is at its peak only when all gradients exist, so after the first backward
    pass. That pass has freed the activations of one micro-batch. If m is small, no further
    micro-batch has started by then. Logs of 2021 show this: with 4 micro-batches, the stages
    that begin with 3 and with 4 forward passes have the same peak.
    """
    count = rank.run.num_microbatches or 1
    stages, chunks = rank.run.parallelism.pipeline_parallel_size, rank.placement.virtual_stages
    waiting: float = stages - rank.stage
    if chunks > 1:
        waiting = (2 * (waiting - 1) + (chunks - 1) * stages + 1) / chunks
    return min(waiting, max(1, count - 1)), min(waiting, count)
