"""Describe a model as frozen values: its layers, embeddings, head and adapters.

Sizes are numbers of elements. A field is None if the model lacks the part that the field describes.
The defaults are the most common choice. A run's identity is computed only from fields that differ
from their defaults. So a new field with a default does not change the identity of older runs.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

NormKind = Literal["layernorm", "rmsnorm", "none"]
"""The type of a norm: "layernorm" has a weight and a bias, "rmsnorm" has only a weight, "none" has
no parameters. A LayerNorm without bias is described as "rmsnorm"."""

AttentionBiases = Literal["all", "qkv", "none"]
QueryKeyNorm = Literal["none", "head", "width"]
"""The norm of queries and keys. "head": it has the width of a head, and all heads use the same
parameters. "width": it has the width of all heads together. "none": there is no such norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention whose keys and values may be shared by groups of heads.

    window: how many keys a query sees, including its own key; None for its own key and all keys
        before it.
    chunk: the number of tokens of the chunks into which sequences are cut; a query sees only keys
        of its own chunk. None if sequences are not cut.
    output_gate: whether the queries' matrix is twice as wide; its second half multiplies the
        output.
    sinks: whether each head has one more logit in the softmax, which is a parameter.
    """

    heads: int
    key_value_heads: int
    head_size: int
    window: int | None = None
    chunk: int | None = None
    biases: AttentionBiases = "none"
    query_key_norm: QueryKeyNorm = "none"
    output_gate: bool = False
    sinks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2): keys and values come from a latent vector.

    query_rank: the size of the queries' latent vector; None if queries come from one matrix.
    rope_size: the width of the part of queries and keys with rotary positions. All heads share this
        part of the key.
    nope_size: the width of the part of queries and keys without positions.
    biases: whether the output matrix and the matrices that produce latent vectors have biases.
    latent_norms: whether both latent vectors have a norm.
    """

    heads: int
    key_value_rank: int
    nope_size: int
    rope_size: int
    value_size: int
    query_rank: int | None = None
    biases: bool = False
    latent_norms: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 block (Dao and Gu 2024), computed in chunks of `chunk` tokens."""

    heads: int
    head_size: int
    state_size: int
    groups: int
    convolution: int
    chunk: int
    convolution_bias: bool = True
    biases: bool = False
    gated_norm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention with the gated delta rule (Yang et al. 2024), computed in chunks."""

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    convolution: int
    chunk: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """An MLP of two matrices.

    gated: whether it has a third matrix, as wide as the first (SwiGLU).
    """

    width: int
    gated: bool = False
    biases: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A router and `number` MLPs of width `width`, of which each token uses `top_k`.

    shared_width: the width of a further MLP of the same kind, which every token uses; None without
        one.
    shared_gate: whether the output of that further MLP is multiplied by a learned gate.
    latent_size: the size to which tokens are projected before the routed experts, and from which
        they are projected back; None without these projections.
    """

    number: int
    top_k: int
    width: int
    gated: bool = True
    biases: bool = False
    router_bias: bool = False
    shared_width: int | None = None
    shared_gate: bool = False
    latent_size: int | None = None


Mixer = Attention | LatentAttention | Mamba2 | GatedDeltaNet


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One residual layer: its token mixer, its MLP or experts, and its norms.

    norms: how many norms of the hidden size the layer has. Usually 2; 4 if the outputs of the mixer
    and of the MLP are normed too (Gemma); 1 if the layer has only a mixer or only an MLP, or if the
    two have the same input (GPT-J).
    """

    mixer: Mixer | None
    mlp: Mlp | Experts | None
    norms: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """LoRA adapters: each is a pair of matrices next to one matrix of the model, its target.

    Only the adapters are trained; all other weights are frozen. rank: the inner size of each pair.
    targets: the names of the parts that get an adapter, e.g. "query" and "value".
    """

    rank: int
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder-only language model, and the length of its training sequences.

    layers: from the first to the last.
    position_rows: the number of rows of a table of learned positions.
    norm: the type of all norms.
    embedding_size: the width of the token embedding if it is not hidden_size. Two further matrices
        then convert from this width to hidden_size and back.
    prediction_heads: the layers of multi-token prediction. Each has in addition a matrix of
        2·hidden_size by hidden_size, three norms, and a pass through the model's head.
    """

    hidden_size: int
    vocab_size: int
    seq_length: int
    layers: tuple[Layer, ...]
    norm: NormKind = "rmsnorm"
    tied_head: bool = False
    head_bias: bool = False
    position_rows: int | None = None
    embedding_norm: bool = False
    embedding_size: int | None = None
    final_norm: bool = True
    prediction_heads: tuple[Layer, ...] = ()
    adapters: Adapters | None = None

    @property
    def num_layers(self) -> int:
        """The number of layers, without those of multi-token prediction."""
        return len(self.layers)

    @property
    def is_hybrid(self) -> bool:
        """Whether some layer lacks a mixer or an MLP, or has a Mamba-2 mixer.

        For example, each layer of Nemotron-H has either a mixer or an MLP.
        """
        return any(
            layer.mixer is None or layer.mlp is None or isinstance(layer.mixer, Mamba2)
            for layer in dict.fromkeys(self.layers)
        )

    @property
    def num_attention_heads(self) -> int:
        """The number of heads in the first layer with attention; 1 if no layer has attention."""
        return next((mixer.heads for mixer in self._attentions()), 1)

    @property
    def key_value_width(self) -> int:
        """The width of the keys of all heads together, in the first layer with attention.

        The result is the hidden size if no layer has attention.
        """
        for mixer in self._attentions():
            if isinstance(mixer, Attention):
                return mixer.key_value_heads * mixer.head_size
            return mixer.heads * (mixer.nope_size + mixer.rope_size)
        return self.hidden_size

    @property
    def ffn_width(self) -> int:
        """The width of the first dense MLP; the width of an expert if no layer has a dense MLP.

        The result is 4 times the hidden size if no layer has an MLP or experts.
        """
        mlps = [layer.mlp for layer in self.layers if layer.mlp is not None]
        dense = (mlp.width for mlp in mlps if isinstance(mlp, Mlp))
        return next(dense, next((mlp.width for mlp in mlps), 4 * self.hidden_size))

    @property
    def gated_mlp(self) -> bool:
        """Whether the first MLP, or the first expert, has a third matrix."""
        return next((layer.mlp.gated for layer in self.layers if layer.mlp is not None), False)

    @property
    def attention(self) -> Attention | None:
        """The first attention in the layers that is not latent attention; None if there is none."""
        return next(
            (attention for attention in self._attentions() if isinstance(attention, Attention)),
            None,
        )

    @property
    def experts(self) -> Experts | None:
        """The experts of the first layer that has experts, or None."""
        mlps = (layer.mlp for layer in self.layers)
        return next((mlp for mlp in mlps if isinstance(mlp, Experts)), None)

    def with_vocabulary(self, padded_vocab_size: int) -> "Model":
        """Return the model with a vocabulary of another size in its embedding and head."""
        return replace(self, vocab_size=padded_vocab_size)

    def _attentions(self) -> Iterator[Attention | LatentAttention]:
        mixers = (layer.mixer for layer in self.layers)
        yield from (mixer for mixer in mixers if isinstance(mixer, Attention | LatentAttention))


@cache
def layer_counts(layers: tuple[Layer, ...]) -> tuple[tuple[Layer, int], ...]:
    """Return each distinct layer and how often it occurs, in the order of first occurrence."""
    return tuple(Counter(layers).items())
