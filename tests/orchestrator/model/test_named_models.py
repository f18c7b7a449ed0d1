"""Named models have their published sizes, and the sizes of the real classes of transformers."""

from typing import Any

import pytest

from orchestrator.common.errors import UserError
from orchestrator.model.counting import active_parameters, parameters
from orchestrator.model.named import NamedModel, named_model, named_models

MODELS = named_models()

# Published to the last parameter; the rest is published in billions.
EXACT = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "pythia-12b": 11_846_072_320,
    "bloom-176b": 176_247_271_424,
    "starcoder": 15_517_456_384,
}


@pytest.mark.parametrize("named", MODELS.values(), ids=MODELS)
def test_sizes_are_the_published_ones(named: NamedModel):
    """The number of a model's parameters agrees with the published number within 3 %.

    A published number of active parameters (per token) may include or exclude the embeddings.
    """
    model = named.model()
    assert parameters(model) / 1e9 == pytest.approx(named.size, rel=0.03)
    if named.active is not None:
        active, embeddings = active_parameters(model), 2 * model.vocab_size * model.hidden_size
        assert (active - embeddings) / 1e9 * 0.97 <= named.active <= active / 1e9 * 1.03


@pytest.mark.parametrize("name", EXACT)
def test_sizes_are_exact_where_they_are_published_so(name: str):
    """If the exact number of a model's parameters is published, teralog's number equals it."""
    assert parameters(named_model(name).model()) == EXACT[name]


@pytest.mark.train
@pytest.mark.parametrize("named", MODELS.values(), ids=MODELS)
def test_sizes_are_those_of_the_real_class(named: NamedModel):
    """The real class of transformers has exactly as many parameters as teralog counts.

    The test builds the class's model on the meta device, which stores no numbers.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    keys: dict[str, Any] = {name: value or None for name, value in named.config.items()}
    kind = "deepseek_v3" if keys["model_type"] == "kimi_k2" else keys["model_type"]
    for flag in ("use_qk_norm", "multi_query", "parallel_attn", "bias", "tie_word_embeddings"):
        if flag in keys:
            keys[flag] = bool(keys[flag])
    del keys["model_type"]
    if kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    config = transformers.AutoConfig.for_model(kind, **keys)
    with torch.device("meta"):
        real = transformers.AutoModelForCausalLM.from_config(config)
    assert parameters(named.model()) == sum(tensor.numel() for tensor in real.parameters())


def test_a_name_is_found_in_any_spelling():
    """A model is found by its name in any case and with any separators, e.g. spaces for hyphens."""
    assert named_model("Qwen3_30B_a3B") is named_model("qwen3-30b-a3b")
    assert named_model("GPT OSS 120B").name == "gpt-oss-120b"


def test_an_unknown_name_is_refused_with_the_nearest():
    """An unknown name of a model is refused; the message has the most similar name."""
    with pytest.raises(UserError, match="llama3-8b"):
        named_model("llama3-9b")
