"""Read a model from the `config.json` of Hugging Face's transformers.

Each `model_type` has one function, which turns the keys of its family into a description.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.model.config_json import Config, ConfigError, defaults
from orchestrator.model.dense_families import DENSE
from orchestrator.model.description import Model
from orchestrator.model.expert_families import EXPERTS
from orchestrator.model.hybrid_families import HYBRIDS


def model_of_config(config: Mapping[str, Any], seq_length: int | None = None) -> Model:
    """Return the model that the keys of a `config.json` describe.

    seq_length: tokens of a training sequence; None means the longest that the model allows. For a
    model of text and images, the part for text is read. Raises ConfigError if keys are missing or
    wrong, if the `model_type` is not known, or if the model has an encoder.
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
            f"model_type: {kind!r} is not known; teralog knows {', '.join(sorted(READERS))}"
        )
    model = READERS[kind](Config(values, defaults(kind)))
    return model if seq_length is None else replace(model, seq_length=seq_length)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of the language model in the configuration of a model of text and images.

    Other configurations are returned unchanged.
    """
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


# Types without a decoder of text, or with an encoder in addition.
_WITH_ENCODER = frozenset(
    {
        *("albert", "bart", "bert", "deberta", "deberta-v2", "distilbert", "electra", "longt5"),
        *("m2m_100", "mbart", "modernbert", "mt5", "pegasus", "roberta", "t5", "t5gemma", "umt5"),
        *("vit", "whisper", "xlm-roberta"),
    }
)


# Types that have the same layers and keys as another type.
_SAME_AS = {
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}


READERS: dict[str, Callable[[Config], Model]] = {**DENSE, **EXPERTS, **HYBRIDS}
"""The function that reads a family, by its `model_type`."""
