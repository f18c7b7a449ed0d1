"""Read families of Hugging Face models with experts, e.g. Mixtral and DeepSeek."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orchestrator.model.config_json import Config
from orchestrator.model.dense_families import (
    QWEN2,
    QWEN3,
    LayerStyle,
    all_but_every,
    decoder,
    every_layer,
    model_of_layers,
    qwen_style,
    with_mixers,
)
from orchestrator.model.description import Attention, Experts, LatentAttention, Layer, Mlp, Model


def qwen_mlps(c: Config, *, shared: bool) -> Callable[[int], Mlp | Experts]:
    """Return a function that returns the MLP or the experts of the Qwen layer at an index (from 0).

    shared: whether layers with experts have a shared expert, which every token uses.
    """
    dense = Mlp(width=c.size("intermediate_size"), gated=True)
    number = c.optional_size("num_experts", "num_local_experts") or 0
    # The file of a model without experts need not have their width.
    experts = (
        dense
        if not number
        else experts_of(
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


def experts_of(c: Config, **changed: Any) -> Experts:
    """Return the experts that a config.json describes.

    changed: fields of `Experts` whose values replace those of the file.
    """
    usual: dict[str, Any] = {
        "number": c.size("num_experts", "num_local_experts", "n_routed_experts"),
        "top_k": c.size("num_experts_per_tok", "moe_topk", "moe_k"),
    }
    if "width" not in changed:
        usual["width"] = c.size("moe_intermediate_size", "intermediate_size")
    return Experts(**{**usual, **changed})


def _qwen2_moe(c: Config) -> Model:
    style = qwen_style(c, QWEN2)
    if not c.flag("qkv_bias"):
        style = replace(style, attention_biases="none")
    return decoder(c, style, qwen_mlps(c, shared=True))


def _qwen3_moe(c: Config) -> Model:
    return decoder(c, qwen_style(c, QWEN3), qwen_mlps(c, shared=False))


def _mixtral(c: Config) -> Model:
    experts = experts_of(c, width=c.size("intermediate_size"))
    style = LayerStyle(attention_biases="none", windows=True, sliding=every_layer)
    return decoder(c, style, lambda index: experts)


def _olmoe(c: Config) -> Model:
    experts = experts_of(c, width=c.size("intermediate_size"))
    return decoder(c, LayerStyle(query_key_norm="width"), lambda index: experts)


def _gpt_oss(c: Config) -> Model:
    experts = experts_of(c, width=c.size("intermediate_size"), biases=True, router_bias=True)
    style = LayerStyle(windows=True, sliding=all_but_every(2))
    model = decoder(c, style, lambda index: experts)
    return with_mixers(model, lambda mixer: replace(mixer, sinks=True))


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
    return model_of_layers(c, layers, LayerStyle())


def _leading_dense(c: Config, usually: int = 0) -> Callable[[int], Mlp | Experts]:
    """Return a function that returns the MLP or the experts of the layer at an index (from 0).

    If the file has `mlp_layer_types`, this list decides which layers have experts. Otherwise the
    first layers have an MLP. Their number is the value of `first_k_dense_replace`, or `usually` if
    the file lacks this key. Of the remaining layers, only those whose index is a multiple of
    `moe_layer_freq` (1 by default) have experts.
    """
    dense = Mlp(width=c.size("intermediate_size"), gated=True)
    width = c.size("moe_intermediate_size")
    shared = c.optional_size("n_shared_experts", "num_shared_experts")
    experts = experts_of(c, shared_width=None if shared is None else shared * width)
    types = c.given_list("mlp_layer_types", c.num_layers)
    if types is not None:
        return lambda index: experts if types[index] == "sparse" else dense
    first = c.get("first_k_dense_replace")
    first = usually if first is None else first
    every = c.optional_size("moe_layer_freq") or 1
    return lambda index: experts if index >= first and index % every == 0 else dense


def _glm4_moe(c: Config) -> Model:
    style = LayerStyle(
        attention_biases="qkv" if c.flag("attention_bias") else "none",
        query_key_norm="head" if c.flag("use_qk_norm") else "none",
    )
    return decoder(c, style, _leading_dense(c))


def _dots1(c: Config) -> Model:
    style = LayerStyle(query_key_norm="head", windows=True)
    return decoder(c, style, _leading_dense(c))


def _minimax_m2(c: Config) -> Model:
    experts = experts_of(c, width=c.size("intermediate_size"))
    style = LayerStyle(attention_biases="none", query_key_norm="width")
    return decoder(c, style, lambda index: experts)


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
        # The bias corrects the scores of experts.
        router_bias=True,
        shared_width=None if shared is None else shared * width,
    )
    every = c.optional_size("moe_layer_interval") or 1
    first, last = c.get("moe_layer_start_index") or 0, c.get("moe_layer_end_index")
    if last is None or last < 0:
        last = c.num_layers - 1
    style = LayerStyle(attention_biases="all" if biases else "none")
    return decoder(
        c,
        style,
        lambda index: experts if first <= index <= last and (index + 1) % every == 0 else dense,
    )


def _phimoe(c: Config) -> Model:
    experts = experts_of(c, width=c.size("intermediate_size"))
    style = LayerStyle(
        norm="layernorm", head_bias=c.flag("lm_head_bias"), windows=True, sliding=every_layer
    )
    return decoder(c, style, lambda index: experts)


def _hunyuan_moe(c: Config) -> Model:
    width = c.size("intermediate_size")
    experts = experts_of(c, width=width, shared_width=width)
    return decoder(c, LayerStyle(query_key_norm="head"), lambda index: experts)


def _granite_moe(c: Config) -> Model:
    shared = c.optional_size("shared_intermediate_size")
    experts = experts_of(c, width=c.size("intermediate_size"), shared_width=shared)
    return decoder(c, LayerStyle(), lambda index: experts)


def _llama4(c: Config) -> Model:
    interleaved = c.size("interleave_moe_layer_step")
    given = c.get("moe_layers")
    sparse = {*(given or range(interleaved - 1, c.num_layers, interleaved))}
    width = c.size("intermediate_size")
    experts = experts_of(c, width=width, shared_width=width)
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
    return model_of_layers(c, layers, LayerStyle())


EXPERTS: dict[str, Callable[[Config], Model]] = {
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "dots1": _dots1,
    "ernie4_5_moe": _ernie_moe,
    "glm4_moe": _glm4_moe,
    "glm4_moe_lite": _glm4_moe_lite,
    "gpt_oss": _gpt_oss,
    "granitemoe": _granite_moe,
    "granitemoeshared": _granite_moe,
    "hunyuan_v1_moe": _hunyuan_moe,
    "llama4_text": _llama4,
    "minimax_m2": _minimax_m2,
    "mixtral": _mixtral,
    "olmoe": _olmoe,
    "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
}
"""The functions that read families with experts."""
