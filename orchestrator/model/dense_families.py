"""Read families of Hugging Face models whose layers have attention and an MLP.

Each function turns the keys of a family into a description. A `LayerStyle` contains how the layers
of a family differ from those of LLaMA.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.model.config_json import Config, ConfigError
from orchestrator.model.description import (
    Attention,
    AttentionBiases,
    Experts,
    Layer,
    Mlp,
    Model,
    NormKind,
    QueryKeyNorm,
)


def _windows(c: Config, sliding: Callable[[int], bool]) -> list[int | None]:
    """Return how many keys a query sees in each layer; None for a layer without a window.

    If the file gives no size of a window, no layer has one. Otherwise the file's list
    `layer_types` decides which layers have a window. If the file lacks this list, `sliding`
    decides: a function that returns whether the layer at an index (from 0) has a window.
    """
    window = c.optional_size("sliding_window", "attention_window")
    types = c.given_list("layer_types", c.num_layers)
    if window is None:
        return [None] * c.num_layers
    if types is not None:
        return [window if kind == "sliding_attention" else None for kind in types]
    return [window if sliding(index) else None for index in range(c.num_layers)]


def _none(index: int) -> bool:
    return False


def every_layer(index: int) -> bool:
    """Return True for any layer index: every layer has an attention window."""
    return True


def all_but_every(count: int) -> Callable[[int], bool]:
    """Return a function that returns whether the layer at an index (from 0) has a window.

    All layers have an attention window, except every `count`-th layer. For example, with
    `count` 4 the layers at 3, 7, 11 and so on have none.
    """
    return lambda index: (index + 1) % count != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStyle:
    """How the layers of a family differ from LLaMA's.

    attention_biases: whether attention has biases; None to use the file's `attention_bias`.
    mlp_biases: whether MLPs have biases; None to use the file's `mlp_bias`.
    windows: whether layers of the family can have attention windows.
    sliding: a function that returns whether the layer at an index (from 0) has an attention
        window. It is used only if `windows` is true.
    """

    norm: NormKind = "rmsnorm"
    norms: int = 2
    gated: bool = True
    width_names: tuple[str, ...] = ("intermediate_size", "n_inner")
    attention_biases: AttentionBiases | None = None
    mlp_biases: bool | None = None
    query_key_norm: QueryKeyNorm = "none"
    sliding: Callable[[int], bool] = _none
    windows: bool = False
    position_rows: bool = False
    embedding_norm: bool = False
    head_bias: bool = False
    tied: bool | None = None


def decoder(
    c: Config, style: LayerStyle, mlps: Callable[[int], Mlp | Experts] | None = None
) -> Model:
    """Return a decoder model whose layers have attention, and an MLP or experts.

    mlps: a function that returns the MLP or the experts of the layer at an index (from 0); None if
    all layers have the MLP that the file describes.
    """
    biases = style.attention_biases
    if biases is None:
        biases = "all" if c.flag("attention_bias") else "none"
    windows = _windows(c, style.sliding) if style.windows else [None] * c.num_layers

    def mixer(window: int | None) -> Attention:
        return Attention(
            heads=c.heads,
            key_value_heads=c.key_value_heads,
            head_size=c.head_size,
            window=window,
            biases=biases,
            query_key_norm=style.query_key_norm,
        )

    usual = None if mlps else _mlp(c, style)
    layers = tuple(
        Layer(mixer=mixer(window), mlp=mlps(index) if mlps else usual, norms=style.norms)
        for index, window in enumerate(windows)
    )
    return model_of_layers(c, layers, style)


def _mlp(c: Config, style: LayerStyle) -> Mlp:
    width = c.optional_size(*style.width_names)
    biases = c.flag("mlp_bias") if style.mlp_biases is None else style.mlp_biases
    return Mlp(width=width or 4 * c.hidden_size, gated=style.gated, biases=biases)


def model_of_layers(c: Config, layers: tuple[Layer, ...], style: LayerStyle) -> Model:
    """Return a model with these layers, and with the file's embeddings and head."""
    positions = c.optional_size(
        "max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length"
    )
    return Model(
        hidden_size=c.hidden_size,
        vocab_size=c.size("vocab_size"),
        seq_length=positions or 2048,
        layers=layers,
        norm=style.norm,
        tied_head=c.flag("tie_word_embeddings") if style.tied is None else style.tied,
        head_bias=style.head_bias,
        position_rows=positions if style.position_rows else None,
        embedding_norm=style.embedding_norm,
    )


_GPT2 = LayerStyle(norm="layernorm", gated=False, attention_biases="all", mlp_biases=True)


def _gpt2(c: Config) -> Model:
    return decoder(c, replace(_GPT2, position_rows=True))


def _gpt_bigcode(c: Config) -> Model:
    model = _gpt2(c)
    heads = 1 if c.flag("multi_query") else c.heads
    return with_mixers(model, lambda mixer: replace(mixer, key_value_heads=heads))


def with_mixers(model: Model, changed: Callable[[Any], Any]) -> Model:
    """Return the model with another mixer (e.g. attention) in each layer.

    changed: a function that gets the old mixer of a layer and returns the new one.
    """
    layers = tuple(replace(layer, mixer=changed(layer.mixer)) for layer in model.layers)
    return replace(model, layers=layers)


def _gpt_neox(c: Config) -> Model:
    biases: AttentionBiases = "all" if c.flag("attention_bias") else "none"
    return decoder(c, replace(_GPT2, attention_biases=biases))


def _gptj(c: Config) -> Model:
    return decoder(c, replace(_GPT2, attention_biases="none", norms=1, head_bias=True))


def _bloom(c: Config) -> Model:
    # The class of transformers accepts the key n_inner, but does not use it.
    model = decoder(c, replace(_GPT2, embedding_norm=True))
    usual = Mlp(width=4 * c.hidden_size, biases=True)
    return replace(model, layers=tuple(replace(layer, mlp=usual) for layer in model.layers))


def _opt(c: Config) -> Model:
    biases = c.flag("enable_bias")
    affine = c.flag("layer_norm_elementwise_affine")
    style = replace(
        _GPT2,
        norm="layernorm" if affine else "none",
        attention_biases="all" if biases else "none",
        mlp_biases=biases,
        width_names=("ffn_dim",),
    )
    model = decoder(c, style)
    width = c.optional_size("word_embed_proj_dim") or c.hidden_size
    return replace(
        model,
        # The first two rows belong to no position.
        position_rows=model.seq_length + 2,
        embedding_size=None if width == c.hidden_size else width,
        final_norm=c.flag("do_layer_norm_before") and not c.flag("_remove_final_layer_norm"),
    )


def _falcon(c: Config) -> Model:
    new, parallel = c.flag("new_decoder_architecture"), c.flag("parallel_attn")
    if new:
        keys = c.optional_size("num_kv_heads", "n_head_kv") or c.heads
    else:
        keys = 1 if c.flag("multi_query") else c.heads
    norms = 2
    if new and parallel:
        norms = c.optional_size("num_ln_in_parallel_attn") or 2
    elif parallel:
        norms = 1
    biases = c.flag("bias")
    style = replace(
        _GPT2,
        attention_biases="all" if biases else "none",
        mlp_biases=biases,
        norms=norms,
        width_names=("ffn_hidden_size",),
    )
    model = decoder(c, style)
    return with_mixers(model, lambda mixer: replace(mixer, key_value_heads=keys))


def _mpt(c: Config) -> Model:
    # Its LayerNorms have no bias.
    style = LayerStyle(norm="rmsnorm", gated=False, attention_biases="none", mlp_biases=False)
    width = int(c.get("expansion_ratio") or 4) * c.hidden_size
    return decoder(c, style, lambda index: Mlp(width=width))


def _phi(c: Config) -> Model:
    return decoder(c, replace(_GPT2, norms=1, head_bias=True))


def _stablelm(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("use_qkv_bias") else "none"
    norms = 1 if c.flag("use_parallel_residual") else 2
    if c.flag("qk_layernorm"):
        raise ConfigError(
            "qk_layernorm: must be false; teralog cannot count such norms in a stablelm model"
        )
    return decoder(
        c, LayerStyle(norm="layernorm", norms=norms, attention_biases=biases, mlp_biases=False)
    )


def _starcoder2(c: Config) -> Model:
    biases = c.flag("use_bias")
    style = replace(
        _GPT2, attention_biases="all" if biases else "none", mlp_biases=biases, windows=True
    )
    return decoder(c, replace(style, sliding=every_layer))


def _nemotron(c: Config) -> Model:
    return decoder(c, LayerStyle(norm="layernorm", gated=False))


def _arcee(c: Config) -> Model:
    return decoder(c, LayerStyle(gated=False))


def _llama(c: Config) -> Model:
    return decoder(c, LayerStyle())


def _mistral(c: Config) -> Model:
    return decoder(
        c, LayerStyle(attention_biases="none", mlp_biases=False, windows=True, sliding=every_layer)
    )


QWEN2 = LayerStyle(attention_biases="qkv", mlp_biases=False, windows=True)


QWEN3 = LayerStyle(mlp_biases=False, windows=True, query_key_norm="head")


def qwen_style(c: Config, style: LayerStyle) -> LayerStyle:
    """Return the style of a Qwen family with the attention windows that the file describes."""
    if not c.flag("use_sliding_window"):
        return replace(style, windows=False)
    first = c.get("max_window_layers")
    return replace(style, sliding=lambda index: index >= (first or 0))


def _qwen2(c: Config) -> Model:
    return decoder(c, qwen_style(c, QWEN2))


def _qwen3(c: Config) -> Model:
    return decoder(c, qwen_style(c, QWEN3))


def _gemma(c: Config) -> Model:
    return decoder(c, LayerStyle(mlp_biases=False))


def _gemma2(c: Config) -> Model:
    style = LayerStyle(norms=4, mlp_biases=False, windows=True, sliding=all_but_every(2))
    return decoder(c, style)


def _gemma3(c: Config) -> Model:
    every = c.optional_size("sliding_window_pattern", "_sliding_window_pattern") or 6
    style = LayerStyle(
        norms=4,
        mlp_biases=False,
        query_key_norm="head",
        windows=True,
        sliding=all_but_every(every),
    )
    return decoder(c, style)


def _olmo(c: Config) -> Model:
    return decoder(c, LayerStyle(norm="none", mlp_biases=False))


def _olmo2(c: Config) -> Model:
    return decoder(c, LayerStyle(query_key_norm="width", mlp_biases=False))


def _olmo3(c: Config) -> Model:
    style = LayerStyle(
        query_key_norm="width", mlp_biases=False, windows=True, sliding=all_but_every(4)
    )
    return decoder(c, style)


def _cohere(c: Config) -> Model:
    # Its LayerNorms have no bias.
    normed: QueryKeyNorm = "width" if c.flag("use_qk_norm") else "none"
    return decoder(c, LayerStyle(norms=1, query_key_norm=normed, mlp_biases=False))


def _cohere2(c: Config) -> Model:
    every = c.optional_size("sliding_window_pattern", "_sliding_window_pattern") or 4
    return decoder(
        c, LayerStyle(norms=1, mlp_biases=False, windows=True, sliding=all_but_every(every))
    )


def _glm(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("attention_bias") else "none"
    return decoder(c, LayerStyle(attention_biases=biases, mlp_biases=False))


def _glm4(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("attention_bias") else "none"
    return decoder(c, LayerStyle(norms=4, attention_biases=biases, mlp_biases=False))


def _exaone4(c: Config) -> Model:
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str):
        sliding = lambda index: pattern[index % len(pattern)] == "L"  # noqa: E731
    else:
        sliding = all_but_every(pattern or 4)
    style = LayerStyle(
        query_key_norm="head",
        attention_biases="none",
        mlp_biases=False,
        windows=True,
        sliding=sliding,
    )
    return decoder(c, style)


def _seed_oss(c: Config) -> Model:
    biases: AttentionBiases = "none"
    if c.flag("attention_bias"):
        biases = "all" if c.flag("attention_out_bias") else "qkv"
    return decoder(c, LayerStyle(attention_biases=biases))


def _hunyuan(c: Config) -> Model:
    return decoder(c, LayerStyle(query_key_norm="head", mlp_biases=False))


def _ernie(c: Config) -> Model:
    biases = c.flag("use_bias")
    return decoder(c, LayerStyle(attention_biases="all" if biases else "none", mlp_biases=biases))


DENSE: dict[str, Callable[[Config], Model]] = {
    "arcee": _arcee,
    "bloom": _bloom,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "ernie4_5": _ernie,
    "exaone4": _exaone4,
    "falcon": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "glm": _glm,
    "glm4": _glm4,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "granite": _llama,
    "helium": _llama,
    "hunyuan_v1_dense": _hunyuan,
    "llama": _llama,
    "ministral": _mistral,
    "ministral3": _mistral,
    "mistral": _mistral,
    "mpt": _mpt,
    "nemotron": _nemotron,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo3,
    "opt": _opt,
    "phi": _phi,
    "phi3": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "seed_oss": _seed_oss,
    "smollm3": _llama,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
"""The functions that read families with attention and an MLP in each layer."""
