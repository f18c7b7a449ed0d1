"""Count the parameters and the activations of a rank, for a described model.

Layers may be of any kind. Matrices are split over tensor-parallel ranks, except routers and the
matrices that produce the latent vectors of attention. Vectors (norms, biases) are whole on each
rank.
"""

from dataclasses import replace

from orchestrator.memory.experts import ExpertPlacement, stage_slice
from orchestrator.model.description import (
    Attention,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    Model,
)
from orchestrator.model.parts import ModelPart, parts
from orchestrator.run.model import Parallelism

_WHOLE = frozenset({"router", "query down", "key-value down", "shared expert score"})
_ROUTED = "expert "


def stage_of(model: Model, parallelism: Parallelism, stage: int) -> Model:
    """Return a model with only the layers of one pipeline stage.

    If the stages do not divide the layers evenly, the result has as many layers as the fullest
    stage.
    """
    held = model.layers[stage_slice(model.num_layers, parallelism, stage)]
    is_last = stage == parallelism.pipeline_parallel_size - 1
    return replace(model, layers=held, prediction_heads=model.prediction_heads if is_last else ())


def dense_parameters(model: Model, parallelism: Parallelism, stage: int) -> int:
    """Return how many parameters a rank has before ZeRO, not counting routed experts."""
    tensor, last = parallelism.tensor_parallel_size, parallelism.pipeline_parallel_size - 1
    held = stage_of(model, parallelism, stage)
    total = 0
    for part in parts(held):
        if part.name.startswith(_ROUTED) or not _is_on(part, stage, last):
            continue
        is_split = part.kind in ("matrix", "table") and part.name not in _WHOLE
        total += -(-part.parameters // tensor) if is_split else part.parameters
    if model.tied_head and stage == last > 0:
        # The last stage has a copy of the embedding.
        total += -(-model.vocab_size * (model.embedding_size or model.hidden_size) // tensor)
    return total


def routed_parameters(
    model: Model, parallelism: Parallelism, stage: int, experts: ExpertPlacement
) -> int:
    """Return how many parameters a rank's routed experts have, before ZeRO divides them."""
    held = stage_of(model, parallelism, stage)
    routed = sum(part.parameters for part in parts(held) if part.name.startswith(_ROUTED))
    return routed // (experts.ranks * experts.tensor_ranks)


def placed_experts(model: Model, *, ranks: int, tensor_ranks: int) -> ExpertPlacement | None:
    """Return how a described model's experts are divided over ranks; None without experts.

    ranks: over how many ranks the experts are divided. tensor_ranks: over how many ranks each
    expert is split.
    """
    some = model.experts
    if some is None:
        return None
    return ExpertPlacement(
        number=some.number,
        top_k=some.top_k,
        width=some.width,
        layers=tuple(isinstance(layer.mlp, Experts) for layer in model.layers),
        shared_width=some.shared_width or 0,
        ranks=ranks,
        tensor_ranks=tensor_ranks,
    )


def has_unusual_layers(model: Model) -> bool:
    """Return whether a layer has a mixer other than plain attention, e.g. Mamba-2.

    How many activations such a mixer keeps depends on its kernels, so a rank may need more than the
    forecast.
    """
    mixers = (layer.mixer for layer in (*model.layers, *model.prediction_heads))
    return any(not isinstance(mixer, Attention | None) for mixer in mixers)


def kept_per_token(layers: tuple[Layer, ...], hidden_size: int) -> tuple[float, float, float]:
    """Return how many elements per token a layer keeps for its backward pass, as three numbers.

    Each number is the mean over `layers`.

    - The inputs and outputs of norms, which are whole on each rank unless sequences are split.
    - The least number of other elements, which tensor parallelism splits.
    - The most of these other elements.
    """
    norms = sum(2 * layer.norms for layer in layers) * hidden_size
    mixers = [_of_mixer(layer.mixer) for layer in layers]
    mlps = [_of_mlp(layer.mlp, hidden_size) for layer in layers]
    least, most = (sum(each[end] for each in (*mixers, *mlps)) for end in (0, 1))
    count = len(layers)
    return norms / count, least / count, most / count


def _of_mixer(mixer: Mixer | None) -> tuple[float, float]:
    """Return the least and the most elements per token that a mixer keeps for its backward pass.

    These are the inputs and outputs of the mixer's matrix products. The most also includes copies
    that some kernels make.
    """
    match mixer:
        case Attention():
            queries, keys = mixer.heads * mixer.head_size, mixer.key_value_heads * mixer.head_size
            gate = queries if mixer.output_gate else 0
            kept = 2 * queries + 2 * keys + gate
            normed = 0 if mixer.query_key_norm == "none" else queries + keys
            return kept, kept + normed + gate
        case LatentAttention():
            size = mixer.nope_size + mixer.rope_size
            latent = mixer.key_value_rank + mixer.rope_size + (mixer.query_rank or 0)
            queries, values = mixer.heads * size, mixer.heads * mixer.value_size
            return latent + queries + values, 2 * latent + 4 * queries + 3 * values
        case Mamba2():
            inner = mixer.heads * mixer.head_size
            projected = 2 * inner + 2 * mixer.groups * mixer.state_size + mixer.heads
            return projected + inner, 3 * (projected + inner)
        case GatedDeltaNet():
            keys, values = mixer.key_heads * mixer.key_size, mixer.value_heads * mixer.value_size
            return 2 * keys + 3 * values, 3 * (2 * keys + 3 * values)
        case None:
            return 0.0, 0.0


def _of_mlp(mlp: Mlp | Experts | None, hidden_size: int) -> tuple[float, float]:
    """Return the least and the most elements per token that an MLP or experts keep.

    The elements are kept for the backward pass. For experts, the numbers include the copies of
    tokens that are sent to experts. A rank whose experts get more tokens than others keeps up to
    twice as much.
    """
    if mlp is None:
        return 0.0, 0.0
    low, high = (3, 4) if mlp.gated else (2, 2)
    if isinstance(mlp, Mlp):
        return low * mlp.width, high * mlp.width
    width = mlp.top_k * mlp.width + (mlp.shared_width or 0)
    sent = mlp.top_k * (mlp.latent_size or hidden_size)
    return low * width + sent, 2 * (high * width + 4 * sent)


def _is_on(part: ModelPart, stage: int, last: int) -> bool:
    match part.place:
        case "embedding":
            return stage == 0
        case "head" | "prediction heads":
            return stage == last
        case _:
            return True
