"""Count the FLOPs of an iteration by other programs' conventions, and explain the differences.

A convention is a program's way to count. It is described by rules. A rule is a function that gets a
model and one of its parts. It yields differences: the forward FLOPs that the program counts for the
part, minus those of the exact count. Each difference has a reason. The exact count plus all
differences is the program's count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from orchestrator.model.convention_names import CONVENTIONS, Convention
from orchestrator.model.counting import Keys, causal_pairs, count_flops, repetitions
from orchestrator.model.description import (
    Attention,
    GatedDeltaNet,
    Mamba2,
    Mlp,
    Model,
    layer_counts,
)
from orchestrator.model.parts import ModelPart, parts

Deviation = tuple[str, int]
Rule = Callable[[Model, ModelPart], Iterable[Deviation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counting:
    """How a convention counts any model.

    rules: functions that yield how the convention's count of a part differs from the exact count,
        and why. Without rules, the convention's count is the exact count: hardware FLOPs if the
        convention counts recomputation, otherwise model FLOPs.
    all_recomputed: whether, with recomputation, the convention counts a second forward pass of all
        parts, even of the head.
    unsuited: a function that returns why the convention cannot count a model; None if it can.
    """

    rules: tuple[Rule, ...] = ()
    all_recomputed: bool = False
    unsuited: Callable[[Model], str | None] = lambda model: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConventionCount:
    """The FLOPs of an iteration by a convention, and why they differ from the exact FLOPs.

    exact: the exact hardware FLOPs if the convention counts recomputation; otherwise the exact
        model FLOPs.
    flops: the FLOPs by the convention; None if the convention cannot count the model.
    unsuited: why the convention cannot count the model, or None.
    deviations: the reasons for the difference, each with its FLOPs per iteration. Their sum is
        `flops - exact`.
    """

    convention: Convention
    exact: int
    flops: int | None
    deviations: tuple[Deviation, ...] = ()
    unsuited: str | None = None


def count_by_convention(
    convention: Convention, model: Model, *, sequences: int, recomputed: bool = False
) -> ConventionCount:
    """Return the FLOPs of an iteration over `sequences` sequences by the rules of `convention`.

    recomputed: whether the training uses activation checkpointing.
    """
    counted = count_flops(model, sequences=sequences, recomputed=recomputed)
    exact = counted.hardware if convention.counts_recomputation else counted.model
    counting = _COUNTING[convention.name]
    if (unsuited := counting.unsuited(model)) is not None:
        return ConventionCount(convention=convention, exact=exact, flops=None, unsuited=unsuited)
    again = recomputed and convention.counts_recomputation
    flops_by_reason = Counter[str]()
    for part in parts(model):
        for rule in counting.rules:
            for reason, forward in rule(model, part):
                passes = 4 if again and (counting.all_recomputed or _in_layers(part)) else 3
                flops_by_reason[reason] += passes * forward * sequences
    if counting.rules:
        for term in counted.terms:
            if not term.part.trained and term.part.kind != "product":
                flops_by_reason[_FROZEN] += term.forward
            if again and counting.all_recomputed and not term.recomputed:
                flops_by_reason[_HEAD_AGAIN] += term.forward
    deviations = tuple((reason, flops) for reason, flops in flops_by_reason.items() if flops)
    flops = exact + sum(flops for _, flops in deviations)
    return ConventionCount(convention=convention, exact=exact, flops=flops, deviations=deviations)


_FROZEN = "counts gradients of frozen weights"
_HEAD_AGAIN = "counts the head as recomputed"
_HALF = "counts half of all keys in attention: the causal part"
_NO_WINDOWS = "ignores attention windows"
_WINDOWS = "counts only those keys of an attention window that the causal mask leaves"
_VECTORS = "counts norms, biases and other vectors like matrices"
_SCANS = "leaves out the products of Mamba-2 scans and delta rules"
_SHARED_HEAD = "leaves out the shared output head that each prediction layer uses"


def _in_layers(part: ModelPart) -> bool:
    return part.place in {"layers", "prediction heads"} and part.name != "head"


def _forward(model: Model, part: ModelPart) -> int:
    """Return the exact FLOPs of a part in the forward pass of a sequence."""
    return 2 * repetitions(part, model.seq_length, "window") * part.multiplications


def _restricted(part: ModelPart) -> bool:
    return part.window is not None or part.chunk is not None


# Megatron core and Megatron-Bridge


def _half_of_the_keys(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if part.pairs:
        half = model.seq_length**2 * part.multiplications
        reason = f"{_NO_WINDOWS}, and counts half of all keys" if _restricted(part) else _HALF
        yield reason, half - _forward(model, part)


def _causal_windows(model: Model, part: ModelPart) -> Iterator[Deviation]:
    """Yield the difference from the exact FLOPs for programs that count attention causally.

    Without an attention window, such a program counts half of all pairs of a query and a key. With
    a window, it counts exactly the keys that each query sees.
    """
    if part.pairs and part.window is not None and part.window < model.seq_length:
        seen = 2 * causal_pairs(model.seq_length, part.window, None) * part.multiplications
        yield _WINDOWS, seen - _forward(model, part)
    else:
        yield from _half_of_the_keys(model, replace(part, window=None))


_LEFT_OUT_BY_MEGATRON = {
    "router": "leaves out routers",
    "shared expert score": "leaves out the gates of shared experts",
    "embedding projection": "leaves out the projection between embedding size and hidden size",
    "head projection": "leaves out the projection between embedding size and hidden size",
}
_NORMS_OF_MEGATRON = {
    "latent norms": "counts norms of latent vectors like matrices",
    "norms of prediction heads": "counts norms of prediction heads like matrices",
}


def _small_matrices(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if reason := _LEFT_OUT_BY_MEGATRON.get(part.name):
        yield reason, -_forward(model, part)
    if reason := _NORMS_OF_MEGATRON.get(part.name):
        (*_, (_, width)) = part.stored
        yield reason, 2 * model.seq_length * part.count * width


def megatron_mamba_flops(mixer: Mamba2, hidden_size: int) -> tuple[int, int]:
    """Return the forward FLOPs per token that Megatron counts for a Mamba-2 layer.

    The first number is for the projections: 2h(2d + 2gn + heads) + 2dh. The second is for the scan:
    7dn. Here h is the hidden size, g the number of groups, n the size of a state, and d the inner
    width. Megatron sets d to 2h, even if the layer has another inner width.
    """
    inner = 2 * hidden_size
    projected = 2 * inner + 2 * mixer.groups * mixer.state_size + mixer.heads
    return 2 * hidden_size * (projected + inner), 7 * inner * mixer.state_size


def _linear_mixers(model: Model, part: ModelPart) -> Iterator[Deviation]:
    """Yield the differences from the exact FLOPs in all Mamba-2 and gated delta net layers.

    Every rule is called once per part of a model. To count each layer only once, this rule yields
    all its differences when it is called for the token embedding, and nothing for other parts.
    """
    if part.name != "token embedding":
        return
    for layer, count in layer_counts((*model.layers, *model.prediction_heads)):
        exact = {
            part.name: _forward(model, part)
            for part in parts(replace(model, layers=(replace(layer, mlp=None),), adapters=None))
            if part.place == "layers"
        }
        scans = sum(flops for name, flops in exact.items() if name.startswith(("scan", "delta")))
        match layer.mixer:
            case Mamba2() as mixer:
                projections, scan = megatron_mamba_flops(mixer, model.hidden_size)
                yield (
                    "assumes that Mamba layers are twice as wide as the model",
                    count * (model.seq_length * projections - exact["input"] - exact["output"]),
                )
                yield "leaves out convolutions of Mamba layers", -count * exact["convolution"]
                yield (
                    "counts 7 operations per state in a scan",
                    count * (model.seq_length * scan - scans),
                )
            case GatedDeltaNet() as mixer:
                rule = 2 * model.seq_length * 4 * mixer.value_heads * mixer.value_size**2
                yield "counts 4 products per state in a delta rule", count * (rule - scans)


# torchtitan and PaLM


def _all_keys(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if part.pairs and _restricted(part):
        full = 2 * model.seq_length**2 * part.multiplications
        yield _NO_WINDOWS, full - _forward(model, part)


def _per_parameter(model: Model, part: ModelPart) -> Iterator[Deviation]:
    """Yield the differences from the exact FLOPs for programs that count active parameters.

    Such a program counts the products of attention, and a multiply-add per token for each active
    parameter except embeddings. So it counts norms and biases, too. Parameters of experts that a
    token does not use are not active.

    The program leaves out other products of activations, e.g. in Mamba-2. In a model with
    multi-token prediction, it counts the output head only once.
    """
    if part.kind == "vector":
        yield _VECTORS, 2 * model.seq_length * part.active_parameters
    elif part.kind == "product" and not part.pairs:
        yield _SCANS, -_forward(model, part)
    elif part.name == "head" and part.place == "prediction heads":
        yield _SHARED_HEAD, -_forward(model, part)


def _position_table_if_tied(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if model.tied_head and part.name == "position embedding":
        yield (
            "counts the position embedding as a matrix if the head is tied",
            2 * model.seq_length * part.parameters,
        )


# nanotron


def _unknown_to_nanotron(model: Model) -> str | None:
    simple = all(
        isinstance(layer.mixer, Attention) and isinstance(layer.mlp, Mlp) for layer in model.layers
    )
    if simple and not model.prediction_heads:
        return None
    return "it counts attention and a dense MLP in every layer, nothing else"


def _always_gated(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if part.name == "MLP up" and not model.gated_mlp:
        yield "counts every MLP as gated", _forward(model, part)


def _narrow_heads(model: Model, part: ModelPart) -> Iterator[Deviation]:
    """Yield the differences from the exact FLOPs for programs that do not read the width of a head.

    Such a program assumes that a head's width is the hidden size divided by the number of heads. It
    also leaves out the output gates of attention.
    """
    if part.place != "layers":
        return
    factors = dict(part.multiplied)
    if part.name in {"query", "output", "key", "value", "scores", "weighted values"}:
        actual = factors["head size"]
        taken = model.hidden_size // model.num_attention_heads
        keys: Keys = "full" if part.pairs else "window"
        forward = 2 * repetitions(part, model.seq_length, keys) * part.multiplications
        if taken != actual:
            yield (
                "assumes that a head's width is hidden size / heads",
                forward * taken // actual - forward,
            )
        if "with gate" in factors:
            yield "leaves out output gates", -forward * taken // actual // 2


def _embedding_projections(model: Model, part: ModelPart) -> Iterator[Deviation]:
    if part.name in {"embedding projection", "head projection"}:
        yield _LEFT_OUT_BY_MEGATRON[part.name], -_forward(model, part)


# BigScience and Narayanan et al.


def _every_parameter(model: Model, part: ModelPart) -> Iterator[Deviation]:
    """Yield the differences from the exact FLOPs for programs that count all parameters.

    Such a program counts a multiply-add per token and parameter, even for experts that the token
    does not use. It leaves out products of two activations, e.g. those of attention.
    """
    tokens = 2 * model.seq_length
    if part.kind == "product":
        yield "leaves out the products of attention and scans", -_forward(model, part)
    elif part.kind == "vector":
        yield _VECTORS, tokens * part.parameters
    elif part.kind == "table":
        yield "counts embeddings like matrices", tokens * part.parameters
    elif part.name == "head" and not part.stored:
        # A tied head is the token embedding, which is counted once.
        reason = "counts embeddings like matrices" if part.place == "head" else _SHARED_HEAD
        yield reason, -_forward(model, part)
    elif part.parameters != part.active_parameters:
        yield (
            "counts all experts, not only those that a token takes",
            tokens * (part.parameters - part.active_parameters),
        )


def _unlike_gpt2(model: Model) -> str | None:
    h = model.hidden_size
    for layer in model.layers:
        mixer, mlp = layer.mixer, layer.mlp
        if (
            not isinstance(mixer, Attention)
            or mixer.output_gate
            or not mixer.heads * mixer.head_size == mixer.key_value_heads * mixer.head_size == h
            or not isinstance(mlp, Mlp)
            or mlp.gated
            or mlp.width != 4 * h
        ):
            return f"it assumes {CONVENTIONS['narayanan'].assumes}"
    if model.prediction_heads or model.embedding_size is not None:
        return "it assumes one embedding and one head of the model's width"
    return None


_MEGATRON_RULES: tuple[Rule, ...] = (_small_matrices, _linear_mixers)

_COUNTING = {
    "model": _Counting(),
    "hardware": _Counting(),
    "narayanan": _Counting(rules=(_all_keys,), unsuited=_unlike_gpt2),
    "bigscience": _Counting(rules=(_every_parameter,), all_recomputed=True),
    "megatron-core": _Counting(rules=(_half_of_the_keys, *_MEGATRON_RULES)),
    "megatron-bridge": _Counting(rules=(_causal_windows, *_MEGATRON_RULES)),
    "torchtitan": _Counting(rules=(_all_keys, _per_parameter, _position_table_if_tied)),
    "nanotron": _Counting(
        rules=(_all_keys, _always_gated, _narrow_heads, _embedding_projections),
        unsuited=_unknown_to_nanotron,
    ),
    "palm": _Counting(rules=(_all_keys, _per_parameter)),
}
