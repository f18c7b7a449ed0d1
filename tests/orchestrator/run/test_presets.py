"""Presets have the shapes and numbers that were published."""

import pytest

from orchestrator.common.errors import UserError
from orchestrator.run.presets import PRESETS, preset

# (num_layers, hidden_size, num_attention_heads, vocab_size, seq_length) of every key.
SHAPES = {
    # ColossalAI's GPT benchmark.
    "s": (12, 768, 12, 50257, 1024),
    "m": (24, 1024, 16, 50257, 1024),
    "l": (36, 1280, 20, 50257, 1024),
    "xl": (48, 1600, 25, 50257, 1024),
    "2b": (40, 2048, 16, 50257, 1024),
    "4b": (64, 2304, 16, 50257, 1024),
    "6b": (30, 4096, 16, 50257, 1024),
    "8b": (40, 4096, 16, 50257, 1024),
    "10b": (50, 4096, 16, 50257, 1024),
    "12b": (60, 4096, 16, 50257, 1024),
    "15b": (78, 4096, 16, 50257, 1024),
    "18b": (90, 4096, 16, 50257, 1024),
    "20b": (25, 8192, 16, 50257, 1024),
    "24b": (30, 8192, 16, 50257, 1024),
    "28b": (35, 8192, 16, 50257, 1024),
    "32b": (40, 8192, 16, 50257, 1024),
    "36b": (45, 8192, 16, 50257, 1024),
    "40b": (50, 8192, 16, 50257, 1024),
    "175b": (96, 12288, 96, 50257, 2048),
    # ColossalAI's OPT benchmark.
    "opt-125m": (12, 768, 12, 50272, 2048),
    "opt-350m": (24, 1024, 16, 50272, 2048),
    "opt-700m": (36, 1280, 20, 50272, 2048),
    "opt-1.3b": (24, 2048, 32, 50272, 2048),
    "opt-2.7b": (32, 2560, 32, 50272, 2048),
    "opt-3.5b": (32, 3072, 32, 50272, 2048),
    "opt-5.5b": (32, 3840, 32, 50272, 2048),
    "opt-6.7b": (32, 4096, 32, 50272, 2048),
    "opt-10b": (32, 5120, 32, 50272, 2048),
    "opt-13b": (40, 5120, 40, 50272, 2048),
    # OneFlow's GPT-2.
    "small": (12, 768, 12, 50304, 1024),
    "medium": (24, 1024, 16, 50304, 1024),
    # The V100 experiments of 2021.
    "7B": (36, 4096, 32, 50257, 1024),
    "7.5B": (36, 4096, 32, 50257, 1024),
    "14B": (32, 6144, 32, 50257, 1024),
    "18B": (40, 6144, 32, 50257, 1024),
    "25B": (40, 7168, 32, 50257, 1024),
    "30B": (48, 7168, 32, 50257, 1024),
    "39B": (48, 8192, 32, 50257, 1024),
    "52B": (64, 8192, 32, 50257, 1024),
    "65B": (64, 9216, 32, 50257, 1024),
    "81B": (64, 10240, 32, 50257, 1024),
    "97B": (64, 11264, 32, 50257, 1024),
    "116B": (64, 12288, 32, 50257, 1024),
    "136B": (64, 13312, 32, 50257, 1024),
    "158B": (64, 14336, 32, 50257, 1024),
    "181B": (64, 15360, 32, 50257, 1024),
    "206B": (64, 16384, 32, 50257, 1024),
}
SHORT_OPT = {
    key.removeprefix("opt-"): shape
    for key, shape in SHAPES.items()
    if key.startswith("opt-") and key != "opt-10b"
}


@pytest.mark.parametrize(("key", "shape"), [*SHAPES.items(), *SHORT_OPT.items()])
def test_a_preset_has_the_published_numbers(key: str, shape: tuple[int, ...]):
    """A preset has the sizes of the published table.

    Its MLP is four times as wide as the hidden size.
    """
    model = preset(key)
    assert (
        model.num_layers,
        model.hidden_size,
        model.num_attention_heads,
        model.vocab_size,
        model.seq_length,
    ) == shape
    assert model.ffn_width == 4 * model.hidden_size


def test_no_preset_is_unknown_here():
    """The table of published sizes in this module has every preset."""
    assert PRESETS.keys() == SHAPES.keys() | SHORT_OPT.keys()


@pytest.mark.parametrize("key", PRESETS)
def test_the_heads_of_a_preset_divide_its_hidden_size(key: str):
    """The hidden size of a preset is a multiple of its number of heads."""
    assert preset(key).hidden_size % preset(key).num_attention_heads == 0


@pytest.mark.parametrize(
    ("key", "billions"),
    [("s", 0.124), ("xl", 1.56), ("52B", 52.0), ("18B", 18.5), ("18b", 18.3), ("206B", 207.0)],
)
def test_a_preset_is_about_as_large_as_its_name(key: str, billions: float):
    """A preset has about as many parameters as its name says; 18b and 18B are different presets."""
    shape = preset(key)
    assert shape.parameters(shape.vocab_size) / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("key", "hint"), [("xxl", "did you mean 'xl'?"), ("18-b", "did you mean '18b'?"), ("?", "")]
)
def test_an_unknown_preset_is_refused_with_the_nearest_key(key: str, hint: str):
    """An unknown name of a preset is refused; the message suggests the most similar name."""
    with pytest.raises(UserError) as caught:
        preset(key)
    assert str(caught.value).startswith(f"there is no model preset {key!r}")
    assert str(caught.value).endswith(hint)
