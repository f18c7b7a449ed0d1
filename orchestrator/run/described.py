"""Convert a model's shape to its description, and back.

A shape has only sizes, such as the number of layers. A description contains every layer.
"""

from orchestrator.common.errors import UserError
from orchestrator.model.description import Attention, AttentionBiases, Layer, Mlp, Model
from orchestrator.run.shape import ModelShape

_MOST_LAYERS = 100_000


def description(shape: ModelShape, padded_vocab_size: int) -> Model:
    """Return the description of a shape, with the padded vocabulary.

    Raises UserError if the model has too many layers to describe each of them.
    """
    if shape.described is not None:
        return shape.described.with_vocabulary(padded_vocab_size)
    if shape.num_layers > _MOST_LAYERS:
        raise UserError(f"num_layers: must be at most {_MOST_LAYERS:,} (got {shape.num_layers:,})")
    biases: AttentionBiases = shape.biases
    layer = Layer(
        mixer=Attention(
            heads=shape.num_attention_heads,
            key_value_heads=shape.num_key_value_heads or shape.num_attention_heads,
            head_size=shape.hidden_size // shape.num_attention_heads,
            biases=biases,
        ),
        mlp=Mlp(width=shape.ffn_width, gated=shape.gated_mlp, biases=shape.biases == "all"),
    )
    return Model(
        hidden_size=shape.hidden_size,
        vocab_size=padded_vocab_size,
        seq_length=shape.seq_length,
        layers=(layer,) * shape.num_layers,
        norm=shape.norm,
        tied_head=not shape.untied_head,
        position_rows=shape.seq_length if shape.position_table else None,
        embedding_norm=shape.embedding_norm,
    )


def described_shape(model: Model) -> ModelShape:
    """Return the shape of a described model.

    The shape has the model's sizes. Its field `described` is the model itself.
    """
    width = None if model.ffn_width == 4 * model.hidden_size else model.ffn_width
    return ModelShape(
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        num_attention_heads=model.num_attention_heads,
        vocab_size=model.vocab_size,
        seq_length=model.seq_length,
        ffn_hidden_size=width,
        described=model,
    )
