"""Compare FLOPs by every convention with the published formulas.

test_real_models.py compares them with torch's counts on real models.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model.convention_names import CONVENTIONS
from orchestrator.run.flops import (
    FORMULA_CONVENTIONS,
    Iteration,
    bigscience_flops,
    flops_by,
    hardware_flops,
    model_flops,
    narayanan_flops,
    tflops_per_gpu,
    training_seconds,
    utilization,
)
from orchestrator.run.shape import ModelShape

SHAPES = {
    "gpt2": ModelShape(12, 768, 12, 50257, 1024),
    "1.3B": ModelShape(24, 2048, 16, 50304, 2048),
    "52B": ModelShape(64, 8192, 32, 50257, 1024),
    "13B": ModelShape(40, 5120, 40, 50304, 2048),
    "13B, long": ModelShape(40, 5120, 40, 50304, 8192),
    "175B": ModelShape(96, 12288, 96, 51200, 2048),
}


def iteration_of(model: ModelShape, **changed: Any) -> Iteration:
    """Return an iteration of 3 sequences, with an unpadded vocabulary.

    changed: fields of the iteration that get other values.
    """
    values = {"padded_vocab_size": model.vocab_size, "global_batch_size": 3, **changed}
    return Iteration(model=model, **values)


def flops(name: str, model: ModelShape, **changed: Any) -> int:
    """Return the FLOPs of an iteration of 3 sequences by the convention with this name.

    changed: fields of the iteration that get other values.
    """
    counted = flops_by(CONVENTIONS[name], iteration_of(model, **changed))
    assert counted is not None
    return counted


# The counts of torch's FlopCounterMode (math attention kernel), measured once on real models of
# (num_layers, hidden_size, vocab_size, seq_length, sequences): a training step, and one with every
# layer recomputed. Many more are counted again in test_real_models.py, if torch is installed.
COUNTED = {
    "2 layers of 64": ((2, 64, 512, 64, 4), 226_492_416, 285_212_672),
    "4 layers of 256": ((4, 256, 512, 128, 2), 5_435_817_984, 7_180_648_448),
    "4 layers, longer": ((4, 256, 1024, 256, 2), 12_079_595_520, 15_837_691_904),
    "GPT-2 XL": ((48, 1600, 50257, 1024, 1), 10_520_110_694_400, 13_862_132_121_600),
}


@pytest.mark.parametrize(("sizes", "step", "recomputed"), COUNTED.values(), ids=COUNTED)
def test_exact_products_are_what_torch_counts(sizes: tuple[int, ...], step: int, recomputed: int):
    """The conventions `model` and `hardware` give the FLOPs that torch counted for the same model.

    Torch's counts are numbers in this file.
    """
    layers, hidden, vocab, seq, sequences = sizes
    model = ModelShape(layers, hidden, 1, vocab, seq)
    assert flops("model", model, global_batch_size=sequences) == step
    assert flops("hardware", model, global_batch_size=sequences) == step
    again = flops("hardware", model, global_batch_size=sequences, recomputed=True)
    assert again == recomputed


@pytest.mark.parametrize("model", SHAPES.values(), ids=SHAPES)
def test_equation_3_of_narayanan_2021(model: ModelShape):
    """With recomputation, the FLOPs are those of equation 3 of Narayanan et al. 2021.

    In the equation, the vocabulary is divided by 16lh. Without recomputation, it is divided by
    12lh, and the factor 96 becomes 72 (l: layers, h: hidden size).
    """
    layers, h, vocab, s = model.num_layers, model.hidden_size, model.vocab_size, model.seq_length
    for recomputed, factor in ((True, 96), (False, 72)):
        head = Fraction(vocab, (16 if recomputed else 12) * layers * h)
        printed = factor * 3 * s * layers * h**2 * (1 + Fraction(s, 6 * h) + head)
        assert flops("narayanan", model, recomputed=recomputed) == printed
        assert flops("hardware", model, recomputed=recomputed) == printed
        sizes = {"num_layers": layers, "hidden_size": h, "padded_vocab_size": vocab}
        called = narayanan_flops(**sizes, seq_length=s, global_batch_size=3, recomputed=recomputed)
        assert called == printed


@pytest.mark.parametrize("model", SHAPES.values(), ids=SHAPES)
def test_the_approximation_of_bigscience(model: ModelShape):
    """The FLOPs are those of BigScience's formula.

    TFLOPs per step: parameters in billions * 4 * 2 * sequence length * global batch / 1e3. Without
    recomputation, the factor 4 becomes 3.
    """
    parameters = model.parameters(model.vocab_size)
    for recomputed, factor in ((True, 4), (False, 3)):
        printed = parameters * factor * 2 * model.seq_length * 3
        assert flops("bigscience", model, recomputed=recomputed) == printed
        assert bigscience_flops(parameters, model.seq_length, 3, factor) == printed


@pytest.mark.parametrize("model", SHAPES.values(), ids=SHAPES)
def test_appendix_b_of_palm(model: ModelShape):
    """PaLM's convention is 6N + 12LHQT per token.

    N: parameters without the table of positions, L: layers, H: heads, Q: head size,
    T: sequence length.
    """
    size = model.hidden_size // model.num_attention_heads
    per_head = 12 * model.num_layers * model.num_attention_heads * size * model.seq_length
    n = model.parameters(model.vocab_size) - model.seq_length * model.hidden_size
    assert flops("palm", model) == 3 * model.seq_length * (6 * n + per_head)


@pytest.mark.parametrize("model", SHAPES.values(), ids=SHAPES)
def test_megatron_core_takes_half_of_attention_off(model: ModelShape):
    """Megatron core's convention counts only half of attention: it leaves out future tokens."""
    attention = 12 * 3 * model.seq_length**2 * model.num_layers * model.hidden_size
    assert flops("megatron-core", model) == flops("model", model) - attention // 2


# The ratios of the conventions on the same run, computed by hand: with recomputation over
# `hardware`, without over `model`.
APART = {
    "gpt2": (0.937, 0.874, 1.001, 0.934),
    "1.3B": (0.885, 0.870, 1.000, 0.933),
    "52B": (0.982, 0.980, 1.000, 0.990),
    "13B": (0.944, 0.940, 1.000, 0.969),
    "13B, long": (0.799, 0.796, 1.000, 0.896),
    "175B": (0.974, 0.973, 1.000, 0.987),
}


@pytest.mark.parametrize("name", APART)
def test_conventions_differ_by_what_they_leave_out(name: str):
    """The ratios between the FLOPs of different conventions equal those computed by hand.

    For long sequences or small models, the conventions differ by up to a fifth.
    """
    model = SHAPES[name]
    exact = flops("model", model)
    again = flops("bigscience", model, recomputed=True) / flops("hardware", model, recomputed=True)
    others = (flops(name, model) / exact for name in ("bigscience", "palm", "megatron-core"))
    assert (again, *others) == pytest.approx(APART[name], abs=6e-4)


TINY = ModelShape(2, 64, 4, 512, 64)
EVERY = frozenset(convention.name for convention in FORMULA_CONVENTIONS)
# What is changed, and the conventions in which that costs something else. narayanan's equation is
# not for a layer that is not GPT-2's, and gives no number then.
CHANGES: dict[str, tuple[dict[str, Any], frozenset[str]]] = {
    "num_layers": ({"num_layers": 3}, EVERY),
    "hidden_size": ({"hidden_size": 128}, EVERY),
    "seq_length": ({"seq_length": 65}, EVERY),
    "ffn_hidden_size": ({"ffn_hidden_size": 300}, EVERY),
    "num_key_value_heads": ({"num_key_value_heads": 2}, EVERY),
    "gated_mlp": ({"gated_mlp": True}, EVERY),
    "heads that only split": ({"num_attention_heads": 8}, frozenset()),
    "biases": ({"biases": "none"}, frozenset({"bigscience", "palm"})),
    "norm": ({"norm": "rmsnorm"}, frozenset({"bigscience", "palm"})),
    "embedding_norm": ({"embedding_norm": True}, frozenset({"bigscience", "palm"})),
    "position_table": ({"position_table": False}, frozenset({"bigscience"})),
    "untied_head": ({"untied_head": True}, frozenset({"bigscience"})),
}
RECOMPUTING = frozenset({"hardware", "narayanan", "bigscience"})


@pytest.mark.parametrize(("changed", "expected"), CHANGES.values(), ids=CHANGES)
def test_every_field_of_a_shape_counts_where_it_should(
    changed: dict[str, Any], expected: frozenset[str]
):
    """Each field of a shape changes the FLOPs of the conventions that depend on it, and no others.

    The number of heads changes no FLOPs.
    """
    other = iteration_of(replace(TINY, **changed))
    plain = iteration_of(TINY)
    differing = {
        convention.name
        for convention in FORMULA_CONVENTIONS
        if flops_by(convention, other) != flops_by(convention, plain)
    }
    assert differing == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"padded_vocab_size": 640}, EVERY),
        ({"global_batch_size": 4}, EVERY),
        ({"recomputed": True}, RECOMPUTING),
    ],
    ids=["padding", "batch", "recomputation"],
)
def test_padding_batch_and_recomputation_count(changed: dict[str, Any], expected: frozenset[str]):
    """A larger padded vocabulary or global batch gives more FLOPs by every convention.

    Recomputation gives more FLOPs only by the conventions that include it.
    """
    plain, other = iteration_of(TINY), iteration_of(TINY, **changed)
    more = {
        convention.name
        for convention in FORMULA_CONVENTIONS
        if flops_by(convention, other) > flops_by(convention, plain)
    }
    assert more == expected
    assert {
        name for name, convention in CONVENTIONS.items() if convention.counts_recomputation
    } == RECOMPUTING


shapes = st.builds(
    ModelShape,
    num_layers=st.integers(1, 200),
    hidden_size=st.integers(1, 500).map(lambda size: 64 * size),
    num_attention_heads=st.just(64),
    vocab_size=st.integers(1, 300_000),
    seq_length=st.integers(1, 100_000),
    ffn_hidden_size=st.none() | st.integers(1, 100_000),
    num_key_value_heads=st.none() | st.sampled_from([1, 8, 64]),
    gated_mlp=st.booleans(),
    untied_head=st.booleans(),
)


@given(shapes, st.booleans())
def test_hardware_does_no_less_than_the_model_needs(model: ModelShape, recomputed: bool):
    """Hardware FLOPs are never below model FLOPs, so MFU <= HFU.

    Megatron core's FLOPs leave out what a causal mask hides. They are at least half of the model
    FLOPs.
    """
    exact = flops("model", model, recomputed=recomputed)
    assert exact // 2 <= flops("megatron-core", model, recomputed=recomputed) <= exact
    hardware = flops("hardware", model, recomputed=recomputed)
    assert exact < hardware <= 4 / 3 * exact if recomputed else hardware == exact


@pytest.mark.parametrize("position", range(4))
def test_every_argument_of_bigscience_s_formula_counts(position: int):
    """BigScience's formula is a product: if one of its arguments doubles, the FLOPs double."""
    arguments = [1000, 64, 8, 3]
    twice = [2 * value if index == position else value for index, value in enumerate(arguments)]
    assert bigscience_flops(*twice) == 2 * bigscience_flops(*arguments)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_layers": 3},
        {"hidden_size": 65},
        {"padded_vocab_size": 513},
        {"seq_length": 65},
        {"global_batch_size": 5},
        {"recomputed": True},
    ],
    ids=str,
)
def test_every_argument_of_equation_3_counts(changed: dict[str, Any]):
    """A larger size or recomputation gives more FLOPs by equation 3 of Narayanan et al. 2021."""
    plain: dict[str, Any] = {
        "num_layers": 2,
        "hidden_size": 64,
        "padded_vocab_size": 512,
        "seq_length": 64,
        "global_batch_size": 4,
        "recomputed": False,
    }
    assert narayanan_flops(**{**plain, **changed}) > narayanan_flops(**plain)


def test_equation_3_is_not_for_every_model():
    """The convention `narayanan` gives no FLOPs unless the MLP consists of two matrices 4h wide.

    The convention's description states this assumption (h: hidden size).
    """
    convention = CONVENTIONS["narayanan"]
    assert flops_by(convention, iteration_of(replace(TINY, gated_mlp=True))) is None
    assert "an MLP of two matrices 4h wide" in convention.assumes
    assert not any(
        convention.assumes for name, convention in CONVENTIONS.items() if name != "narayanan"
    )


def test_every_convention_has_its_name_and_title():
    """The keys of CONVENTIONS are the names of all conventions, and each convention has a title."""
    assert [*CONVENTIONS] == [
        "model",
        "hardware",
        "narayanan",
        "bigscience",
        "megatron-core",
        "megatron-bridge",
        "torchtitan",
        "nanotron",
        "palm",
    ]
    assert all(
        convention.name == name and convention.title for name, convention in CONVENTIONS.items()
    )


def test_a_run_is_counted_as_its_iteration(run_of: RunOf):
    """The FLOPs of a run are those of an iteration with the run's sizes.

    These include the padded vocabulary, the global batch and recomputation.
    """
    run = replace(
        run_of(micro_batch_size=4, num_microbatches=2, activation_checkpointing=True),
        vocab_size_multiple=128,
    )
    assert run.model is not None
    iteration = Iteration(
        model=run.model, padded_vocab_size=512, global_batch_size=8, recomputed=True
    )
    assert model_flops(run) == flops_by(CONVENTIONS["model"], iteration) == 2 * 226_492_416
    assert hardware_flops(run) == flops_by(CONVENTIONS["hardware"], iteration) == 2 * 285_212_672


@pytest.mark.parametrize(
    "changed",
    [
        {"num_layers": 3},
        {"hidden_size": 128},
        {"ffn_hidden_size": 300},
        {"vocab_size": 513},
        {"seq_length": 65},
        {"micro_batch_size": 2},
        {"num_microbatches": 2},
        {"gpus_per_node": 2},
    ],
    ids=str,
)
def test_every_size_of_a_run_that_is_larger_costs_more(run_of: RunOf, changed: dict[str, int]):
    """A larger model, batch or number of GPUs gives more model FLOPs per iteration of a run."""
    assert model_flops(run_of(**changed)) > model_flops(run_of())


def test_without_model_or_batch_there_are_no_flops(run_of: RunOf):
    """The FLOPs of a run are None if its model or its global batch is unknown."""
    unknown = run_of(framework="deepspeed", script="train.py", model={})
    undetermined = run_of(tensor_parallel_size=8)
    assert {model_flops(unknown), hardware_flops(unknown), model_flops(undetermined)} == {None}


@pytest.mark.parametrize(
    ("flops", "seconds", "world_size", "expected"),
    [
        (8 * 10**12, 2.0, 4, 1.0),
        (None, 2.0, 4, None),
        (10**12, None, 4, None),
        (10**12, 0.0, 4, None),
    ],
)
def test_tflops_are_shared_over_ranks_and_seconds(
    flops: int | None, seconds: float | None, world_size: int, expected: float | None
):
    """TFLOPs per GPU are the FLOPs of a step divided by the number of ranks and the step time.

    If the FLOPs or the step time are unknown, the result is None, never zero or infinity.
    """
    assert tflops_per_gpu(flops, seconds, world_size) == expected


@pytest.mark.parametrize(
    ("tflops", "peak", "expected"),
    [(62.5, 125.0, 0.5), (None, 125.0, None), (62.5, None, None), (62.5, 0.0, None)],
)
def test_utilization_is_a_part_of_the_peak(
    tflops: float | None, peak: float | None, expected: float | None
):
    """Utilization is the TFLOPs divided by the GPU's peak; it is None if one of them is unknown."""
    assert utilization(tflops, peak) == expected


def test_a_training_takes_8tp_over_nx():
    """GPT-3 on 300 B tokens takes 34 days on 1024 A100s at 140 TFLOP/s, by 8TP/(nX).

    T: tokens, P: parameters, n: GPUs, X: FLOP/s per GPU. The numbers are those of Narayanan et al.
    2021, section 5.1.
    """
    training: dict[str, Any] = {
        "tokens": 300 * 10**9,
        "parameters": 175 * 10**9,
        "world_size": 1024,
        "tflops_per_gpu": 140.0,
    }
    seconds = training_seconds(**training, recomputed=True)
    assert seconds == pytest.approx(8 * 300e9 * 175e9 / (1024 * 140e12))
    assert seconds / 86400 == pytest.approx(34, abs=0.5)
    assert training_seconds(**training, recomputed=False) == pytest.approx(seconds * 6 / 8)
