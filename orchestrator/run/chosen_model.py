"""Make the shape of a model from the values with which a campaign chooses it.

A campaign chooses a model in one of four ways: by a preset's name, by a name that `teralog
models` lists, by the keys of a config.json, or by sizes and variants. A variant is a
parameter that makes the model differ from GPT-2, e.g. `gated_mlp`. In the first three ways,
a campaign may also give a size, e.g. `num_layers`. Then the given size is used instead of
the size of the chosen model.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from orchestrator.run.presets import is_preset, preset
from orchestrator.run.shape import ModelShape

# Descriptions are imported where they are made: most campaigns have none.
SOURCES = ("preset", "name", "config")
_NEEDED = ("num_layers", "hidden_size", "num_attention_heads", "vocab_size", "seq_length")
_SHAPE_FIELDS = tuple(field.name for field in fields(ModelShape) if field.name != "described")
# Variants that only a description has.
_DESCRIBED = ("head_dim", "num_experts", "num_experts_per_token", "expert_ffn_hidden_size")
# Sizes that may be changed in a model that a name or a config.json describes.
_CHANGEABLE = ("num_layers", "vocab_size", "seq_length")
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def source_of(key: str) -> dict[str, str]:
    """Return how `model: KEY` in a campaign file chooses a model: by preset or by name.

    The result is {"name": KEY} if `teralog models` lists the name and no preset
    has this name. Otherwise it is {"preset": KEY}.
    """
    if is_preset(key):
        return {"preset": key}
    from orchestrator.model.named import is_named

    return {"name": key} if is_named(key) else {"preset": key}


def chosen_shape(choice: Mapping[str, Any]) -> ModelShape | str:
    """Return the shape of the chosen model, or a sentence about what is wrong with the choice.

    choice: parameters and their values: the preset, the name or the config.json of the model, and
    its sizes and variants. A variant is a parameter that makes a model differ from GPT-2. Raises
    UserError if there is no such preset or name.
    """
    return _chosen(json.dumps(choice, sort_keys=True))


@cache
def _chosen(text: str) -> ModelShape | str:
    choice: dict[str, Any] = json.loads(text)
    sources = [name for name in SOURCES if name in choice]
    if len(sources) > 1:
        return f"the model has {' and '.join(sources)}; give only one of them"
    if sources and sources != ["preset"]:
        return _described(choice, sources[0])
    return _from_sizes(choice)


def _described(choice: dict[str, Any], source: str) -> ModelShape | str:
    from orchestrator.model.config_json import ConfigError
    from orchestrator.model.huggingface import model_of_config
    from orchestrator.model.named import named_model
    from orchestrator.run.described import described_shape

    given = choice.pop(source)
    wrong = [name for name in choice if name not in _CHANGEABLE]
    if wrong:
        return (
            f"{', '.join(wrong)}: cannot be used with `{source}`, which sets the whole model; "
            f"only these can be changed: {', '.join(_CHANGEABLE)}"
        )
    config, length = given, None
    if source == "name":
        named = named_model(given)
        config, length = named.config, named.seq_length
    if "num_layers" in choice:
        config = _with_layers(config, choice.pop("num_layers"))
    try:
        model = model_of_config(config, length)
    except ConfigError as error:
        return f"the model cannot be described: {error}"
    return described_shape(replace(model, **choice))


def _with_layers(config: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return a copy of a config.json's keys in which the number of layers is `count`.

    The key for this number depends on the family of the model, e.g. `num_hidden_layers` or
    `n_layer`.
    """
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        return {**config, "text_config": _with_layers(inner, count)}
    names = [name for name in _LAYER_KEYS if name in config]
    return {**config, **dict.fromkeys(names or _LAYER_KEYS[:1], count)}


def _from_sizes(choice: dict[str, Any]) -> ModelShape | str:
    key = choice.pop("preset", None)
    base = {}
    if key is not None:
        base = {name: getattr(preset(key), name) for name in _SHAPE_FIELDS}
    sizes = {**base, **choice}
    missing = [name for name in _NEEDED if name not in sizes]
    if missing:
        return f"the model lacks {', '.join(missing)}; give them, or a preset"
    more = {name: sizes.pop(name) for name in _DESCRIBED if name in sizes}
    if sizes.get("ffn_hidden_size") == 4 * sizes["hidden_size"]:
        del sizes["ffn_hidden_size"]  # the same model, with its default written out
    if sizes.get("num_key_value_heads") == sizes["num_attention_heads"]:
        del sizes["num_key_value_heads"]
    shape = ModelShape(**sizes)
    heads, groups = shape.num_attention_heads, shape.num_key_value_heads
    if groups is not None and heads % groups:
        return f"num_key_value_heads={groups} must divide num_attention_heads={heads}"
    return _with_variants(shape, more) if more else shape


def _with_variants(shape: ModelShape, more: Mapping[str, int]) -> ModelShape | str:
    """Return the shape with another size of heads, or with experts in each layer.

    more: the sizes of heads and experts, by parameter, e.g. `head_dim` or `num_experts`. If these
    sizes contradict each other, the result is a sentence about the problem.
    """
    from orchestrator.model.description import Attention, Experts, Mlp
    from orchestrator.run.described import described_shape, description

    number = more.get("num_experts")
    if number is None and {*more} - {"head_dim"}:
        useless = ", ".join(sorted({*more} - {"head_dim"}))
        return f"{useless}: cannot be used without `num_experts`; set it, or remove {useless}"
    top_k = more.get("num_experts_per_token", 2)
    if number is not None and top_k > number:
        return f"num_experts_per_token={top_k} is more than num_experts={number}"
    model = description(shape, shape.vocab_size)
    layer = model.layers[0]
    mixer, mlp = layer.mixer, layer.mlp
    changed = layer
    if "head_dim" in more and isinstance(mixer, Attention):
        changed = replace(layer, mixer=replace(mixer, head_size=more["head_dim"]))
    if number is not None and isinstance(mlp, Mlp):
        experts = Experts(
            number=number,
            top_k=top_k,
            width=more.get("expert_ffn_hidden_size", mlp.width),
            gated=mlp.gated,
            biases=mlp.biases,
            router_bias=mlp.biases,
        )
        changed = replace(changed, mlp=experts)
    described = replace(model, layers=(changed,) * shape.num_layers)
    return shape if described == model else described_shape(described)


def check_source(source: str, key: str) -> None:
    """Raise UserError if no model is called `key`.

    source: `name` or `preset`. With `name`, the key must be a name that `teralog models` lists.
    With `preset`, it may be such a name or a preset.
    """
    if is_preset(key) and source == "preset":
        return
    from orchestrator.model.named import is_named, named_model

    if source == "name":
        named_model(key)
    elif not is_named(key):
        preset(key)
