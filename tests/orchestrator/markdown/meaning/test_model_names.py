"""Find the published model that a name in a table means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.markdown.meaning.model_names import model_called
from orchestrator.model.named import named_models


@pytest.mark.parametrize("name", named_models())
def test_every_model_has_its_own_name(name: str) -> None:
    """Each named model is found by its name, and no name means two models."""
    model = model_called(name)
    assert model is not None
    assert model.name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DeepSeekV3", "deepseek-v3"),
        ("Model: DeepSeek V3 671B", "deepseek-v3"),
        ("DeepSeekV3 (w/o MTP)", "deepseek-v3"),
        ("GPT OSS 120B", "gpt-oss-120b"),
        ("Qwen3_30B_a3B", "qwen3-30b-a3b"),
        ("Qwen3 MoE 30B", "qwen3-30b-a3b"),
        ("Nemotron V3 Nano 30B (26.02)", "nemotron3-nano"),
        ("LLAMA3.1_405B", "llama3.1-405b"),
        ("**Llama3 70B**", "llama3-70b"),
        ("[Llama 3 70B](https://example.org/recipe.yaml)", "llama3-70b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("Mixtral 8x7B SFT", "mixtral-8x7b"),
        ("GPT-2 XL (1.5B)", "gpt2-xl"),
        ("GPT-3 175B", "gpt3-175b"),
        ("LLAMA3-405B", "llama3.1-405b"),
        ("LLAMA4-Maverick-LLM", "llama4-maverick"),
        ("Llama3 70B 2-node", "llama3-70b"),
        ("Nemotron-340B", "nemotron4-340b"),
        ("Nemotron-15B", "nemotron4-15b"),
        ("GPT3-20B", "gpt3-20b"),
        ("MPT Training Benchmarks 7b", "mpt-7b"),
        ("Llama 3.1 performance numbers 405B", "llama3.1-405b"),
    ],
)
def test_spellings_name_one_model(text: str, name: str) -> None:
    """A model's name may have any case, punctuation and parentheses, and words about training."""
    model = model_called(text)
    assert model is not None
    assert model.name == name


@pytest.mark.parametrize(
    "text",
    ["", "Mixtral", "Llama 70B", "Llama3", "GPT3-6B", "DeepSeekV4 Flash", "Qwen3.5-4B", "7.5B",
     "GPT", "Pre-Training Performance", "Llama3 70B on 64 H100", "x" * 200],
)  # fmt: skip
def test_a_name_of_several_models_or_of_none_names_none(text: str) -> None:
    """A name that may mean several models, or no model, gives None."""
    assert model_called(text) is None


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    """Any text of a cell gives a model or None."""
    model_called(text)
