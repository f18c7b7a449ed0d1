"""Count a model's parameters, and the floating-point operations of its training.

All counts are sums over the result of `parts.parts`. Embedding look-ups, norms, softmax, activation
functions and the optimizer are left out. A multiply-add is two operations.
"""

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.description import Model
from orchestrator.model.parts import Factors, ModelPart, derivation, parts

Keys = Literal["full", "window", "causal"]
"""The keys that are counted for each query.

full: all keys of the sequence, as in attention that is computed as plain matrix products.
window: as many keys as the window or the chunk has, or all keys of the sequence if the layer has
neither. This is the usual count of model FLOPs.
causal: only the keys that the mask leaves: the query's own key and earlier ones. The best kernels
compute only these.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The FLOPs of one part of a model in an iteration.

    backward: the FLOPs for the gradients of the inputs and, if the weights are not frozen, of the
        weights. If the part is a product of two activations: the FLOPs for the gradients of both.
    recomputed: the FLOPs of a second forward pass in activation checkpointing.
    """

    part: ModelPart
    forward: int
    backward: int
    recomputed: int
    derivation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """The FLOPs of one iteration, as sums over the parts of the model."""

    terms: tuple[Term, ...]
    tokens: int

    @property
    def forward(self) -> int:
        """The FLOPs of the forward pass."""
        return sum(term.forward for term in self.terms)

    @property
    def backward(self) -> int:
        """The FLOPs of the backward pass, without recomputation."""
        return sum(term.backward for term in self.terms)

    @property
    def recomputed(self) -> int:
        """The FLOPs of forward passes that activation checkpointing repeats."""
        return sum(term.recomputed for term in self.terms)

    @property
    def model(self) -> int:
        """The FLOPs that the training needs, forward and backward; for MFU."""
        return self.forward + self.backward

    @property
    def hardware(self) -> int:
        """The FLOPs that the GPUs execute, including recomputation; for HFU."""
        return self.model + self.recomputed

    @property
    def model_per_token(self) -> float:
        """The model FLOPs per token."""
        return self.model / self.tokens


def parameters(model: Model) -> int:
    """Return the number of parameters, all experts and adapters included."""
    return sum(part.parameters for part in parts(model))


def active_parameters(model: Model) -> int:
    """Return how many parameters one token uses: all except those of experts that it does not use.

    Embeddings are included, as in the published sizes of models.
    """
    return sum(part.active_parameters for part in parts(model))


def trained_parameters(model: Model) -> int:
    """Return how many parameters are not frozen."""
    return sum(part.parameters for part in parts(model) if part.trained)


def looked_up_parameters(model: Model) -> int:
    """Return how many parameters are only looked up in a table, and never multiplied.

    A tied token embedding is not included, because it also multiplies as the head.
    """
    return sum(
        part.parameters
        for part in parts(model)
        if part.kind == "table" and not (part.name == "token embedding" and model.tied_head)
    )


def multiplying_parameters(model: Model) -> int:
    """Return how many active parameters are multiplied with a token or added to it.

    In the approximation of 6N FLOPs per token, this number is N.
    """
    return active_parameters(model) - looked_up_parameters(model)


def count_flops(
    model: Model,
    *,
    sequences: int,
    recomputed: bool = False,
    keys: Keys = "window",
) -> Flops:
    """Return the FLOPs of an iteration over `sequences` sequences of `model.seq_length` tokens.

    The product of a matrix of shape (m, k) and a matrix of shape (k, n) costs 2mkn FLOPs. In the
    backward pass, two products of the same cost give the gradients of the inputs and of the
    weights. For frozen weights, only the gradients of the inputs are computed.

    recomputed: whether each layer runs forward a second time; the head never does.
    keys: which attention keys count, as in `repetitions`.
    """
    terms = tuple(
        _term(part, model.seq_length, sequences, recomputed, keys)
        for part in parts(model)
        if part.multiplied
    )
    return Flops(terms=terms, tokens=sequences * model.seq_length)


def _term(part: ModelPart, seq_length: int, sequences: int, recomputed: bool, keys: Keys) -> Term:
    factors: Factors = (
        ("", 2),
        ("sequences", sequences),
        *_tokens(part, seq_length, keys),
        *part.counted_factors,
        *part.multiplied,
    )
    forward = 2 * sequences * repetitions(part, seq_length, keys) * part.multiplications
    again = recomputed and part.place in {"layers", "prediction heads"} and part.name != "head"
    return Term(
        part=part,
        forward=forward,
        backward=forward * (2 if part.trained or part.kind == "product" else 1),
        recomputed=forward if again else 0,
        derivation=derivation(factors),
    )


def repetitions(part: ModelPart, seq_length: int, keys: Keys) -> int:
    """Return how often the product of a part is computed in a forward pass over one sequence.

    Most products are computed once per token. For a scan, the tokens are padded to a multiple
    of `part.padded_to`. The products of attention are computed once per pair of a query and a
    key.

    keys: which pairs count: all pairs (`full`), those in the window of each query (`window`),
    or only those that the causal mask keeps (`causal`).
    """
    if not part.pairs:
        return -(-seq_length // part.padded_to) * part.padded_to
    if keys == "full":
        return seq_length**2
    if keys == "window":
        return seq_length * min(seq_length, part.window or seq_length, part.chunk or seq_length)
    return causal_pairs(seq_length, part.window, part.chunk)


def causal_pairs(seq_length: int, window: int | None, chunk: int | None) -> int:
    """Return how many pairs of a query and a key the mask of causal attention keeps in a sequence.

    For s tokens there are s(s + 1)/2 pairs. If a query sees only w < s keys (`window`), there
    are w(w + 1)/2 + (s - w)w pairs. If sequences are cut into chunks of `chunk` tokens, each
    chunk counts as a separate sequence.
    """
    if chunk is not None and chunk < seq_length:
        whole, rest = divmod(seq_length, chunk)
        return whole * causal_pairs(chunk, window, None) + causal_pairs(rest, window, None)
    seen = min(seq_length, window or seq_length)
    return seen * (seen + 1) // 2 + (seq_length - seen) * seen


def _tokens(part: ModelPart, seq_length: int, keys: Keys) -> Factors:
    if not part.pairs:
        padded = repetitions(part, seq_length, keys)
        return (("tokens" if padded == seq_length else "padded tokens", padded),)
    if keys == "causal":
        return (("pairs", repetitions(part, seq_length, keys)),)
    return (
        ("queries", seq_length),
        ("keys", repetitions(part, seq_length, keys) // seq_length),
    )
