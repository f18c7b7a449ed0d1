"""Read a model from the `config.json` of Hugging Face's transformers.

Each `model_type` has one function, which turns the keys of its family into a description. Keys that
a file leaves out have the defaults of the family's configuration class, which are in
`huggingface_defaults.json`; `tools/record_model_defaults.py` writes it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.model.description import (
    Attention,
    AttentionBiases,
    Experts,
    GatedDeltaNet,
    LatentAttention,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    Model,
    NormKind,
    QueryKeyNorm,
)

_MISSING = object()


class ConfigError(UserError):
    """A configuration that does not describe a model that can be counted."""


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of one `config.json`, over the defaults of its family.

    asked: the names that have been looked up, for the tool that records the defaults.
    """

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)

    def get(self, *names: str) -> Any:
        """Return the value of the first of these keys that the file has, else a default or None.

        null in the file is None, whatever the default.
        """
        self.asked.update(names)
        given = [self.values[name] for name in names if name in self.values]
        source = given or [self.defaults.get(name) for name in names]
        return next((value for value in source if value is not None), None)

    def size(self, *names: str) -> int:
        """Return an integer from 1 on. Raises ConfigError if it is missing or another value."""
        value = self.get(*names)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            said = (
                "is missing" if value is None else f"must be a whole number from 1 on ({value!r})"
            )
            raise ConfigError(f"{names[0]}: {said}")
        return value

    def optional_size(self, *names: str) -> int | None:
        """Return an integer from 1 on; None if the key is absent, null or 0."""
        return self.size(*names) if self.get(*names) else None

    def flag(self, name: str) -> bool:
        """Return a truth value; False if the key is absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{name}: must be true or false ({value!r})")
        return bool(value)

    def given_list(self, name: str, length: int) -> list[Any] | None:
        """Return a list of one item per layer that the file gives, or None."""
        self.asked.add(name)
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) < length:
            raise ConfigError(f"{name}: must be a list of {length}, one item per layer")
        return value[:length]

    @property
    def num_layers(self) -> int:
        """Number of layers, by any of its names."""
        return self.size("num_hidden_layers", "n_layer", "n_layers", "num_layers")

    @property
    def hidden_size(self) -> int:
        """Width of the model, by any of its names."""
        return self.size("hidden_size", "n_embd", "d_model")

    @property
    def heads(self) -> int:
        """Attention heads, by any of their names."""
        return self.size("num_attention_heads", "n_head", "n_heads")

    @property
    def head_size(self) -> int:
        """Width of a head: given, or the hidden size over the heads."""
        return self.optional_size("head_dim") or self.hidden_size // self.heads

    @property
    def key_value_heads(self) -> int:
        """Heads with their own keys and values; all if the file does not give a number."""
        return self.optional_size("num_key_value_heads") or self.heads


def model_of_config(config: Mapping[str, Any], seq_length: int | None = None) -> Model:
    """Return the model that the keys of a `config.json` describe.

    seq_length: tokens of a training sequence; the longest that the model allows if None. Of a model
    of text and images, the part for text is read. Raises ConfigError with what is missing or wrong,
    and for a `model_type` that is not known.
    """
    values = _text_part(config)
    kind = values.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError("model_type: is missing; is this the config.json of a model?")
    kind = _SAME_AS.get(kind, kind)
    if values.get("is_encoder_decoder") is True or kind in _WITH_ENCODER:
        raise ConfigError(
            f"model_type: {kind!r} has an encoder; only decoder-only language models are counted"
        )
    if kind not in READERS:
        raise ConfigError(
            f"model_type: {kind!r} is not known; known are {', '.join(sorted(READERS))}"
        )
    model = READERS[kind](Config(values, defaults(kind)))
    return model if seq_length is None else replace(model, seq_length=seq_length)


def read_model_config(path: Path) -> dict[str, Any]:
    """Return the keys of a `config.json`, or of the one in a folder.

    Raises UserError if it cannot be read, or is not JSON.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise UserError(f"{file}: must contain a JSON object, as config.json of transformers does")
    return config


@cache
def _all_defaults() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("huggingface_defaults.json")
    kinds: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["defaults"]
    return kinds


def defaults(kind: str) -> dict[str, Any]:
    """Return the defaults of a family's configuration class, for the keys that are read."""
    return _all_defaults().get(kind, {})


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of the language model in a configuration of several models."""
    inner = config.get("text_config") or config.get("language_config")
    if not isinstance(inner, Mapping):
        return config
    kind = inner.get("model_type") or _TEXT_OF.get(str(config.get("model_type")))
    outer = {name: config[name] for name in ("tie_word_embeddings",) if name in config}
    return {**outer, **inner, "model_type": kind}


# A configuration of text and images may leave out the type of its language model.
_TEXT_OF = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}
# Types without a decoder of text, or with an encoder besides.
_WITH_ENCODER = frozenset(
    {
        *("albert", "bart", "bert", "deberta", "deberta-v2", "distilbert", "electra", "longt5"),
        *("m2m_100", "mbart", "modernbert", "mt5", "pegasus", "roberta", "t5", "t5gemma", "umt5"),
        *("vit", "whisper", "xlm-roberta"),
    }
)
# Types whose layers and keys are another's.
_SAME_AS = {
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}


def _windows(c: Config, sliding: Callable[[int], bool]) -> list[int | None]:
    """Return the window of each layer; None if the layer sees all tokens.

    sliding: which layers have one if the file has no `layer_types`.
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


def _all(index: int) -> bool:
    return True


def _all_but_every(count: int) -> Callable[[int], bool]:
    return lambda index: (index + 1) % count != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """How the layers of a family differ from LLaMA's.

    attention_biases: of the layers; None to take `attention_bias` of the file. mlp_biases: None to
    take `mlp_bias`. sliding: which layers have the window of the file.
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


def _decoder(c: Config, style: _Style, mlps: Callable[[int], Mlp | Experts] | None = None) -> Model:
    """Return a model of attention layers. mlps: the MLP or experts by the layer's index."""
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
    return _model(c, layers, style)


def _mlp(c: Config, style: _Style) -> Mlp:
    width = c.optional_size(*style.width_names)
    biases = c.flag("mlp_bias") if style.mlp_biases is None else style.mlp_biases
    return Mlp(width=width or 4 * c.hidden_size, gated=style.gated, biases=biases)


def _model(c: Config, layers: tuple[Layer, ...], style: _Style) -> Model:
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


_GPT2 = _Style(norm="layernorm", gated=False, attention_biases="all", mlp_biases=True)


def _gpt2(c: Config) -> Model:
    return _decoder(c, replace(_GPT2, position_rows=True))


def _gpt_bigcode(c: Config) -> Model:
    model = _gpt2(c)
    heads = 1 if c.flag("multi_query") else c.heads
    return _with_mixers(model, lambda mixer: replace(mixer, key_value_heads=heads))


def _with_mixers(model: Model, changed: Callable[[Any], Any]) -> Model:
    layers = tuple(replace(layer, mixer=changed(layer.mixer)) for layer in model.layers)
    return replace(model, layers=layers)


def _gpt_neox(c: Config) -> Model:
    biases: AttentionBiases = "all" if c.flag("attention_bias") else "none"
    return _decoder(c, replace(_GPT2, attention_biases=biases))


def _gptj(c: Config) -> Model:
    return _decoder(c, replace(_GPT2, attention_biases="none", norms=1, head_bias=True))


def _bloom(c: Config) -> Model:
    # n_inner is a key that its class accepts and does not use.
    model = _decoder(c, replace(_GPT2, embedding_norm=True))
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
    model = _decoder(c, style)
    width = c.optional_size("word_embed_proj_dim") or c.hidden_size
    return replace(
        model,
        # The first two rows stand for no position.
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
    model = _decoder(c, style)
    return _with_mixers(model, lambda mixer: replace(mixer, key_value_heads=keys))


def _mpt(c: Config) -> Model:
    # Its LayerNorms have no bias.
    style = _Style(norm="rmsnorm", gated=False, attention_biases="none", mlp_biases=False)
    width = int(c.get("expansion_ratio") or 4) * c.hidden_size
    return _decoder(c, style, lambda index: Mlp(width=width))


def _phi(c: Config) -> Model:
    return _decoder(c, replace(_GPT2, norms=1, head_bias=True))


def _stablelm(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("use_qkv_bias") else "none"
    norms = 1 if c.flag("use_parallel_residual") else 2
    if c.flag("qk_layernorm"):
        raise ConfigError("qk_layernorm: true is not counted for stablelm")
    return _decoder(
        c, _Style(norm="layernorm", norms=norms, attention_biases=biases, mlp_biases=False)
    )


def _starcoder2(c: Config) -> Model:
    biases = c.flag("use_bias")
    style = replace(
        _GPT2, attention_biases="all" if biases else "none", mlp_biases=biases, windows=True
    )
    return _decoder(c, replace(style, sliding=_all))


def _nemotron(c: Config) -> Model:
    return _decoder(c, _Style(norm="layernorm", gated=False))


def _arcee(c: Config) -> Model:
    return _decoder(c, _Style(gated=False))


def _llama(c: Config) -> Model:
    return _decoder(c, _Style())


def _no_biases(c: Config) -> Model:
    return _decoder(c, _Style(attention_biases="none", mlp_biases=False))


def _mistral(c: Config) -> Model:
    return _decoder(
        c, _Style(attention_biases="none", mlp_biases=False, windows=True, sliding=_all)
    )


_QWEN2 = _Style(attention_biases="qkv", mlp_biases=False, windows=True)
_QWEN3 = _Style(mlp_biases=False, windows=True, query_key_norm="head")


def _qwen_style(c: Config, style: _Style) -> _Style:
    if not c.flag("use_sliding_window"):
        return replace(style, windows=False)
    first = c.get("max_window_layers")
    return replace(style, sliding=lambda index: index >= (first or 0))


def _qwen2(c: Config) -> Model:
    return _decoder(c, _qwen_style(c, _QWEN2))


def _qwen3(c: Config) -> Model:
    return _decoder(c, _qwen_style(c, _QWEN3))


def _qwen_mlps(c: Config, *, shared: bool) -> Callable[[int], Mlp | Experts]:
    dense = Mlp(width=c.size("intermediate_size"), gated=True)
    number = c.optional_size("num_experts", "num_local_experts") or 0
    # A model without experts has no use for their width.
    experts = (
        dense
        if not number
        else _experts(
            c,
            shared_width=c.size("shared_expert_intermediate_size") if shared else None,
            shared_gate=shared,
        )
    )
    step = c.optional_size("decoder_sparse_step") or 1
    only = {*(c.get("mlp_only_layers") or ())}
    return lambda index: (
        experts if number and index not in only and (index + 1) % step == 0 else dense
    )


def _experts(c: Config, **changed: Any) -> Experts:
    usual: dict[str, Any] = {
        "number": c.size("num_experts", "num_local_experts", "n_routed_experts"),
        "top_k": c.size("num_experts_per_tok", "moe_topk", "moe_k"),
    }
    if "width" not in changed:
        usual["width"] = c.size("moe_intermediate_size", "intermediate_size")
    return Experts(**{**usual, **changed})


def _qwen2_moe(c: Config) -> Model:
    style = _qwen_style(c, _QWEN2)
    if not c.flag("qkv_bias"):
        style = replace(style, attention_biases="none")
    return _decoder(c, style, _qwen_mlps(c, shared=True))


def _qwen3_moe(c: Config) -> Model:
    return _decoder(c, _qwen_style(c, _QWEN3), _qwen_mlps(c, shared=False))


def _qwen3_next(c: Config) -> Model:
    every = c.optional_size("full_attention_interval") or 4
    types = c.given_list("layer_types", c.num_layers) or [
        "full_attention" if (index + 1) % every == 0 else "linear_attention"
        for index in range(c.num_layers)
    ]
    full = Attention(
        heads=c.heads,
        key_value_heads=c.key_value_heads,
        head_size=c.head_size,
        biases="all" if c.flag("attention_bias") else "none",
        query_key_norm="head",
        output_gate=True,
    )
    linear = GatedDeltaNet(
        key_heads=c.size("linear_num_key_heads"),
        value_heads=c.size("linear_num_value_heads"),
        key_size=c.size("linear_key_head_dim"),
        value_size=c.size("linear_value_head_dim"),
        convolution=c.size("linear_conv_kernel_dim"),
    )
    mlps = _qwen_mlps(c, shared=True)
    layers = tuple(
        Layer(mixer=full if kind == "full_attention" else linear, mlp=mlps(index))
        for index, kind in enumerate(types)
    )
    return _model(c, layers, _Style())


def _mixtral(c: Config) -> Model:
    experts = _experts(c, width=c.size("intermediate_size"))
    style = _Style(attention_biases="none", windows=True, sliding=_all)
    return _decoder(c, style, lambda index: experts)


def _olmoe(c: Config) -> Model:
    experts = _experts(c, width=c.size("intermediate_size"))
    return _decoder(c, _Style(query_key_norm="width"), lambda index: experts)


def _gpt_oss(c: Config) -> Model:
    experts = _experts(c, width=c.size("intermediate_size"), biases=True, router_bias=True)
    style = _Style(windows=True, sliding=_all_but_every(2))
    model = _decoder(c, style, lambda index: experts)
    return _with_mixers(model, lambda mixer: replace(mixer, sinks=True))


def _glm4_moe_lite(c: Config) -> Model:
    return _deepseek(c, usually=1)


def _deepseek(c: Config, usually: int = 0) -> Model:
    mixer = LatentAttention(
        heads=c.heads,
        query_rank=c.optional_size("q_lora_rank"),
        key_value_rank=c.size("kv_lora_rank"),
        nope_size=c.size("qk_nope_head_dim"),
        rope_size=c.size("qk_rope_head_dim"),
        value_size=c.size("v_head_dim"),
        biases=c.flag("attention_bias"),
    )
    mlps = _leading_dense(c, usually)
    layers = tuple(Layer(mixer=mixer, mlp=mlps(index)) for index in range(c.num_layers))
    return _model(c, layers, _Style())


def _leading_dense(c: Config, usually: int = 0) -> Callable[[int], Mlp | Experts]:
    """Return experts for all layers except the first `first_k_dense_replace`.

    usually: how many these are if the file has neither this key nor `mlp_layer_types`.
    """
    dense = Mlp(width=c.size("intermediate_size"), gated=True)
    width = c.size("moe_intermediate_size")
    shared = c.optional_size("n_shared_experts", "num_shared_experts")
    experts = _experts(c, shared_width=None if shared is None else shared * width)
    types = c.given_list("mlp_layer_types", c.num_layers)
    if types is not None:
        return lambda index: experts if types[index] == "sparse" else dense
    first = c.get("first_k_dense_replace")
    first = usually if first is None else first
    every = c.optional_size("moe_layer_freq") or 1
    return lambda index: experts if index >= first and index % every == 0 else dense


def _glm4_moe(c: Config) -> Model:
    style = _Style(
        attention_biases="qkv" if c.flag("attention_bias") else "none",
        query_key_norm="head" if c.flag("use_qk_norm") else "none",
    )
    return _decoder(c, style, _leading_dense(c))


def _dots1(c: Config) -> Model:
    style = _Style(query_key_norm="head", windows=True)
    return _decoder(c, style, _leading_dense(c))


def _gemma(c: Config) -> Model:
    return _decoder(c, _Style(mlp_biases=False))


def _gemma2(c: Config) -> Model:
    style = _Style(norms=4, mlp_biases=False, windows=True, sliding=_all_but_every(2))
    return _decoder(c, style)


def _gemma3(c: Config) -> Model:
    every = c.optional_size("sliding_window_pattern", "_sliding_window_pattern") or 6
    style = _Style(
        norms=4,
        mlp_biases=False,
        query_key_norm="head",
        windows=True,
        sliding=_all_but_every(every),
    )
    return _decoder(c, style)


def _olmo(c: Config) -> Model:
    return _decoder(c, _Style(norm="none", mlp_biases=False))


def _olmo2(c: Config) -> Model:
    return _decoder(c, _Style(query_key_norm="width", mlp_biases=False))


def _olmo3(c: Config) -> Model:
    style = _Style(
        query_key_norm="width", mlp_biases=False, windows=True, sliding=_all_but_every(4)
    )
    return _decoder(c, style)


def _cohere(c: Config) -> Model:
    # Its LayerNorms have no bias.
    normed: QueryKeyNorm = "width" if c.flag("use_qk_norm") else "none"
    return _decoder(c, _Style(norms=1, query_key_norm=normed, mlp_biases=False))


def _cohere2(c: Config) -> Model:
    every = c.optional_size("sliding_window_pattern", "_sliding_window_pattern") or 4
    return _decoder(
        c, _Style(norms=1, mlp_biases=False, windows=True, sliding=_all_but_every(every))
    )


def _glm(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("attention_bias") else "none"
    return _decoder(c, _Style(attention_biases=biases, mlp_biases=False))


def _glm4(c: Config) -> Model:
    biases: AttentionBiases = "qkv" if c.flag("attention_bias") else "none"
    return _decoder(c, _Style(norms=4, attention_biases=biases, mlp_biases=False))


def _exaone4(c: Config) -> Model:
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str):
        sliding = lambda index: pattern[index % len(pattern)] == "L"  # noqa: E731
    else:
        sliding = _all_but_every(pattern or 4)
    style = _Style(
        query_key_norm="head",
        attention_biases="none",
        mlp_biases=False,
        windows=True,
        sliding=sliding,
    )
    return _decoder(c, style)


def _seed_oss(c: Config) -> Model:
    biases: AttentionBiases = "none"
    if c.flag("attention_bias"):
        biases = "all" if c.flag("attention_out_bias") else "qkv"
    return _decoder(c, _Style(attention_biases=biases))


def _hunyuan(c: Config) -> Model:
    return _decoder(c, _Style(query_key_norm="head", mlp_biases=False))


def _minimax_m2(c: Config) -> Model:
    experts = _experts(c, width=c.size("intermediate_size"))
    style = _Style(attention_biases="none", query_key_norm="width")
    return _decoder(c, style, lambda index: experts)


def _ernie(c: Config) -> Model:
    biases = c.flag("use_bias")
    return _decoder(c, _Style(attention_biases="all" if biases else "none", mlp_biases=biases))


def _ernie_moe(c: Config) -> Model:
    biases = c.flag("use_bias")
    dense = Mlp(width=c.size("intermediate_size"), gated=True, biases=biases)
    width = c.size("moe_intermediate_size")
    shared = c.optional_size("moe_num_shared_experts")
    experts = Experts(
        number=c.size("moe_num_experts"),
        top_k=c.size("moe_k"),
        width=width,
        biases=biases,
        # It corrects the scores of experts.
        router_bias=True,
        shared_width=None if shared is None else shared * width,
    )
    every = c.optional_size("moe_layer_interval") or 1
    first, last = c.get("moe_layer_start_index") or 0, c.get("moe_layer_end_index")
    if last is None or last < 0:
        last = c.num_layers - 1
    style = _Style(attention_biases="all" if biases else "none")
    return _decoder(
        c,
        style,
        lambda index: experts if first <= index <= last and (index + 1) % every == 0 else dense,
    )


def _phimoe(c: Config) -> Model:
    experts = _experts(c, width=c.size("intermediate_size"))
    style = _Style(norm="layernorm", head_bias=c.flag("lm_head_bias"), windows=True, sliding=_all)
    return _decoder(c, style, lambda index: experts)


def _hunyuan_moe(c: Config) -> Model:
    width = c.size("intermediate_size")
    experts = _experts(c, width=width, shared_width=width)
    return _decoder(c, _Style(query_key_norm="head"), lambda index: experts)


def _granite_moe(c: Config) -> Model:
    shared = c.optional_size("shared_intermediate_size")
    experts = _experts(c, width=c.size("intermediate_size"), shared_width=shared)
    return _decoder(c, _Style(), lambda index: experts)


def _llama4(c: Config) -> Model:
    interleaved = c.size("interleave_moe_layer_step")
    given = c.get("moe_layers")
    sparse = {*(given or range(interleaved - 1, c.num_layers, interleaved))}
    width = c.size("intermediate_size")
    experts = _experts(c, width=width, shared_width=width)
    dense = Mlp(width=c.size("intermediate_size_mlp"), gated=True)
    types = c.given_list("layer_types", c.num_layers)
    ropes = c.given_list("no_rope_layers", c.num_layers)
    every = c.optional_size("no_rope_layer_interval") or 4
    if not types:
        ropes = ropes or [int((index + 1) % every != 0) for index in range(c.num_layers)]
        types = ["chunked_attention" if rope else "full_attention" for rope in ropes]
    chunk = c.optional_size("attention_chunk_size")
    mixer = Attention(
        heads=c.heads,
        key_value_heads=c.key_value_heads,
        head_size=c.head_size,
        biases="all" if c.flag("attention_bias") else "none",
    )
    layers = tuple(
        Layer(
            mixer=replace(mixer, chunk=chunk if kind == "chunked_attention" else None),
            mlp=experts if index in sparse else dense,
        )
        for index, kind in enumerate(types)
    )
    return _model(c, layers, _Style())


def _mamba2_block(c: Config, prefix: str, inner: int, size: int | None = None) -> Mamba2:
    """Return a Mamba-2 block whose keys begin with `prefix`, of `inner` values per token.

    size: of a head, if it follows from other keys.
    """
    size = size or c.size(f"{prefix}head_dim", f"{prefix}d_head")
    return Mamba2(
        heads=inner // size,
        head_size=size,
        state_size=c.size("ssm_state_size", "state_size", "mamba_d_state"),
        groups=c.size("n_groups", "mamba_n_groups"),
        convolution=c.size("conv_kernel", "mamba_d_conv"),
        chunk=c.size("chunk_size", "mamba_chunk_size"),
        convolution_bias=c.flag("use_conv_bias") or c.flag("mamba_conv_bias"),
        biases=c.flag("use_bias") or c.flag("mamba_proj_bias"),
    )


def _mamba2(c: Config) -> Model:
    inner = int(c.get("expand") * c.hidden_size)
    block = _mamba2_block(c, "", inner)
    layers = (Layer(mixer=block, mlp=None, norms=1),) * c.num_layers
    return _model(c, layers, _Style())


def _granite_hybrid(c: Config) -> Model:
    """Return layers of Mamba-2 or attention, each with experts and an MLP that all tokens take."""
    shared = Mlp(width=c.size("shared_intermediate_size"), gated=True)
    mlp: Mlp | Experts = shared
    if c.optional_size("num_local_experts"):
        mlp = _experts(c, width=c.size("intermediate_size"), shared_width=shared.width)
    types = c.given_list("layer_types", c.num_layers) or c.given_list(
        "layers_block_type", c.num_layers
    )
    return _mamba_and_attention(c, types or ["mamba"] * c.num_layers, mlp)


def _bamba(c: Config) -> Model:
    attention = {*(c.get("attn_layer_indices") or ())}
    types = ["attention" if index in attention else "mamba" for index in range(c.num_layers)]
    mlp = Mlp(width=c.size("intermediate_size"), gated=True, biases=c.flag("mlp_bias"))
    return _mamba_and_attention(c, types, mlp)


def _mamba_and_attention(c: Config, types: list[Any], mlp: Mlp | Experts) -> Model:
    inner = int(c.get("mamba_expand") * c.hidden_size)
    heads = c.size("mamba_n_heads")
    mixers: dict[str, Mixer] = {}
    for kind in dict.fromkeys(types):
        if kind in {"attention", "full_attention"}:
            mixers[kind] = Attention(
                heads=c.heads,
                key_value_heads=c.key_value_heads,
                head_size=c.head_size,
                biases="all" if c.flag("attention_bias") else "none",
            )
        elif kind in {"mamba", "linear_attention"}:
            mixers[kind] = _mamba2_block(c, "mamba_", inner, inner // heads)
        else:
            raise ConfigError(f"layer_types: {kind!r} is not known")
    layers = tuple(Layer(mixer=mixers[kind], mlp=mlp) for kind in types)
    return _model(c, layers, _Style())


_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_h(c: Config) -> Model:
    types = c.get("layers_block_type")
    if types is None:
        pattern = c.get("hybrid_override_pattern")
        if not isinstance(pattern, str):
            raise ConfigError("layers_block_type: is missing")
        unknown = {*pattern} - _NEMOTRON_LETTERS.keys()
        if unknown:
            raise ConfigError(f"hybrid_override_pattern: {sorted(unknown)} are no layers")
        types = [_NEMOTRON_LETTERS[letter] for letter in pattern]
    if not isinstance(types, list):
        raise ConfigError("layers_block_type: must be a list, one item per layer")
    blocks: dict[str, Layer] = {}
    for kind in dict.fromkeys(types):
        blocks[kind] = replace(_nemotron_h_block(c, kind), norms=1)
    return _model(c, tuple(blocks[kind] for kind in types), _Style())


def _nemotron_h_block(c: Config, kind: str) -> Layer:
    biases = c.flag("mlp_bias")
    match kind:
        case "mamba" | "linear_attention":
            inner = c.size("mamba_num_heads") * c.size("mamba_head_dim")
            return Layer(mixer=_mamba2_block(c, "mamba_", inner), mlp=None)
        case "attention" | "full_attention":
            mixer = Attention(
                heads=c.heads,
                key_value_heads=c.key_value_heads,
                head_size=c.head_size,
                window=c.optional_size("sliding_window"),
                biases="all" if c.flag("attention_bias") else "none",
            )
            return Layer(mixer=mixer, mlp=None)
        case "mlp":
            return Layer(mixer=None, mlp=Mlp(width=c.size("intermediate_size"), biases=biases))
        case "moe":
            shared = c.optional_size("moe_shared_expert_intermediate_size")
            number = c.get("n_shared_experts")
            experts = _experts(
                c,
                gated=False,
                biases=biases,
                shared_width=shared if number != 0 else None,
                latent_size=c.optional_size("moe_latent_size"),
            )
            return Layer(mixer=None, mlp=experts)
    raise ConfigError(f"layers_block_type: {kind!r} is not known")


READERS: dict[str, Callable[[Config], Model]] = {
    "arcee": _arcee,
    "bamba": _bamba,
    "bloom": _bloom,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "dots1": _dots1,
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie_moe,
    "exaone4": _exaone4,
    "falcon": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "glm": _glm,
    "glm4": _glm4,
    "glm4_moe": _glm4_moe,
    "glm4_moe_lite": _glm4_moe_lite,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "gptj": _gptj,
    "granite": _llama,
    "granitemoe": _granite_moe,
    "granitemoehybrid": _granite_hybrid,
    "granitemoeshared": _granite_moe,
    "helium": _llama,
    "hunyuan_v1_dense": _hunyuan,
    "hunyuan_v1_moe": _hunyuan_moe,
    "llama": _llama,
    "llama4_text": _llama4,
    "mamba2": _mamba2,
    "minimax_m2": _minimax_m2,
    "ministral": _mistral,
    "ministral3": _mistral,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "mpt": _mpt,
    "nemotron": _nemotron,
    "nemotron_h": _nemotron_h,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo3,
    "olmoe": _olmoe,
    "opt": _opt,
    "phi": _phi,
    "phi3": _mistral,
    "phimoe": _phimoe,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "seed_oss": _seed_oss,
    "smollm3": _llama,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}


def kinds_of_layers(model: Model) -> Iterator[str]:
    """Yield the name of each kind of mixer and MLP in a model, once."""
    named = (
        type(part).__name__
        for layer in model.layers
        for part in (layer.mixer, layer.mlp)
        if part is not None
    )
    yield from dict.fromkeys(named)
