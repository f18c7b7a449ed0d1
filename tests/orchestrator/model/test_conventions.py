"""Compare FLOPs by the conventions of other programs with the results of their own functions."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.model.convention_names import CONVENTIONS
from orchestrator.model.conventions import count_by_convention
from orchestrator.model.counting import count_flops
from orchestrator.model.description import Adapters, Model
from orchestrator.model.named import named_model, named_models
from orchestrator.run.described import described_shape, description
from orchestrator.run.flops import FORMULA_CONVENTIONS, Iteration, flops_by
from orchestrator.run.shape import ModelShape

# FLOPs of 4 sequences, returned by the function that the convention names as its source, of the
# checkouts: Megatron-LM core_v0.19.0, Megatron-Bridge 067f987df, torchtitan b5bcd76c6, nanotron
# 2411b022. Each got the model's own sizes; torchtitan's the tensors of transformers' class on the
# meta device, or with experts the tensors of the description under torchtitan's names.
PRINTED = {
    ("deepseek-v2-lite", "megatron-core"): 268_471_174_692_864,
    ("deepseek-v3", "megatron-bridge"): 4_092_920_692_998_144,
    ("deepseek-v3", "megatron-core"): 4_092_920_692_998_144,
    ("falcon-7b", "nanotron"): 499_381_753_085_952,
    ("gemma3-12b", "megatron-bridge"): 2_427_774_019_043_328,
    ("gemma3-27b", "megatron-core"): 5_719_005_578_919_936,
    ("gemma3-27b", "nanotron"): 6_635_302_491_783_168,
    ("gpt-oss-120b", "megatron-bridge"): 534_616_549_097_472,
    ("gpt-oss-20b", "megatron-bridge"): 375_388_077_293_568,
    ("gpt-oss-20b", "megatron-core"): 393_961_512_370_176,
    ("gpt2", "megatron-core"): 3_267_851_452_416,
    ("gpt2", "nanotron"): 4_195_564_388_352,
    ("kimi-k2", "megatron-core"): 3_350_157_638_762_496,
    ("llama3-70b", "nanotron"): 15_775_655_396_376_576,
    ("llama3-8b", "megatron-bridge"): 1_686_582_117_531_648,
    ("llama3-8b", "megatron-core"): 1_686_582_117_531_648,
    ("llama3.1-405b", "megatron-core"): 82_704_989_763_403_776,
    ("llama4-scout", "megatron-bridge"): 3_567_893_757_296_640,
    ("mistral-7b", "megatron-bridge"): 1_556_302_874_542_080,
    ("mixtral-8x7b", "megatron-core"): 1_305_910_576_152_576,
    ("nemotron-h-8b", "megatron-core"): 1_530_520_185_864_192,
    ("nemotron3-nano", "megatron-core"): 730_008_611_979_264,
    ("nemotron4-15b", "megatron-core"): 1_460_838_636_453_888,
    ("qwen2.5-7b", "megatron-core"): 735_444_429_963_264,
    ("qwen3-235b-a22b", "megatron-bridge"): 2_425_402_391_789_568,
    ("qwen3-30b-a3b", "megatron-core"): 376_934_919_831_552,
    ("qwen3-8b", "nanotron"): 862_721_490_812_928,
    ("qwen3-next-80b-a3b", "megatron-core"): 372_566_938_091_520,
    ("llama3-8b", "torchtitan"): 1_897_740_694_978_560,
    ("llama3.2-1b", "torchtitan"): 348_524_113_821_696,
    ("qwen3-0.6b", "torchtitan"): 104_773_579_702_272,
    ("gemma3-1b", "torchtitan"): 282_347_484_217_344,
    ("deepseek-v3", "torchtitan"): 4_606_496_474_136_576,
    ("gpt-oss-20b", "torchtitan"): 433_875_874_480_128,
}


@pytest.mark.parametrize(("name", "convention"), PRINTED)
def test_convention_is_what_the_program_counts(name: str, convention: str):
    """Each convention gives the same FLOPs as the function of the program from which it is taken.

    The models have e.g. latent attention, attention windows, experts, Mamba-2 or the delta rule.
    """
    count = count_by_convention(CONVENTIONS[convention], named_model(name).model(), sequences=4)
    assert count.flops == PRINTED[name, convention]


@pytest.mark.parametrize("convention", CONVENTIONS.values(), ids=CONVENTIONS)
@pytest.mark.parametrize("recomputed", [False, True])
def test_reasons_add_up_to_the_difference(convention, recomputed: bool):
    """If a convention's FLOPs differ from the exact FLOPs, its reasons add up to the difference.

    If a convention cannot count a model, a text explains why.
    """
    for named in named_models().values():
        model = replace(named.model(), adapters=Adapters(rank=8, targets=("query", "MLP up")))
        for counted_model in (named.model(), model):
            count = count_by_convention(
                convention, counted_model, sequences=2, recomputed=recomputed
            )
            exact = count_flops(counted_model, sequences=2, recomputed=recomputed)
            assert count.exact == (
                exact.hardware if convention.counts_recomputation else exact.model
            )
            assert (count.flops is None) == (count.unsuited is not None)
            if count.flops is not None:
                assert count.flops == count.exact + sum(more for _, more in count.deviations)
                assert count.flops > 0


SHAPES = st.builds(
    ModelShape,
    num_layers=st.integers(1, 4),
    hidden_size=st.sampled_from([64, 96, 128]),
    num_attention_heads=st.sampled_from([4, 8]),
    vocab_size=st.integers(10, 600),
    seq_length=st.integers(1, 300),
    ffn_hidden_size=st.sampled_from([None, 100, 256, 384]),
    num_key_value_heads=st.sampled_from([None, 1, 2, 4]),
    gated_mlp=st.booleans(),
    untied_head=st.booleans(),
    position_table=st.booleans(),
    embedding_norm=st.booleans(),
    biases=st.sampled_from(["all", "qkv", "none"]),
    norm=st.sampled_from(["layernorm", "rmsnorm"]),
)


@settings(max_examples=200, deadline=None)
@given(shape=SHAPES, padded=st.integers(0, 50), recomputed=st.booleans())
def test_formulas_and_parts_count_the_same(shape: ModelShape, padded: int, recomputed: bool):
    """The formulas for a shape and the sum over its model's parts give the same FLOPs."""
    vocabulary = shape.vocab_size + padded
    described = description(shape, vocabulary)
    other = described_shape(described)
    assert other.parameters(vocabulary) == shape.parameters(vocabulary)
    assert other.looked_up_parameters(vocabulary) == shape.looked_up_parameters(vocabulary)
    for convention in FORMULA_CONVENTIONS:
        iterations = [
            Iteration(
                model=sized,
                padded_vocab_size=vocabulary,
                global_batch_size=3,
                recomputed=recomputed,
            )
            for sized in (shape, other)
        ]
        by_formula, by_parts = (flops_by(convention, iteration) for iteration in iterations)
        assert by_formula == by_parts, convention.name


def trained_and_frozen() -> tuple[Model, Model]:
    """Return two descriptions of Llama 3 8B, for sequences of 128 tokens.

    First: all weights are trained. Second: the weights are frozen, and only adapters of rank 8 are
    trained.
    """
    model = named_model("llama3-8b").model(128)
    return model, replace(model, adapters=Adapters(rank=8, targets=("query", "value")))


def test_frozen_matrices_cost_no_gradients_of_weights():
    """A frozen matrix costs one product in the backward pass instead of two.

    Products within attention have no weights, so each still costs two in the backward pass.
    """
    model, frozen = (count_flops(described, sequences=1) for described in trained_and_frozen())
    kinds = {term.part.name: term for term in model.terms}
    for term in frozen.terms:
        if term.part.name in kinds:
            other = kinds[term.part.name]
            assert term.forward == other.forward
            product = term.part.kind == "product"
            assert term.backward == (other.backward if product else other.forward)
        else:
            assert "adapter" in term.part.name
            assert term.backward == 2 * term.forward
