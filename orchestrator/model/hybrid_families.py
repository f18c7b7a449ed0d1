"""Read families of Hugging Face models with Mamba-2 or a gated delta net in some layers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orchestrator.model.config_json import Config, ConfigError
from orchestrator.model.dense_families import LayerStyle, model_of_layers
from orchestrator.model.description import (
    Attention,
    Experts,
    GatedDeltaNet,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    Model,
)
from orchestrator.model.expert_families import experts_of, qwen_mlps


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
    mlps = qwen_mlps(c, shared=True)
    layers = tuple(
        Layer(mixer=full if kind == "full_attention" else linear, mlp=mlps(index))
        for index, kind in enumerate(types)
    )
    return model_of_layers(c, layers, LayerStyle())


def _mamba2_block(c: Config, prefix: str, inner: int, size: int | None = None) -> Mamba2:
    """Return a Mamba-2 block whose inner width is `inner`.

    size: the size of a head; None to read it from the file. prefix: the beginning of the key that
    has this size in the file, e.g. `mamba_` if the key is `mamba_d_head`.
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
    return model_of_layers(c, layers, LayerStyle())


def _granite_hybrid(c: Config) -> Model:
    """Return a model whose layers have Mamba-2 or attention, and also experts and a shared MLP.

    If the file has no experts, the layers have the MLP without experts.
    """
    shared = Mlp(width=c.size("shared_intermediate_size"), gated=True)
    mlp: Mlp | Experts = shared
    if c.optional_size("num_local_experts"):
        mlp = experts_of(c, width=c.size("intermediate_size"), shared_width=shared.width)
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
    return model_of_layers(c, layers, LayerStyle())


_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_h(c: Config) -> Model:
    types = c.get("layers_block_type")
    if types is None:
        pattern = c.get("hybrid_override_pattern")
        if not isinstance(pattern, str):
            raise ConfigError("layers_block_type: is missing")
        unknown = {*pattern} - _NEMOTRON_LETTERS.keys()
        if unknown:
            raise ConfigError(
                f"hybrid_override_pattern: unknown letters {', '.join(sorted(unknown))}; use "
                f"{', '.join(_NEMOTRON_LETTERS)}"
            )
        types = [_NEMOTRON_LETTERS[letter] for letter in pattern]
    if not isinstance(types, list):
        raise ConfigError("layers_block_type: must be a list, one item per layer")
    blocks: dict[str, Layer] = {}
    for kind in dict.fromkeys(types):
        blocks[kind] = replace(_nemotron_h_block(c, kind), norms=1)
    return model_of_layers(c, tuple(blocks[kind] for kind in types), LayerStyle())


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
            experts = experts_of(
                c,
                gated=False,
                biases=biases,
                shared_width=shared if number != 0 else None,
                latent_size=c.optional_size("moe_latent_size"),
            )
            return Layer(mixer=None, mlp=experts)
    raise ConfigError(f"layers_block_type: {kind!r} is not known")


HYBRIDS: dict[str, Callable[[Config], Model]] = {
    "bamba": _bamba,
    "granitemoehybrid": _granite_hybrid,
    "mamba2": _mamba2,
    "nemotron_h": _nemotron_h,
    "qwen3_next": _qwen3_next,
}
"""The functions that read families with Mamba-2 or a gated delta net."""
