"""The memory of mixture-of-experts models on the ranks that hold the experts."""

from dataclasses import replace

import pytest
from fixture_types import RunOf

from orchestrator.campaign.fit import Capacity, fits
from orchestrator.memory.activations import kept
from orchestrator.memory.experts import ExpertPlacement
from orchestrator.memory.forecast import MemoryForecast, forecast
from orchestrator.memory.placement import Placement, megatron_placement
from orchestrator.memory.states import Rank, rank_parameters
from orchestrator.model.counting import parameters
from orchestrator.model.named import named_model
from orchestrator.run.shape import ModelShape

MIXTRAL = ModelShape(
    32, 4096, 32, 32_000, 4096, ffn_hidden_size=14_336, num_key_value_heads=8, gated_mlp=True,
    untied_head=True, position_table=False, biases="none", norm="rmsnorm",
)  # fmt: skip


def experts(ranks: int = 1, tensor_ranks: int = 1, layers: int = 32) -> ExpertPlacement:
    """Return the placement of Mixtral's experts.

    ranks: over how many ranks the experts are divided. tensor_ranks: over how many ranks each
    expert is split. layers: how many of the 32 layers have experts, from the first layer on.
    """
    return ExpertPlacement(
        number=8,
        top_k=2,
        width=14_336,
        layers=tuple(index < layers for index in range(32)),
        ranks=ranks,
        tensor_ranks=tensor_ranks,
    )


def placed(some: ExpertPlacement | None, zero_stage: int = 1) -> Placement:
    """Return Megatron's placement with fused attention and these experts."""
    usual = megatron_placement("bf16")
    return replace(usual, experts=some, zero_stage=zero_stage, fused_attention=True)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_experts_of_all_ranks_are_those_of_the_model(split_run: RunOf, ranks: int) -> None:
    """The dense parameters of one rank and the experts of all ranks add up to the whole model.

    The model is Mixtral 8x7B, with 46.7 B parameters.
    """
    run = split_run(MIXTRAL, 8, vocab_size_multiple=1)
    rank = Rank(run, MIXTRAL, 32_000, placed(experts(ranks)), 0)
    whole = rank.parameters + ranks * rank.expert_parameters
    assert whole == parameters(named_model("mixtral-8x7b").model(4096))


def test_layers_without_experts_keep_their_mlp(split_run: RunOf) -> None:
    """If no layer has experts, the forecast equals that of a dense model."""
    run = split_run(MIXTRAL, 8, vocab_size_multiple=1)
    rank = Rank(run, MIXTRAL, 32_000, placed(experts(8, layers=0)), 0)
    assert rank.parameters == rank_parameters(MIXTRAL, 32_000, run.parallelism, 0)
    assert rank.expert_parameters == 0
    half = Rank(run, MIXTRAL, 32_000, placed(experts(8, layers=16)), 0)
    assert half.expert_parameters == 16 * 3 * 4096 * 14_336


@pytest.mark.parametrize(("layers", "expected"), [(32, 7), (26, 1), (25, 0)])
def test_the_last_stage_counts_as_many_layers_as_the_fullest(
    split_run: RunOf, layers: int, expected: int
) -> None:
    """If 5 stages do not divide 32 layers evenly, the last stage counts the last 7 layers.

    layers: how many of the 32 layers have experts, from the first layer on.
    """
    run = split_run(MIXTRAL, 5, pipeline=5)
    rank = Rank(run, MIXTRAL, 32_000, placed(experts(layers=layers)), 4)
    assert (rank.layers, rank.expert_layers) == (7, expected)


def test_a_stage_of_expert_layers_keeps_no_activations_of_a_dense_mlp(split_run: RunOf) -> None:
    """If all layers have experts, the last of 5 stages keeps as much as the first.

    A dense MLP would keep less. There is one micro-batch, so both stages keep its activations only.
    """
    run = split_run(MIXTRAL, 5, pipeline=5)
    placement = replace(placed(experts()), recomputation="none")
    first, last = (kept(Rank(run, MIXTRAL, 32_000, placement, stage)) for stage in (0, 4))
    assert first == last


def test_zero_divides_experts_over_the_ranks_that_share_them(split_run: RunOf) -> None:
    """ZeRO divides the states of experts over the ranks that hold the same experts.

    Of 64 ranks with TP 2 and PP 4, 8 ranks hold copies of a stage. If the experts are divided over
    4 ranks (EP 4), 2 ranks hold the same experts.
    """
    run = split_run(MIXTRAL, 64, tensor=2, pipeline=4)
    rank = Rank(run, MIXTRAL, 32_000, placed(experts(4, 2)), 0)
    assert (rank.shards(1), rank.expert_shards(1), rank.expert_shards(2)) == (8, 2, 1)


def needs(split_run: RunOf, some: ExpertPlacement | None) -> MemoryForecast:
    """Return the forecast of Mixtral on 64 GPUs with TP 2 and PP 4."""
    memory = forecast(split_run(MIXTRAL, 64, tensor=2, pipeline=4), placed(some))
    assert memory is not None
    return memory


def test_experts_need_more_than_one_mlp(split_run: RunOf) -> None:
    """A model with experts needs over 1.5 times the memory of the model with one MLP per layer.

    With 8 experts on 4 ranks, each rank holds 2 experts, and each token uses 2 experts.
    """
    with_experts, without = needs(split_run, experts(4, 2)), needs(split_run, None)
    assert with_experts.low_gib > 1.5 * without.low_gib
    assert with_experts.high_gib > 1.5 * without.high_gib


def test_a_model_that_is_partly_unknown_never_fits(split_run: RunOf) -> None:
    """If part of a model is unknown, the verdict is `maybe` or `no`, never `yes`.

    It is `no` if even the low end of the forecast is above the memory.
    """
    run = split_run(MIXTRAL, 64, tensor=2, pipeline=4)
    some = forecast(run, replace(placed(None), may_hold_more=True))
    assert fits(some, Capacity(1000.0, "a GPU")) == "maybe"
    assert fits(some, Capacity(1.0, "a GPU")) == "no"
    assert fits(needs(split_run, None), Capacity(1000.0, "a GPU")) == "yes"
