"""Compute the sizes and the number of parameters of a model's shape."""

import dataclasses
from typing import Any

import pytest

from orchestrator.run.formulas import value
from orchestrator.run.shape import GPT2_PARAMETERS, ModelShape, padded_vocab_size

TINY = ModelShape(3, 64, 4, 512, 32)

# What transformers' GPT2LMHeadModel counts, tied head included, for
# (num_layers, hidden_size, vocab_size, seq_length).
PARAMETERS = {
    "gpt2": ((12, 768, 50257, 1024), 124_439_808),
    "gpt2-medium": ((24, 1024, 50257, 1024), 354_823_168),
    "gpt2-large": ((36, 1280, 50257, 1024), 774_030_080),
    "gpt2-xl": ((48, 1600, 50257, 1024), 1_557_611_200),
    "52B": ((64, 8192, 50257, 2048), 51_974_922_240),
    "gpt3-175b": ((96, 12288, 51200, 2048), 174_615_846_912),
    "mt-nlg-530b": ((105, 20480, 51200, 2048), 529_600_819_200),
    "megatron-1T": ((128, 25600, 51200, 2048), 1_008_038_758_400),
    "tiny": ((2, 64, 512, 64), 136_960),
}


@pytest.mark.parametrize(("shape", "expected"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_are_those_that_transformers_counts(
    shape: tuple[int, int, int, int], expected: int
):
    """The formula for parameters gives exactly the number that transformers counts."""
    layers, hidden, vocab, seq = shape
    assert ModelShape(layers, hidden, 16, vocab, seq).parameters(vocab) == expected


def test_an_mlp_of_another_width_has_its_own_number_of_parameters():
    """An MLP that is wider by one has 2h + 1 more parameters per layer (h: hidden size)."""
    usual = ModelShape(3, 64, 4, 512, 64)
    wider = dataclasses.replace(usual, ffn_hidden_size=257)
    assert wider.parameters(512) - usual.parameters(512) == 3 * (2 * 64 + 1)


@pytest.mark.parametrize("shape", [shape for shape, _ in PARAMETERS.values()], ids=PARAMETERS)
def test_the_parts_are_l_12h2_13h_vh_sh_2h(shape: tuple[int, int, int, int]):
    """The parts of GPT-2's parameters add up to l·(12·h² + 13·h) + V·h + s·h + 2·h.

    l: layers, h: hidden size, V: vocabulary, s: sequence length.
    """
    layers, hidden, vocab, seq = shape
    model = ModelShape(layers, hidden, 16, vocab, seq)
    quoted = layers * (12 * hidden**2 + 13 * hidden) + vocab * hidden + seq * hidden + 2 * hidden
    assert model.parameters(vocab) == quoted
    assert model.is_gpt2
    assert GPT2_PARAMETERS == "l·(12·h² + 13·h) + V·h + s·h + 2·h"


# What each change adds to TINY: 3 layers, h = 64, f = 256, V = 512, s = 32.
CHANGES: dict[str, tuple[dict[str, Any], int]] = {
    "a layer": ({"num_layers": 4}, 12 * 64**2 + 13 * 64),
    "a token of context": ({"seq_length": 33}, 64),
    "a wider MLP": ({"ffn_hidden_size": 257}, 3 * (2 * 64 + 1)),
    "more heads": ({"num_attention_heads": 8}, 0),
    "two groups of heads": ({"num_key_value_heads": 2}, -3 * 2 * 32 * 65),
    "a gate": ({"gated_mlp": True}, 3 * (64 * 256 + 256)),
    "a head of its own": ({"untied_head": True}, 512 * 64),
    "no position table": ({"position_table": False}, -32 * 64),
    "a norm of the embedding": ({"embedding_norm": True}, 2 * 64),
    "biases of query, key and value": ({"biases": "qkv"}, -3 * (64 + 256 + 64)),
    "no biases": ({"biases": "none"}, -3 * (4 * 64 + 256 + 64)),
    "RMSNorm": ({"norm": "rmsnorm"}, -(3 * 2 + 1) * 64),
}


@pytest.mark.parametrize(("changed", "more"), CHANGES.values(), ids=CHANGES)
def test_every_field_of_a_shape_counts(changed: dict[str, Any], more: int):
    """Each field of a shape changes the number of parameters by a known amount.

    The number of heads does not change it, because heads only split the hidden size.
    """
    other = dataclasses.replace(TINY, **changed)
    assert other.parameters(512) - TINY.parameters(512) == more


def test_the_padding_of_the_vocabulary_counts():
    """The padding of the vocabulary adds parameters to the token embedding.

    It adds as many to the output head, if the head is not tied to the embedding.
    """
    assert TINY.parameters(640) - TINY.parameters(512) == 128 * 64
    untied = dataclasses.replace(TINY, untied_head=True)
    assert untied.parameters(640) - untied.parameters(512) == 2 * 128 * 64


@pytest.mark.parametrize(
    ("changed", "looked_up"),
    [
        ({}, 32 * 64),
        ({"untied_head": True}, (32 + 512) * 64),
        ({"position_table": False}, 0),
        ({"position_table": False, "untied_head": True}, 512 * 64),
    ],
    ids=str,
)
def test_tables_are_looked_up_and_multiply_nothing(changed: dict[str, Any], looked_up: int):
    """The parameters of embeddings are only looked up, and are not factors of products.

    The exception is a token embedding that is also the output head.
    """
    assert dataclasses.replace(TINY, **changed).looked_up_parameters(512) == looked_up


@pytest.mark.parametrize(
    ("changed", "is_gpt2", "has_gpt2_layers"),
    [
        ({}, True, True),
        ({"ffn_hidden_size": 256}, True, True),
        ({"ffn_hidden_size": 255}, False, False),
        ({"num_key_value_heads": 2}, False, False),
        ({"num_key_value_heads": 4}, True, True),
        ({"gated_mlp": True}, False, False),
        ({"untied_head": True}, False, True),
        ({"biases": "none"}, False, True),
        ({"norm": "rmsnorm"}, False, True),
        ({"position_table": False}, False, True),
    ],
    ids=str,
)
def test_a_shape_knows_whether_formulas_for_gpt_2_are_its_own(
    changed: dict[str, Any], is_gpt2: bool, has_gpt2_layers: bool
):
    """A shape has fields that show whether formulas for GPT-2 hold for its model.

    `is_gpt2` is about the whole model, `has_gpt2_layers` only about its layers.
    """
    shape = dataclasses.replace(TINY, **changed)
    assert (shape.is_gpt2, shape.has_gpt2_layers) == (is_gpt2, has_gpt2_layers)


def test_the_parts_of_the_parameters_are_named():
    """`parameter_formulas` has a formula for each named part of the model, e.g. the head."""
    formulas = dataclasses.replace(TINY, untied_head=True, embedding_norm=True).parameter_formulas()
    assert [*formulas] == [
        "attention",
        "MLP",
        "norms of layers",
        "token embedding",
        "position embedding",
        "embedding norm",
        "final norm",
        "head",
    ]
    assert value(formulas["head"], TINY.symbols(512)) == 512 * 64


@pytest.mark.parametrize(
    ("vocab_size", "multiple", "padded"), [(50257, 1, 50257), (50257, 128, 50304), (128, 128, 128)]
)
def test_a_vocabulary_is_padded_upwards(vocab_size: int, multiple: int, padded: int):
    """The vocabulary is padded up to the next multiple of the given number."""
    assert padded_vocab_size(vocab_size, multiple) == padded
