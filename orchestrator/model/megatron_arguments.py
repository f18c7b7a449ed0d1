"""Write the arguments of Megatron-LM core that build a described model.

Most sizes are written even if they are the defaults of Megatron's parser. Flags are written only
if the model needs them. As a check, `orchestrator.model.megatron` builds a model from the written
arguments. This model must be equal to the described model.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.model.config_json import ConfigError
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
)
from orchestrator.model.megatron import model_of_megatron, named_arguments

_LETTERS = {Mamba2: "M", Attention: "*", GatedDeltaNet: "G", Mlp: "-", Experts: "E"}


def megatron_arguments(model: Model) -> list[list[str]]:
    """Return Megatron core's arguments for a model, without vocabulary and sequence length.

    Each inner list has an option and its values, e.g. ["--hidden-size", "4096"]. An option
    that another option needs is in the same list, e.g. ["--group-query-attention",
    "--num-query-groups", "8"]. For hybrid models, one list is the layer specification of
    `pretrain_mamba.py`. Raises ConfigError with all differences if Megatron has no
    arguments for the model.
    """
    groups = _groups(model)
    arguments = {
        **named_arguments([word for words in groups for word in words]),
        "seq_length": str(model.seq_length),
        "padded_vocab_size": str(model.vocab_size),
    }
    # Read the arguments back: Megatron has no argument for a part of the model that differs.
    built = replace(model_of_megatron(arguments), adapters=model.adapters)
    if built != model:
        differences = ", ".join(_differences(built, model))
        raise ConfigError(f"Megatron core has no arguments for parts of this model: {differences}")
    return groups


def _differences(built: Model, model: Model) -> list[str]:
    fields = ("norm", "tied_head", "head_bias", "position_rows", "embedding_norm",
              "embedding_size", "final_norm", "prediction_heads")  # fmt: skip
    differences = [name for name in fields if getattr(built, name) != getattr(model, name)]
    if built.layers != model.layers:
        kinds = {
            f"the {name} of layers"
            for built_layer, model_layer in zip(built.layers, model.layers, strict=False)
            for name in ("mixer", "mlp", "norms")
            if getattr(built_layer, name) != getattr(model_layer, name)
        }
        differences += sorted(kinds) or ["the number of layers"]
    return differences


def _groups(model: Model) -> list[list[str]]:
    first = next((layer for layer in model.layers if layer.mixer is not None), None)
    if first is None:
        raise ConfigError("no layer of the model mixes tokens, e.g. by attention or Mamba-2")
    groups = [
        ["--num-layers", str(model.num_layers)],
        ["--hidden-size", str(model.hidden_size)],
        ["--num-attention-heads", str(model.num_attention_heads)],
        ["--normalization", "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm"],
    ]
    if not model.tied_head:
        groups.append(["--untie-embeddings-and-output-weights"])
    if model.is_hybrid:
        groups += _hybrid_groups(model)
    if model.position_rows is None:
        # Mamba layers depend on the order of tokens, so attention needs no positions.
        groups.append(["--position-embedding-type", "none" if model.is_hybrid else "rope"])
    else:
        groups.append(["--max-position-embeddings", str(model.position_rows)])
    groups += _mixer_groups([layer.mixer for layer in model.layers])
    groups += _mlp_groups(model)
    if model.prediction_heads:
        groups.append(["--mtp-num-layers", str(len(model.prediction_heads))])
    return groups


def _hybrid_groups(model: Model) -> list[list[str]]:
    letters = [layer_letter(layer) for layer in model.layers]
    groups = [
        ["--spec", "megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"],
        ["--hybrid-layer-pattern", "".join(letters)],
    ]
    mamba = next((layer.mixer for layer in model.layers if isinstance(layer.mixer, Mamba2)), None)
    if mamba is not None:
        groups += [
            ["--mamba-state-dim", str(mamba.state_size)],
            ["--mamba-head-dim", str(mamba.head_size)],
            ["--mamba-num-groups", str(mamba.groups)],
        ]
        # Releases before 0.13 lack this option, and use 2 · hidden size / head size.
        if mamba.heads * mamba.head_size != 2 * model.hidden_size:
            groups.append(["--mamba-num-heads", str(mamba.heads)])
    if not any(isinstance(layer.mixer, Attention) for layer in model.layers):
        groups.append(["--disable-bias-linear"])
    return groups


def layer_letter(layer: Layer) -> str:
    """Return a layer's letter in Megatron's pattern of a hybrid model, e.g. M for Mamba-2.

    In a hybrid model, each layer is one block: a mixer, an MLP or experts. Raises
    ConfigError if the layer is not one block, or if Megatron has no letter for the block.
    """
    blocks = [block for block in (layer.mixer, layer.mlp) if block is not None]
    if len(blocks) != 1 or type(blocks[0]) not in _LETTERS:
        raise ConfigError(
            "Megatron core has no arguments for this model: in hybrid models each layer must be "
            "one block, e.g. Mamba-2, attention, an MLP or experts"
        )
    return _LETTERS[type(blocks[0])]


def _mixer_groups(mixers: Sequence[Mixer | None]) -> list[list[str]]:
    latent = next((mixer for mixer in mixers if isinstance(mixer, LatentAttention)), None)
    if latent is not None:
        return [
            ["--multi-latent-attention", "--disable-bias-linear"],
            *([["--q-lora-rank", str(latent.query_rank)]] if latent.query_rank else []),
            ["--kv-lora-rank", str(latent.key_value_rank)],
            ["--qk-head-dim", str(latent.nope_size)],
            ["--qk-pos-emb-head-dim", str(latent.rope_size)],
            ["--v-head-dim", str(latent.value_size)],
            *([["--qk-layernorm"]] if latent.latent_norms else []),
        ]
    groups: list[list[str]] = []
    full = [mixer for mixer in mixers if isinstance(mixer, Attention)]
    if full:
        first = full[0]
        groups.append(["--kv-channels", str(first.head_size)])
        if first.key_value_heads != first.heads:
            groups.append(
                ["--group-query-attention", "--num-query-groups", str(first.key_value_heads)]
            )
        if first.biases != "all":
            groups.append(["--disable-bias-linear"])
        if first.biases == "qkv":
            groups.append(["--add-qkv-bias"])
        if first.query_key_norm == "head":
            groups.append(["--qk-layernorm"])
        if first.output_gate:
            groups.append(["--attention-output-gate"])
        if first.sinks:
            groups.append(["--softmax-type", "learnable"])
        groups += _window_groups(mixers)
    linear = next((mixer for mixer in mixers if isinstance(mixer, GatedDeltaNet)), None)
    if linear is not None:
        pattern = [int(isinstance(mixer, GatedDeltaNet)) for mixer in mixers]
        if None not in mixers:
            groups += [
                ["--experimental-attention-variant", "gated_delta_net"],
                ["--linear-attention-freq", list_text(pattern)],
            ]
        groups += [
            ["--linear-num-key-heads", str(linear.key_heads)],
            ["--linear-num-value-heads", str(linear.value_heads)],
            ["--linear-key-head-dim", str(linear.key_size)],
            ["--linear-value-head-dim", str(linear.value_size)],
            ["--linear-conv-kernel-dim", str(linear.convolution)],
        ]
    return groups


def _window_groups(mixers: Sequence[Mixer | None]) -> list[list[str]]:
    windows = [mixer.window if isinstance(mixer, Attention) else None for mixer in mixers]
    window = next((size for size in windows if size is not None), None)
    if window is None:
        return []
    groups = [["--window-size", f"{window - 1},0"]]
    if None in windows:
        pattern = [int(size is not None) for size in windows]
        groups.append(["--window-attn-skip-freq", list_text(pattern)])
    return groups


def _mlp_groups(model: Model) -> list[list[str]]:
    mlps = [layer.mlp for layer in model.layers]
    dense = next((mlp for mlp in mlps if isinstance(mlp, Mlp)), None)
    groups = [["--ffn-hidden-size", str(model.ffn_width)]]
    if model.gated_mlp:
        groups.append(["--swiglu"])
    experts = model.experts
    if experts is None:
        return groups
    groups += [
        ["--num-experts", str(experts.number)],
        ["--moe-router-topk", str(experts.top_k)],
        ["--moe-ffn-hidden-size", str(experts.width)],
    ]
    if dense is not None and not model.is_hybrid:
        groups.append(["--moe-layer-freq", list_text([int(isinstance(m, Experts)) for m in mlps])])
    if experts.shared_width is not None:
        groups.append(["--moe-shared-expert-intermediate-size", str(experts.shared_width)])
    if experts.shared_gate:
        groups.append(["--moe-shared-expert-gate"])
    if experts.latent_size is not None:
        groups.append(["--moe-latent-size", str(experts.latent_size)])
    return groups


def list_text(pattern: Sequence[int]) -> str:
    """Return a list with one number per layer as short text, in Megatron's notation.

    For example, three times 0 and then 58 times 1 become `([0]*3+[1]*58)`.
    """
    parts: list[str] = []
    start = 0
    for index in range(1, len(pattern) + 1):
        if index == len(pattern) or pattern[index] != pattern[start]:
            parts.append(f"[{pattern[start]}]*{index - start}")
            start = index
    if len(parts) <= 8:
        return f"({'+'.join(parts)})"
    for length in range(2, 9):
        unit, times = pattern[:length], len(pattern) // length
        rest = pattern[times * length :]
        if [*unit] * times == [*pattern[: times * length]]:
            more = f"+{[*rest]}".replace(" ", "") if rest else ""
            return f"({[*unit]}*{times}{more})".replace(" ", "")
    return f"({[*pattern]})".replace(" ", "")
