"""Read a description of a model from the arguments of Megatron-LM core.

Arguments have the names that Megatron's parser gives them in its namespace, e.g. `num_layers`.
Their values are texts, as Megatron's logs print them. `None`, `False` and an absent argument mean
the same. The defaults are those of Megatron's parser.
"""

import ast
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.model.config_json import ConfigError
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
)

_UNSET = frozenset({"", "None", "none", "False", "false", "[]"})
# Arguments that change layers in a way that a description cannot express.
_UNKNOWN = ("heterogeneous_layers_config_path", "decoder_seq_length", "retro_add_retriever")
_MTP_SEPARATOR = "/"
_MOST_LAYERS = 10_000
# Options that set an argument to False. Without the option, the argument is True.
_NEGATIVE = {
    "--disable-bias-linear": "add_bias_linear",
    "--no-position-embedding": "add_position_embedding",
}
_RENAMED = {
    "tensor_model_parallel_size": "tensor_parallel_size",
    "hybrid_override_pattern": "hybrid_layer_pattern",
}


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of one run, by their names in Megatron's namespace."""

    values: Mapping[str, str]

    def given(self, name: str) -> str | None:
        value = self.values.get(name)
        return None if value is None or value in _UNSET else value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        return default if value is None else value not in _UNSET

    def optional(self, name: str) -> int | None:
        """Return the value of an integer argument; None if the argument is not set or 0.

        Raises ConfigError if the value is anything else than an integer of at least 1.
        """
        text = self.given(name)
        if text is None or text == "0":
            return None
        if not text.isdecimal():
            raise ConfigError(f"{name}: must be a whole number of at least 1 (got {text!r})")
        return int(text)

    def size(self, name: str, default: int | None = None) -> int:
        value = self.optional(name)
        if value is None:
            value = default
        if value is None:
            raise ConfigError(f"{name}: is missing")
        return value

    def pattern(self, name: str, layers: int) -> list[int] | int | None:
        """Return a value that selects layers: a number, or a list with 0 or 1 for each layer.

        A number n means every n-th layer. Some arguments select these layers, others select all
        layers except these. An example of a list is `([0]*3+[1]*58)`.

        Returns None if the argument is not set. Raises ConfigError if the text is neither a number
        nor a list, or if the list is too short.
        """
        text = self.given(name)
        if text is None:
            return None
        if text.isdecimal():
            return int(text)
        marks = _list_of(text)
        if marks is None or len(marks) < layers:
            raise ConfigError(
                f"{name}: must be a number, or a list of {layers} numbers, one per layer (got "
                f"{text!r})"
            )
        return marks[:layers]


def layers_in_pattern(text: str, layers: int) -> tuple[bool, ...] | None:
    """Return for each layer whether a pattern, e.g. `2` or `([0]*3+[1]*58)`, selects it.

    A number n selects the first of every n layers; a list selects the layers at which it has 1.
    Returns None if the text is neither a number nor a list with an item for each layer.
    """
    if text.isdecimal():
        return tuple(_in_pattern(int(text), index, skips=False) for index in range(layers))
    marks = _list_of(text)
    return None if marks is None or len(marks) != layers else tuple(map(bool, marks))


def _list_of(text: str) -> list[int] | None:
    """Return the list that a text like `[0]*3+[1]*58` describes; None for other texts."""
    try:
        return _list_node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _list_node(node: ast.expr) -> list[int] | None:
    match node:
        case ast.List(elts=items):
            numbers = [item.value for item in items if isinstance(item, ast.Constant)]
            whole = [number for number in numbers if isinstance(number, int)]
            return whole if len(whole) == len(items) else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _list_node(left), _list_node(right)
            return None if first is None or second is None else first + second
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(times))):
            repeated = _list_node(left)
            fits = repeated is not None and 0 <= times * len(repeated) <= _MOST_LAYERS
            return repeated * times if repeated is not None and fits else None
    return None


def model_of_megatron(values: Mapping[str, str]) -> Model:
    """Return the model that arguments of Megatron core build.

    The vocabulary is `padded_vocab_size`, or `vocab_size` if that is not given. Raises ConfigError
    if arguments are missing, have a wrong value, or build a model that cannot be described.
    """
    a = _Arguments({_RENAMED.get(name, name): value for name, value in values.items()})
    for name in _UNKNOWN:
        if a.given(name):
            raise ConfigError(
                f"{name}: teralog does not know how {a.values[name]} changes the layers"
            )
    if a.flag("is_hybrid_model") and not a.given("hybrid_layer_pattern"):
        raise ConfigError("hybrid_layer_pattern: is missing, although is_hybrid_model is set")
    hidden = a.size("hidden_size")
    vocabulary = a.optional("padded_vocab_size")
    # Here `none` is a value: no positions, as hybrid models have.
    position = (a.values.get("position_embedding_type") or "learned_absolute").lower()
    if a.flag("use_rotary_position_embeddings"):
        position = "rope"
    sequence = a.size("seq_length")
    learned = position == "learned_absolute" and a.flag("add_position_embedding", default=True)
    rows = a.optional("max_position_embeddings") or sequence
    layers = _hybrid_layers(a) if a.given("hybrid_layer_pattern") else _transformer_layers(a)
    ahead = a.optional("mtp_num_layers") or 0
    return Model(
        hidden_size=hidden,
        vocab_size=vocabulary if vocabulary is not None else a.size("vocab_size"),
        seq_length=sequence,
        layers=layers,
        norm="rmsnorm" if a.values.get("normalization", "").lower() == "rmsnorm" else "layernorm",
        tied_head=not a.flag("untie_embeddings_and_output_weights"),
        position_rows=rows if learned else None,
        prediction_heads=(layers[-1],) * ahead,
    )


def _transformer_layers(a: _Arguments) -> tuple[Layer, ...]:
    count = a.size("num_layers")
    mixers = _mixers(a, count)
    mlps = _mlps(a, count)
    return tuple(Layer(mixer=mixer, mlp=mlp) for mixer, mlp in zip(mixers, mlps, strict=True))


def _mixers(a: _Arguments, count: int) -> list[Mixer]:
    if a.flag("multi_latent_attention"):
        return [_latent(a)] * count
    usual = _attention(a)
    mixers: list[Mixer] = [usual] * count
    if window := a.given("window_size"):
        frequency = a.pattern("window_attn_skip_freq", count)
        windowed = replace(usual, window=_window(window))
        for index in range(count):
            if frequency is None or _in_pattern(frequency, index, skips=True):
                mixers[index] = windowed
    variant = a.given("experimental_attention_variant") or a.given("linear_attention_type")
    if variant is None:
        return mixers
    if variant not in {"gated_delta_net", "gdn"}:
        raise ConfigError(f"experimental_attention_variant: {variant!r} is not known")
    frequency = a.pattern("linear_attention_freq", count)
    if frequency is None:
        raise ConfigError("linear_attention_freq: is missing")
    linear = _delta_net(a)
    return [
        linear if _in_pattern(frequency, index, skips=True) else mixers[index]
        for index in range(count)
    ]


def _in_pattern(frequency: list[int] | int, index: int, *, skips: bool) -> bool:
    """Return whether a pattern selects the layer at `index` (from 0).

    frequency: a list with 1 for each selected layer and 0 for the others, or a number n. With
    `skips=False`, n selects the first of every n layers. With `skips=True`, it selects all layers
    except every n-th.
    """
    if isinstance(frequency, list):
        return bool(frequency[index])
    if skips:
        return (index + 1) % max(frequency, 1) != 0
    return index % max(frequency, 1) == 0


def _window(text: str) -> int:
    """Return how many keys a query sees, from Megatron's argument `window_size`, e.g. `127,0`.

    The first number is how many earlier keys the query sees. The query also sees its own key, so
    the result is this number plus 1. Raises ConfigError if the text has another form.
    """
    numbers = text.strip("()[] ").replace(" ", "").split(",")
    if len(numbers) != 2 or not numbers[0].isdecimal():
        raise ConfigError(f"window_size: must be two numbers, e.g. 127,0 (got {text!r})")
    return int(numbers[0]) + 1


def _attention(a: _Arguments) -> Attention:
    heads = a.size("num_attention_heads")
    # Without the flag, Megatron prints a number of groups, but does not use it.
    groups = a.size("num_query_groups", 1) if a.flag("group_query_attention") else heads
    biases: AttentionBiases = "none"
    # An L2 norm has no parameters.
    unweighted = a.flag("qk_l2_norm") or a.flag("export_qk_l2_norm")
    if a.flag("add_bias_linear", default=True):
        biases = "all"
    elif a.flag("add_qkv_bias"):
        biases = "qkv"
    return Attention(
        heads=heads,
        key_value_heads=groups,
        head_size=a.optional("kv_channels") or a.size("hidden_size") // heads,
        biases=biases,
        query_key_norm="head" if a.flag("qk_layernorm") and not unweighted else "none",
        output_gate=a.flag("attention_output_gate"),
        sinks=a.given("softmax_type") == "learnable",
    )


def _latent(a: _Arguments) -> LatentAttention:
    if a.flag("add_bias_linear", default=True):
        raise ConfigError(
            "multi_latent_attention: needs --disable-bias-linear; teralog cannot count its biases"
        )
    return LatentAttention(
        heads=a.size("num_attention_heads"),
        query_rank=a.optional("q_lora_rank"),
        key_value_rank=a.size("kv_lora_rank", 32),
        nope_size=a.size("qk_head_dim", 128),
        rope_size=a.size("qk_pos_emb_head_dim", 64),
        value_size=a.size("v_head_dim", 128),
        latent_norms=a.flag("qk_layernorm"),
    )


def _delta_net(a: _Arguments) -> GatedDeltaNet:
    return GatedDeltaNet(
        key_heads=a.size("linear_num_key_heads", 16),
        value_heads=a.size("linear_num_value_heads", 32),
        key_size=a.size("linear_key_head_dim", 128),
        value_size=a.size("linear_value_head_dim", 128),
        convolution=a.size("linear_conv_kernel_dim", 4),
    )


def _mlps(a: _Arguments, count: int) -> list[Mlp | Experts]:
    dense = _dense(a)
    if a.optional("num_experts") is None:
        return [dense] * count
    frequency = a.pattern("moe_layer_freq", count) or 1
    experts = _experts(a)
    return [
        experts if _in_pattern(frequency, index, skips=False) else dense for index in range(count)
    ]


def _gated(a: _Arguments) -> bool:
    return a.flag("swiglu") or a.flag("gated_linear_unit") or a.flag("quick_geglu")


def _dense(a: _Arguments) -> Mlp:
    hidden = a.size("hidden_size")
    width = a.optional("ffn_hidden_size")
    if width is None:
        # With this width, three matrices have about as many parameters as two of width 4h.
        width = 4 * hidden * 2 // 3 // 64 * 64 if a.flag("swiglu") else 4 * hidden
    return Mlp(width=width, gated=_gated(a), biases=a.flag("add_bias_linear", default=True))


def _experts(a: _Arguments) -> Experts:
    biases = a.flag("add_bias_linear", default=True)
    return Experts(
        number=a.size("num_experts"),
        top_k=a.size("moe_router_topk", 2),
        width=a.optional("moe_ffn_hidden_size") or _dense(a).width,
        gated=_gated(a),
        biases=biases,
        router_bias=biases,
        shared_width=a.optional("moe_shared_expert_intermediate_size"),
        shared_gate=a.flag("moe_shared_expert_gate"),
        latent_size=a.optional("moe_latent_size"),
    )


def _hybrid_layers(a: _Arguments) -> tuple[Layer, ...]:
    """Return the layers of a hybrid model, one per letter of its pattern.

    M is Mamba-2, * attention, - an MLP, E experts, G a gated delta net. Raises ConfigError for
    other letters, or if `num_layers` contradicts the length of the pattern.
    """
    pattern = (a.given("hybrid_layer_pattern") or "").split(_MTP_SEPARATOR)[0].replace("|", "")
    stated = a.optional("num_layers")
    if stated is not None and stated != len(pattern):
        raise ConfigError(
            f"hybrid_layer_pattern: has {len(pattern)} layers, and num_layers is {stated}"
        )
    blocks: dict[str, Layer] = {}
    for letter in dict.fromkeys(pattern):
        match letter:
            case "M":
                blocks[letter] = Layer(mixer=_mamba(a), mlp=None, norms=1)
            case "*":
                blocks[letter] = Layer(mixer=_attention(a), mlp=None, norms=1)
            case "-":
                blocks[letter] = Layer(mixer=None, mlp=_dense(a), norms=1)
            case "E":
                blocks[letter] = Layer(mixer=None, mlp=_experts(a), norms=1)
            case "G":
                blocks[letter] = Layer(mixer=_delta_net(a), mlp=None, norms=1)
            case _:
                raise ConfigError(f"hybrid_layer_pattern: {letter!r} is not a known layer")
    return tuple(blocks[letter] for letter in pattern)


def _mamba(a: _Arguments) -> Mamba2:
    size = a.size("mamba_head_dim", 64)
    return Mamba2(
        heads=a.optional("mamba_num_heads") or 2 * a.size("hidden_size") // size,
        head_size=size,
        state_size=a.size("mamba_state_dim", 128),
        groups=a.size("mamba_num_groups", 8),
        convolution=4,
        chunk=128,
        biases=False,
    )


def named_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """Parse command-line arguments; return their values by Megatron's names for them.

    For example, `--swiglu` gives swiglu: True, `--disable-bias-linear` gives
    add_bias_linear: False, and `--num-layers 24` or `--num-layers=24` gives num_layers: 24.
    All values are texts. If an option has several values, they are joined by spaces.
    """
    values: dict[str, str] = {}
    option: str | None = None
    for word in arguments:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name in _NEGATIVE:
                values[_NEGATIVE[name]] = "False"
                option = None
                continue
            option = name[2:].replace("-", "_")
            values[option] = value if equals else "True"
            if equals:
                option = None
        elif option is not None:
            values[option] = word if values[option] == "True" else f"{values[option]} {word}"
    return values


def read_megatron_arguments(path: Path) -> Model:
    """Return the model that Megatron builds from the arguments in a file.

    The file is written like a shell script: # begins a comment. Raises UserError if the
    file cannot be read, or cannot be split into arguments. Raises ConfigError, with the
    file's name, if `model_of_megatron` refuses the arguments.
    """
    try:
        text = path.read_text("utf-8").replace("\\\n", " ")
        arguments = shlex.split(text, comments=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: is not a list of arguments: {error}") from error
    try:
        return model_of_megatron(named_arguments(arguments))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
