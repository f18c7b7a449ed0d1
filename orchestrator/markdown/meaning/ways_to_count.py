"""Ways in which programs are known to count the FLOPs of a model.

A way states which attention keys count per query (see `Keys`), and how the program's count differs
from the model's description. Each difference is known from a program:

- Megatron core and Megatron-Bridge count causal attention: half of all pairs of query and key.
  PaLM's appendix B and torchtitan count all pairs;
- older versions of Megatron core and Megatron-Bridge counted only two matrices in gated experts,
  and ignored attention windows;
- Megatron core and Megatron-Bridge count Mamba with 7 operations per state, and with an inner width
  of twice the hidden size, even if the layer has another inner width;
- 6N, six FLOPs per parameter and token, counts no attention;
- some programs count the embedding as if it were a matrix product.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from orchestrator.model.conventions import megatron_mamba_flops
from orchestrator.model.counting import Keys, Term, count_flops, looked_up_parameters
from orchestrator.model.description import (
    Attention,
    Experts,
    Layer,
    Mamba2,
    Mlp,
    Model,
)
from orchestrator.model.named import NamedModel

# Model families whose published models are trained with one layer of multi-token prediction.
_PREDICTING = frozenset({"deepseek_v3", "glm4_moe"})
_MOST_DIFFERENCES = 2
# The model as a page calls it, the length of its sequences, and whether only adapters are trained.
Group = tuple[str, int, bool]
COUNTED_KEYS: tuple[Keys, ...] = ("causal", "window", "full")
_KEYS_IN_WORDS = {
    "causal": "attention counted over earlier keys only (causal)",
    "window": "attention counted over all keys of its window",
    "full": "attention counted over all keys",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a program's count of FLOPs and the FLOPs of a model's description.

    words: the end of a sentence that begins with "a formula that".
    change: returns the model that the program assumes, e.g. one without attention windows.
    counts: returns whether the program counts a term.
    adds: returns FLOPs per token that the program adds to its count.
    frozen: True if the program leaves out the gradients of weights.
    recomputes: whether the program counts a second forward pass of the layers.
    one_backward: True if the program counts the backward pass like one forward pass, False if it
        counts the backward pass like two.
    """

    words: str
    change: Callable[[Model], Model] = lambda model: model
    counts: Callable[[Term], bool] = lambda _: True
    adds: Callable[[Model], float] = lambda _: 0.0
    frozen: bool = False
    recomputes: bool = False
    one_backward: bool = False


def _without_windows(model: Model) -> Model:
    return _each_layer(model, _unwindowed)


def _unwindowed(layer: Layer) -> Layer:
    if not isinstance(layer.mixer, Attention):
        return layer
    return replace(layer, mixer=replace(layer.mixer, window=None, chunk=None))


def _ungated_experts(model: Model) -> Model:
    return _each_layer(
        model,
        lambda layer: (
            replace(layer, mlp=replace(layer.mlp, gated=False))
            if isinstance(layer.mlp, Experts)
            else layer
        ),
    )


def _ungated(model: Model) -> Model:
    return _each_layer(
        model,
        lambda layer: (
            replace(layer, mlp=replace(layer.mlp, gated=False))
            if isinstance(layer.mlp, Mlp | Experts)
            else layer
        ),
    )


def _narrow_heads(model: Model) -> Model:
    return _each_layer(
        model,
        lambda layer: (
            replace(
                layer,
                mixer=replace(layer.mixer, head_size=model.hidden_size // layer.mixer.heads),
            )
            if isinstance(layer.mixer, Attention)
            else layer
        ),
    )


def _without_mamba(model: Model) -> Model:
    return _each_layer(
        model,
        lambda layer: replace(layer, mixer=None) if isinstance(layer.mixer, Mamba2) else layer,
    )


def _mamba_by_megatron(model: Model) -> float:
    """Return the FLOPs per token that Megatron counts for Mamba layers, backward pass included."""
    mixers = [layer.mixer for layer in model.layers if isinstance(layer.mixer, Mamba2)]
    return 3.0 * sum(sum(megatron_mamba_flops(mixer, model.hidden_size)) for mixer in mixers)


def _each_layer(model: Model, change: Callable[[Layer], Layer]) -> Model:
    return replace(
        model,
        layers=tuple(map(change, model.layers)),
        prediction_heads=tuple(map(change, model.prediction_heads)),
    )


DIFFERENCES = (
    Difference(
        "assumes Mamba layers of inner width 2h with 7 operations per state (as Megatron does)",
        change=_without_mamba,
        adds=_mamba_by_megatron,
    ),
    Difference(
        "counts two matrices in gated experts, not three (as older Megatron-Bridge does)",
        _ungated_experts,
    ),
    Difference("ignores attention windows", _without_windows),
    Difference("counts two matrices in gated MLPs, not three", _ungated),
    Difference(
        "counts only 6 FLOPs per parameter, without attention (6N)",
        counts=lambda t: not t.part.pairs,
    ),
    Difference(
        "counts the embedding like a matrix product",
        adds=lambda model: 6.0 * looked_up_parameters(model),
    ),
    Difference(
        "counts a position embedding (one row per token of a sequence) like a matrix product",
        adds=lambda model: 6.0 * model.seq_length * model.hidden_size,
    ),
    Difference("assumes that a head's width is hidden size / heads", _narrow_heads),
    Difference("leaves out the output head", counts=lambda term: term.part.name != "head"),
    Difference("counts recomputed layers (hardware FLOPs)", recomputes=True),
    Difference(
        "counts two thirds of the FLOPs of a full training, also for attention", one_backward=True
    ),
)
PACKED_ADAPTERS = Difference(
    "counts no gradients of frozen weights, and no attention between packed samples",
    counts=lambda term: not term.part.pairs,
    frozen=True,
)
ADAPTERS = Difference("counts no gradients of frozen weights", frozen=True)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to count FLOPs.

    keys: which attention keys count. differences: how the count differs from the model's
    description. predicting: whether a layer of multi-token prediction is counted too.
    """

    keys: Keys
    differences: tuple[Difference, ...] = ()
    predicting: bool = False

    @property
    def words(self) -> str:
        """A text with the counted attention keys and, if it is counted, the prediction layer."""
        return _KEYS_IN_WORDS[self.keys] + (
            ", with its layer of multi-token prediction" if self.predicting else ""
        )

    @property
    def counter(self) -> str:
        """A text with how the page's formula differs from the exact FLOPs.

        For example, `a formula that ignores attention windows`. It is empty if the formula does
        not differ.
        """
        if not self.differences:
            return ""
        return "a formula that " + " and ".join(difference.words for difference in self.differences)


def honest_ways(named: NamedModel, keys: Keys) -> tuple[Way, ...]:
    """Return the ways that count all parts of a model according to its description.

    For a model that is trained with multi-token prediction, there are two ways: one without the
    layer of multi-token prediction, and one with this layer.
    """
    plain = (Way(keys),)
    predicts = named.config.get("model_type") in _PREDICTING
    return (*plain, Way(keys, predicting=True)) if predicts else plain


def other_ways(named: NamedModel, keys: Keys) -> tuple[Way, ...]:
    """Return the known ways to count FLOPs, except the ways that `honest_ways` returns for `keys`.

    The ways with the fewest differences from the model's description come first. Among ways
    with equally many differences, the ways with the attention keys `keys` come first. A way has
    at most two differences.

    keys: the attention keys that the page counts.
    """
    order = (keys, *(other_keys for other_keys in COUNTED_KEYS if other_keys != keys))
    return tuple(
        Way(each, some, way.predicting)
        for count in range(_MOST_DIFFERENCES + 1)
        for each in order
        for way in honest_ways(named, each)
        for some in combinations(DIFFERENCES, count)
        if count or each != keys
    )


@cache
def flops_per_token(named: NamedModel, seq_length: int, way: Way) -> float:
    """Return the FLOPs per token of a model, counted in this way."""
    described = _described(named, seq_length, way.predicting)
    model = described
    for difference in way.differences:
        model = difference.change(model)
    recomputes = any(difference.recomputes for difference in way.differences)
    frozen = any(difference.frozen for difference in way.differences)
    one_backward = any(difference.one_backward for difference in way.differences)
    flops = count_flops(model, sequences=1, keys=way.keys, recomputed=recomputes)
    total = sum(
        _work(term, frozen=frozen, one_backward=one_backward)
        for term in flops.terms
        if all(difference.counts(term) for difference in way.differences)
    )
    return total / flops.tokens + sum(difference.adds(described) for difference in way.differences)


def _work(term: Term, *, frozen: bool, one_backward: bool) -> int:
    once = one_backward or (frozen and term.part.kind != "product")
    backward = term.forward if once else term.backward
    return term.forward + backward + term.recomputed


@cache
def _described(named: NamedModel, seq_length: int, predicting: bool) -> Model:
    model = named.model(seq_length)
    return replace(model, prediction_heads=model.layers[-1:]) if predicting else model
