"""FLOPs: exact matrix products, as published formulas and torch's own counter have them."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from orchestrator.flops import forward_flops, hardware_flops, model_flops, tflops_per_gpu
from orchestrator.model import Run

RunOf = Callable[..., Run]

# What torch's FlopCounterMode counts (math attention kernel), measured on real models of
# (num_layers, hidden_size, vocab_size, seq_length, sequences): forward, training step,
# training step with every layer recomputed.
COUNTED = {
    "2 layers of 64": ((2, 64, 512, 64, 4), 75_497_472, 226_492_416, 285_212_672),
    "4 layers of 256": ((4, 256, 512, 128, 2), 1_811_939_328, 5_435_817_984, 7_180_648_448),
    "4 layers, longer": ((4, 256, 1024, 256, 2), 4_026_531_840, 12_079_595_520, 15_837_691_904),
}


@pytest.mark.parametrize(("shape", "forward", "step", "recomputed"), COUNTED.values(), ids=COUNTED)
def test_flops_are_what_torch_counts(
    run_of: RunOf, shape: tuple[int, ...], forward: int, step: int, recomputed: int
):
    """The formulas differ from the counter by nothing."""
    layers, hidden, vocab, seq, sequences = shape
    sizes = {"num_layers": layers, "hidden_size": hidden, "vocab_size": vocab, "seq_length": seq}
    run = run_of(**sizes, micro_batch_size=sequences)
    again = run_of(**sizes, micro_batch_size=sequences, activation_checkpointing=True)
    assert sum(forward_flops(run.model, vocab, sequences)) == forward
    assert (model_flops(run), hardware_flops(run)) == (step, step)
    assert (model_flops(again), hardware_flops(again)) == (step, recomputed)


def test_one_sequence_of_gpt2_xl_costs_what_torch_counts_on_its_meta_device(run_of: RunOf):
    """1.5 billion parameters, a sequence of 1024 tokens."""
    assert model_flops(run_of(model="xl")) == 10_520_110_694_400


@pytest.mark.parametrize("key", ["s", "xl", "175b", "opt-13b", "7.5B", "52B", "206B"])
@pytest.mark.parametrize(
    ("checkpointing", "factor", "head"), [(False, 72, 12), (True, 96, 16)], ids=["72", "96"]
)
def test_flops_are_equation_3_of_narayanan_2021(
    run_of: RunOf, key: str, checkpointing: bool, factor: int, head: int
):
    """96Bslh²(1 + s/6h + V/16lh) with recomputation, 72Bslh²(1 + s/6h + V/12lh) without."""
    run = run_of(model=key, micro_batch_size=3, activation_checkpointing=checkpointing)
    layers, h, s = run.model.num_layers, run.model.hidden_size, run.model.seq_length
    bracket = 1 + Fraction(s, 6 * h) + Fraction(run.model.vocab_size, head * layers * h)
    assert hardware_flops(run) == factor * 3 * s * layers * h**2 * bracket


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
def test_every_size_that_is_larger_costs_more(run_of: RunOf, changed: dict[str, int]):
    """No parameter is accepted and then forgotten."""
    assert model_flops(run_of(**changed)) > model_flops(run_of())


def test_heads_cost_nothing_for_they_split_the_hidden_size(run_of: RunOf):
    """The number of heads does not change the size of any product."""
    assert model_flops(run_of(num_attention_heads=8)) == model_flops(run_of())


def test_without_model_or_batch_there_are_no_flops(run_of: RunOf):
    """A user's own script has no formula; a batch that is not determined has no FLOPs."""
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
    """A missing number gives none, never zero or infinity."""
    assert tflops_per_gpu(flops, seconds, world_size) == expected
