"""List the parts of a model: its tensors, and the products of two activations.

Every count is a sum over these parts, and each part is a product of named factors. So the program
can show exactly how it computes a number.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

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
    layer_counts,
)

Factor = tuple[str, int]
Factors = tuple[Factor, ...]

Place = Literal["embedding", "layers", "prediction heads", "head"]
Kind = Literal["matrix", "vector", "table", "product"]

# The matrices to which LoRA may be added. `expert` means routed experts; shared experts get none.
ADAPTER_TARGETS = (
    "query", "key", "value", "output", "MLP gate", "MLP up", "MLP down",
    "expert gate", "expert up", "expert down",
)  # fmt: skip

_VECTORS = {"layernorm": 2, "rmsnorm": 1, "none": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPart:
    """One tensor of a model, or one product of two activations, in `count` equal layers.

    A factor is a pair of a name and a number, e.g. ("hidden", 4096).

    kind: "matrix": multiplied with every token. "vector": e.g. a norm or a bias; its few
        operations are not counted. "table": an embedding, in which rows are only looked up.
        "product": a product of two activations, without parameters.
    stored: factors whose product is the number of parameters; empty if the part has no
        parameters of its own, e.g. a tied head.
    active: factors whose product is the number of parameters that one token uses. They
        differ from `stored` for experts, because a token uses only the top-k experts.
    multiplied: factors whose product is the number of multiply-adds of a forward pass per
        token; empty if the part multiplies nothing.
    pairs: whether `multiplied` is per pair of query and key instead of per token.
    window: how many keys a query sees; None if there is no attention window.
    chunk: the number of tokens of a chunk, if a query sees only the keys of its own chunk;
        None if sequences are not cut into chunks.
    padded_to: sequences are padded to a multiple of this number of tokens, because e.g. the
        scan of Mamba-2 works on whole chunks.
    trained: False if the part is frozen.
    """

    name: str
    place: Place
    kind: Kind
    stored: Factors = ()
    active: Factors = ()
    multiplied: Factors = ()
    pairs: bool = False
    window: int | None = None
    chunk: int | None = None
    padded_to: int = 1
    trained: bool = True
    count: int = 1

    @property
    def parameters(self) -> int:
        """The parameters of this part in all its layers."""
        return self.count * _value(self.stored)

    @property
    def active_parameters(self) -> int:
        """The parameters of this part that one token uses, in all its layers."""
        return self.count * _value(self.active)

    @property
    def multiplications(self) -> int:
        """The multiply-adds of a forward pass in all layers with this part.

        They are per token or, if `pairs` is true, per pair of a query and a key.
        """
        return self.count * _value(self.multiplied)

    @property
    def counted_factors(self) -> Factors:
        """The number of layers that have this part, with the factor's name, e.g. `layers 32`.

        For a norm or a bias, the factor is how often the vector occurs, e.g. `times 64`,
        because a layer may have several equal norms. The result is empty for a part outside
        of the layers and prediction heads, e.g. the token embedding, because it occurs
        once.
        """
        if self.place not in {"layers", "prediction heads"}:
            return ()
        # A layer has several equal norms.
        return (("times" if self.kind == "vector" else "layers", self.count),)


def _value(factors: Factors) -> int:
    return math.prod(number for _, number in factors) if factors else 0


def derivation(factors: Factors) -> str:
    """Return a product of named factors as text, e.g. `layers 32 · hidden 4096 · heads 32`."""
    return " · ".join(f"{name} {number}" if name else str(number) for name, number in factors)


@cache
def parts(model: Model) -> tuple[ModelPart, ...]:
    """Return all parts of a model; equal parts of several layers are one item."""
    merged: dict[ModelPart, int] = {}
    for part in _parts(model):
        key = replace(part, count=1)
        merged[key] = merged.get(key, 0) + part.count
    return tuple(replace(part, count=count) for part, count in merged.items())


def _parts(model: Model) -> Iterator[ModelPart]:
    h: Factor = ("hidden", model.hidden_size)
    vocabulary: Factor = ("vocabulary", model.vocab_size)
    width = h if model.embedding_size is None else ("embedding", model.embedding_size)
    norm = _Norm(model)
    trained = model.adapters is None
    yield _table("token embedding", (vocabulary, width), trained)
    if model.position_rows is not None:
        yield _table("position embedding", (("rows", model.position_rows), h), trained)
    if model.embedding_norm:
        yield from norm.of("embedding norm", "embedding", h)
    if width != h:
        yield _matrix(model, "embedding projection", (width,), (h,), place="embedding")
    for layer, count in layer_counts(model.layers):
        yield from (replace(part, count=count) for part in _layer_parts(model, layer, "layers"))
    for layer, count in layer_counts(model.prediction_heads):
        place: Place = "prediction heads"
        layer_parts = (
            _matrix(
                model, "prediction projection", (("2 · hidden size", 2 * h[1]),), (h,), place=place
            ),
            *(part for _ in range(3) for part in norm.of("norms of prediction heads", place, h)),
            *_layer_parts(model, layer, place),
            _head(model, (), width, vocabulary, place),
        )
        yield from (replace(part, count=count) for part in layer_parts)
    if model.final_norm:
        yield from norm.of("final norm", "head", h)
    if width != h:
        yield _matrix(model, "head projection", (h,), (width,), place="head")
    stored = () if model.tied_head else (width, vocabulary)
    yield _head(model, stored, width, vocabulary, "head")
    if model.head_bias:
        yield _vector("head bias", "head", (vocabulary,), trained=trained)


def _head(
    model: Model, stored: Factors, width: Factor, vocabulary: Factor, place: Place
) -> ModelPart:
    return ModelPart(
        name="head",
        place=place,
        kind="matrix",
        stored=stored,
        active=stored,
        multiplied=(width, vocabulary),
        trained=model.adapters is None,
    )


def _layer_parts(model: Model, layer: Layer, place: Place) -> Iterator[ModelPart]:
    h: Factor = ("hidden", model.hidden_size)
    for part in (*_mixer(model, layer.mixer, h), *_mlp(model, layer.mlp, h)):
        yield replace(part, place=place)
    for _ in range(layer.norms):
        yield from _Norm(model).of("norms of layers", place, h)


@dataclass(frozen=True, slots=True)
class _Norm:
    """A builder of the parts that are norms; all norms of a model have the same type."""

    model: Model

    def of(self, name: str, place: Place, *width: Factor) -> Iterator[ModelPart]:
        vectors = _VECTORS[self.model.norm]
        if vectors:
            more = ((("vectors", vectors),) if vectors > 1 else ()) + width
            yield _vector(name, place, more, trained=self.model.adapters is None)


def _mixer(model: Model, mixer: Mixer | None, h: Factor) -> Iterable[ModelPart]:
    match mixer:
        case Attention():
            return _attention(model, mixer, h)
        case LatentAttention():
            return _latent_attention(model, mixer, h)
        case Mamba2():
            return _mamba2(model, mixer, h)
        case GatedDeltaNet():
            return _gated_delta_net(model, mixer, h)
        case None:
            return ()


def _attention(model: Model, mixer: Attention, h: Factor) -> Iterator[ModelPart]:
    """Yield the parts of attention: matrices, the scores, and their product with the values.

    The matrices are those of queries, keys, values and the output. Biases and norms are parts too.
    """
    size: Factor = ("head size", mixer.head_size)
    queries: Factors = (("heads", mixer.heads), size)
    keys: Factors = (("key-value heads", mixer.key_value_heads), size)
    gated: Factors = (("with gate", 2), *queries) if mixer.output_gate else queries
    yield from _with_adapter(model, "query", (h,), gated)
    yield from _with_adapter(model, "key", (h,), keys)
    yield from _with_adapter(model, "value", (h,), keys)
    yield from _with_adapter(model, "output", queries, (h,))
    trained = model.adapters is None
    if mixer.biases != "none":
        yield _vector("query bias", "layers", gated, trained=trained)
        yield _vector("key and value bias", "layers", (("", 2), *keys), trained=trained)
    if mixer.biases == "all":
        yield _vector("output bias", "layers", (h,), trained=trained)
    if mixer.query_key_norm == "head":
        yield from _Norm(model).of("query and key norm", "layers", ("", 2), size)
    if mixer.query_key_norm == "width":
        yield from _Norm(model).of("query norm", "layers", *queries)
        yield from _Norm(model).of("key norm", "layers", *keys)
    if mixer.sinks:
        yield _vector("sinks", "layers", queries[:1], trained=trained)
    for name in ("scores", "weighted values"):
        yield _pairs(name, queries, window=mixer.window, chunk=mixer.chunk)


def _latent_attention(model: Model, mixer: LatentAttention, h: Factor) -> Iterator[ModelPart]:
    heads: Factor = ("heads", mixer.heads)
    key: Factor = ("key size", mixer.nope_size + mixer.rope_size)
    latent: Factor = ("key-value latent size", mixer.key_value_rank)
    latent_and_rope: Factor = (
        "key-value latent size, plus rope size",
        mixer.key_value_rank + mixer.rope_size,
    )
    values: Factors = (heads, ("value size", mixer.value_size))
    trained = model.adapters is None
    if mixer.query_rank is None:
        yield from _with_adapter(model, "query", (h,), (heads, key))
    else:
        rank: Factor = ("query rank", mixer.query_rank)
        yield _matrix(model, "query down", (h,), (rank,))
        if mixer.latent_norms:
            yield from _Norm(model).of("latent norms", "layers", rank)
        yield from _with_adapter(model, "query", (rank,), (heads, key))
        if mixer.biases:
            yield _vector("query down bias", "layers", (rank,), trained=trained)
    yield _matrix(model, "key-value down", (h,), (latent_and_rope,))
    if mixer.latent_norms:
        yield from _Norm(model).of("latent norms", "layers", latent)
    both: Factors = (
        heads,
        ("key size without positions, plus value size", mixer.nope_size + mixer.value_size),
    )
    yield _matrix(model, "key-value up", (latent,), both)
    yield from _with_adapter(model, "output", values, (h,))
    if mixer.biases:
        yield _vector("key-value down bias", "layers", (latent_and_rope,), trained=trained)
        yield _vector("output bias", "layers", (h,), trained=trained)
    yield _pairs("scores", (heads, key))
    yield _pairs("weighted values", values)


def _mamba2(model: Model, mixer: Mamba2, h: Factor) -> Iterator[ModelPart]:
    """Yield the parts of a Mamba-2 block: matrices, vectors, and the products of its scan.

    The scan is computed in chunks of c tokens. With H heads of size p and states of size n,
    its products need these multiply-adds per token (Dao and Gu 2024, section 6):
    - cnH for the matrix C times the matrix B within a chunk;
    - cpH for this product times the values;
    - npH for the state of a chunk;
    - npH for the output from the states of earlier chunks.
    The step that passes states from chunk to chunk is left out.
    """
    heads: Factor = ("heads", mixer.heads)
    inner: Factors = (heads, ("head size", mixer.head_size))
    inner_size = mixer.heads * mixer.head_size
    states = mixer.groups * mixer.state_size
    size = 2 * inner_size + 2 * states + mixer.heads
    channels: Factor = ("channels", inner_size + 2 * states)
    trained = model.adapters is None
    yield _matrix(model, "input", (h,), (("z, x, B, C, dt", size),))
    yield _matrix(model, "convolution", (channels,), (("kernel", mixer.convolution),))
    yield from _with_adapter(model, "output", inner, (h,))
    if mixer.convolution_bias:
        yield _vector("convolution bias", "layers", (channels,), trained=trained)
    if mixer.biases:
        yield _vector("input bias", "layers", (("z, x, B, C, dt", size),), trained=trained)
        yield _vector("output bias", "layers", (h,), trained=trained)
    yield _vector("vectors A, D and dt", "layers", (("", 3), heads), trained=trained)
    if mixer.gated_norm:
        yield _vector("gated norm", "layers", inner, trained=trained)
    chunk: Factor = ("chunk", mixer.chunk)
    state: Factor = ("state size", mixer.state_size)
    yield _scan("scan: scores within chunks", (chunk, heads, state), mixer.chunk)
    yield _scan("scan: values within chunks", (chunk, *inner), mixer.chunk)
    yield _scan("scan: states of chunks", (*inner, state), mixer.chunk)
    yield _scan("scan: outputs of states", (*inner, state), mixer.chunk)


def _gated_delta_net(model: Model, mixer: GatedDeltaNet, h: Factor) -> Iterator[ModelPart]:
    """Yield the parts of a gated delta net: matrices, vectors, products of the delta rule.

    The rule is computed in chunks of c tokens (Yang et al. 2024). With keys of size k and
    values of size v, it needs these multiply-adds per token and value head:
    - 3·c·k within a chunk: keys with keys, queries with keys, and keys with keys that the
      decay has scaled;
    - 2·c·v within a chunk, for products with the values;
    - 3·k·v with the state of the chunk: read it with keys, read it with queries, and write
      it.
    """
    keys = mixer.key_heads * mixer.key_size
    values: Factors = (("value heads", mixer.value_heads), ("value size", mixer.value_size))
    values_size = mixer.value_heads * mixer.value_size
    channels: Factor = ("channels", 2 * keys + values_size)
    heads = values[:1]
    trained = model.adapters is None
    yield _matrix(model, "input", (h,), (("q, k, v, z", 2 * keys + 2 * values_size),))
    yield _matrix(model, "decay and strength of the delta rule", (h,), (("", 2), *heads))
    yield _matrix(model, "convolution", (channels,), (("kernel", mixer.convolution),))
    yield from _with_adapter(model, "output", values, (h,))
    yield _vector("vectors A and dt", "layers", (("", 2), *heads), trained=trained)
    yield _vector("gated norm", "layers", values[1:], trained=trained)
    chunk: Factor = ("chunk", mixer.chunk)
    size: Factor = ("key size", mixer.key_size)
    rule = "delta rule within chunks"
    yield _scan(f"{rule}: keys", (("", 3), chunk, *heads, size), mixer.chunk)
    yield _scan(f"{rule}: values", (("", 2), chunk, *values), mixer.chunk)
    yield _scan("delta rule: states of chunks", (("", 3), *values, size), mixer.chunk)


def _mlp(model: Model, mlp: Mlp | Experts | None, h: Factor) -> Iterable[ModelPart]:
    match mlp:
        case Mlp():
            return _matrices_of_mlp(model, "MLP", mlp, h)
        case Experts():
            return _experts(model, mlp, h)
        case None:
            return ()


def _matrices_of_mlp(
    model: Model,
    name: str,
    mlp: Mlp,
    h: Factor,
    number: tuple[Factor, Factor] | None = None,
) -> Iterator[ModelPart]:
    f: Factor = ("width", mlp.width)
    if mlp.gated:
        yield from _with_adapter(model, f"{name} gate", (h,), (f,), number)
    yield from _with_adapter(model, f"{name} up", (h,), (f,), number)
    yield from _with_adapter(model, f"{name} down", (f,), (h,), number)
    if mlp.biases:
        trained = model.adapters is None
        inner: Factors = (("", 2), f) if mlp.gated else (f,)
        yield _vector(f"{name} inner bias", "layers", inner, number, trained=trained)
        yield _vector(f"{name} down bias", "layers", (h,), number, trained=trained)


def _experts(model: Model, experts: Experts, h: Factor) -> Iterator[ModelPart]:
    number: Factor = ("experts", experts.number)
    yield _matrix(model, "router", (h,), (number,))
    if experts.router_bias:
        yield _vector("router bias", "layers", (number,), trained=model.adapters is None)
    size = h
    if experts.latent_size is not None:
        size = ("latent", experts.latent_size)
        yield _matrix(model, "latent down", (h,), (size,))
        yield _matrix(model, "latent up", (size,), (h,))
    expert = Mlp(width=experts.width, gated=experts.gated, biases=experts.biases)
    used: Factor = ("top-k", experts.top_k)
    yield from _matrices_of_mlp(model, "expert", expert, size, (number, used))
    if experts.shared_width is not None:
        shared = replace(expert, width=experts.shared_width)
        yield from _matrices_of_mlp(model, "shared expert", shared, h)
    if experts.shared_gate:
        yield _matrix(model, "shared expert score", (h,), (("", 1),))


def _with_adapter(
    model: Model,
    name: str,
    inputs: Factors,
    outputs: Factors,
    number: tuple[Factor, Factor] | None = None,
) -> Iterator[ModelPart]:
    """Yield the part for a matrix; if it has a LoRA adapter, also the adapter's matrices."""
    yield _matrix(model, name, inputs, outputs, number)
    if model.adapters is not None and name in model.adapters.targets:
        rank: Factors = (("rank", model.adapters.rank),)
        for what, (first, second) in {"A": (inputs, rank), "B": (rank, outputs)}.items():
            adapter = _matrix(model, f"{name}, adapter {what}", first, second, number)
            yield replace(adapter, trained=True)


def _matrix(
    model: Model,
    name: str,
    inputs: Factors,
    outputs: Factors,
    number: tuple[Factor, Factor] | None = None,
    *,
    place: Place = "layers",
) -> ModelPart:
    """Return the part of a model that is a matrix with these inputs and outputs.

    number: for the matrices of experts, the number of experts, and how many of them a token uses;
    None for other matrices.
    """
    factors = (*inputs, *outputs)
    active = factors if number is None else (number[1], *factors)
    return ModelPart(
        name=name,
        place=place,
        kind="matrix",
        stored=factors if number is None else (number[0], *factors),
        active=active,
        multiplied=active,
        trained=model.adapters is None,
    )


def _vector(
    name: str,
    place: Place,
    factors: Factors,
    number: tuple[Factor, Factor] | None = None,
    *,
    trained: bool,
) -> ModelPart:
    stored = factors if number is None else (number[0], *factors)
    active = factors if number is None else (number[1], *factors)
    return ModelPart(
        name=name, place=place, kind="vector", stored=stored, active=active, trained=trained
    )


def _table(name: str, factors: Factors, trained: bool) -> ModelPart:
    return ModelPart(
        name=name,
        place="embedding",
        kind="table",
        stored=factors,
        active=factors,
        trained=trained,
    )


def _pairs(
    name: str, factors: Factors, window: int | None = None, chunk: int | None = None
) -> ModelPart:
    return ModelPart(
        name=name,
        place="layers",
        kind="product",
        multiplied=factors,
        pairs=True,
        window=window,
        chunk=chunk,
    )


def _scan(name: str, factors: Factors, chunk: int) -> ModelPart:
    return ModelPart(name=name, place="layers", kind="product", multiplied=factors, padded_to=chunk)
