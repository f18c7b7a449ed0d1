"""Define the shape of a model: the sizes of a GPT or similar, and its parameters.

`orchestrator.run.choices` lists the allowed values of `biases` and `norm`.
"""

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING

from orchestrator.run.choices import Biases, Norm
from orchestrator.run.formulas import value

# Most models have only a shape. A plan of such models does not import `orchestrator.model`.
if TYPE_CHECKING:
    from orchestrator.model.description import Model

GPT2_PARAMETERS = "l·(12·h² + 13·h) + V·h + s·h + 2·h"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a GPT or a similar model, and how it differs from GPT-2.

    With its defaults it is a GPT-2: learned positions, biases, tied head, MLP of two matrices.

    ffn_hidden_size: width of the MLP; None means the usual 4 * hidden_size.
    num_key_value_heads: None if every head has its own keys and values.
    gated_mlp: whether the MLP has a third matrix, as wide as the first (SwiGLU).
    untied_head: whether the head has its own matrix, separate from the token embedding.
    position_table: whether positions are learned; False for rotary positions and ALiBi, which have
        no parameters.
    embedding_norm: whether a norm follows the token embedding, as in BLOOM.
    biases: which matrices have biases: all, those of query, key and value (Qwen2), or none (LLaMA).
    norm: LayerNorm has a weight and a bias; RMSNorm has only a weight.
    described: the description of a model whose layers these sizes cannot express, e.g. with
        experts. Then parameters and FLOPs are counted from the description, not by formulas.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    vocab_size: int
    seq_length: int
    ffn_hidden_size: int | None = None
    num_key_value_heads: int | None = None
    gated_mlp: bool = False
    untied_head: bool = False
    position_table: bool = True
    embedding_norm: bool = False
    biases: Biases = "all"
    norm: Norm = "layernorm"
    described: "Model | None" = None

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the fields, apart from sizes, in which the shape differs from GPT-2.

        For a described model, the only name is `layers`.
        """
        if self.described is not None:
            return ("layers",)
        return tuple(name for name, usual in _VARIANTS.items() if getattr(self, name) != usual)

    @property
    def ffn_width(self) -> int:
        """The width of the MLP's inner layer."""
        return self.ffn_hidden_size or 4 * self.hidden_size

    @property
    def key_value_width(self) -> int:
        """The width of the keys of all heads together; the values have the same width."""
        if self.described is not None:
            return self.described.key_value_width
        heads = self.num_key_value_heads or self.num_attention_heads
        return self.hidden_size * heads // self.num_attention_heads

    @property
    def is_gpt2(self) -> bool:
        """Whether the model differs from GPT-2 only in sizes, e.g. its number of layers.

        The width of the MLP must be 4 times the hidden size, and the width of the keys must be the
        hidden size.
        """
        sizes = (self.num_layers, self.hidden_size, self.num_attention_heads)
        if self.described is not None:
            return False
        gpt2 = ModelShape(*sizes, self.vocab_size, self.seq_length)
        return self.parameter_formulas() == gpt2.parameter_formulas() and self.has_gpt2_layers

    @property
    def has_gpt2_layers(self) -> bool:
        """Whether the matrices of a layer have the same form as in GPT-2.

        This needs three things: the MLP has two matrices, the width of the MLP is 4 times the
        hidden size, and the width of the keys is the hidden size. For a described model, the
        result is always False.
        """
        if self.described is not None:
            return False
        usual = (4 * self.hidden_size, self.hidden_size)
        return not self.gated_mlp and (self.ffn_width, self.key_value_width) == usual

    @property
    def is_hybrid(self) -> bool:
        """Whether some layer lacks a mixer or an MLP, or has a Mamba-2 mixer.

        Only a described model can be hybrid.
        """
        return self.described is not None and self.described.is_hybrid

    def symbols(self, padded_vocab_size: int) -> dict[str, int]:
        """Return the values of the letters in formulas: l, h, f, k, V and s.

        The letters are those of `parameter_formulas`: l = layers, h = hidden size, f = width of the
        MLP, k = width of all keys, V = padded vocabulary, s = sequence length.
        """
        return {
            "l": self.num_layers,
            "h": self.hidden_size,
            "f": self.ffn_width,
            "k": self.key_value_width,
            "V": padded_vocab_size,
            "s": self.seq_length,
        }

    def parameter_formulas(self) -> dict[str, str]:
        """Return the formula of each part's parameters, by the part's name.

        The letters are l = layers, h = hidden size, f = width of the MLP, k = width of all keys
        (and of all values), V = padded vocabulary, s = sequence length.

        Attention has two h·h matrices (query, output) and two h·k matrices (key, value). The MLP
        has two h·f matrices, or three if it is gated. With GPT-2's defaults, f = 4h and k = h, the
        sum is l(12h² + 13h) + Vh + sh + 2h. GPT2LMHeadModel of transformers counts the same
        (124,439,808 for GPT-2 small).
        """
        grouped = self.key_value_width != self.hidden_size
        attention = ["2·l·h²", "2·l·h·k"] if grouped else ["4·l·h²"]
        mlp = ["3·l·h·f" if self.gated_mlp else "2·l·h·f"]
        if self.biases == "all":
            attention += ["2·l·h", "2·l·k"] if grouped else ["4·l·h"]
            mlp += ["2·l·f" if self.gated_mlp else "l·f", "l·h"]
        elif self.biases == "qkv":
            attention += ["l·h", "2·l·k"] if grouped else ["3·l·h"]
        norm = "2·h" if self.norm == "layernorm" else "h"
        formulas = {
            "attention": " + ".join(attention),
            "MLP": " + ".join(mlp),
            "norms of layers": "4·l·h" if self.norm == "layernorm" else "2·l·h",
            "token embedding": "V·h",
        }
        if self.position_table:
            formulas["position embedding"] = "s·h"
        if self.embedding_norm:
            formulas["embedding norm"] = norm
        formulas["final norm"] = norm
        if self.untied_head:
            formulas["head"] = "V·h"
        return formulas

    def parameters(self, padded_vocab_size: int) -> int:
        """Return the exact number of parameters of the model.

        The result is the sum of `parameter_formulas`. For a described model, it is the sum over the
        parts of the description.
        """
        if self.described is not None:
            from orchestrator.model import counting

            return counting.parameters(self.described.with_vocabulary(padded_vocab_size))
        symbols = self.symbols(padded_vocab_size)
        return sum(value(formula, symbols) for formula in self.parameter_formulas().values())

    def looked_up_parameters(self, padded_vocab_size: int) -> int:
        """Return how many parameters take no part in the multiplications for a token.

        These parameters are only looked up in a table: s·h for learned positions, and V·h for
        the token embedding of a model with an untied head. Here s is the sequence length, h
        the hidden size, V the padded vocabulary. A tied head multiplies by the token
        embedding, so the result does not include that embedding. For a described model, the
        result also includes the parameters of experts that a token does not use.
        """
        if self.described is not None:
            from orchestrator.model import counting

            model = self.described.with_vocabulary(padded_vocab_size)
            return counting.parameters(model) - counting.multiplying_parameters(model)
        positions = self.seq_length if self.position_table else 0
        tokens = padded_vocab_size if self.untied_head else 0
        return (positions + tokens) * self.hidden_size


def padded_vocab_size(vocab_size: int, multiple: int) -> int:
    """Return the vocabulary size rounded up to a multiple of `multiple`."""
    return -(-vocab_size // multiple) * multiple


# The values of a model that is GPT-2 with other sizes.
_VARIANTS = {
    field.name: field.default
    for field in fields(ModelShape)
    if field.name not in {"ffn_hidden_size", "described"} and field.default is not MISSING
}
