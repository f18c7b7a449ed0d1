"""Described models on ranks: the parameters of all ranks add up to the model's."""

from dataclasses import replace

import pytest
from fixture_types import RunOf

from orchestrator.campaign.fit import Capacity, fits
from orchestrator.memory.described import dense_parameters, placed_experts
from orchestrator.memory.forecast import MemoryForecast, forecast
from orchestrator.memory.placement import bf16_optimizer_placement, megatron_placement
from orchestrator.memory.states import Rank
from orchestrator.model.counting import parameters
from orchestrator.model.description import Experts, Layer
from orchestrator.model.named import named_model, named_models
from orchestrator.model.parts import parts
from orchestrator.run.described import described_shape
from orchestrator.run.model import Parallelism


def rank(split_run: RunOf, name: str, *, experts: int = 1, **split: int) -> Rank:
    """Return the first rank of a run on 64 GPUs that trains a named model.

    experts: over how many ranks the experts are divided. split: further arguments of `split_run`,
    e.g. `tensor`, the tensor-parallel size.
    """
    model = named_model(name).model(4096)
    run = split_run(described_shape(model), 64, vocab_size_multiple=1, **split)
    tensor = split.get("tensor", 1)
    some = placed_experts(model, ranks=experts, tensor_ranks=tensor)
    placement = replace(megatron_placement("bf16"), experts=some)
    shape = run.model
    assert shape is not None
    return Rank(run, shape, model.vocab_size, placement, 0)


@pytest.mark.parametrize("name", named_models())
def test_one_rank_has_all_parameters(split_run: RunOf, name: str) -> None:
    """If nothing is divided over ranks, a rank has all dense layers and experts of the model."""
    whole = rank(split_run, name)
    assert whole.parameters + whole.expert_parameters == parameters(named_model(name).model(4096))


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"])
def test_experts_are_divided_and_nothing_else(split_run: RunOf, name: str) -> None:
    """If experts are divided over eight ranks, each has an eighth of the routed experts.

    Each also has all other parameters.
    """
    whole, part = rank(split_run, name), rank(split_run, name, experts=8)
    assert part.expert_parameters * 8 == whole.expert_parameters
    assert part.parameters == whole.parameters


def test_tensor_parallelism_leaves_routers_and_norms_whole(split_run: RunOf) -> None:
    """Each of two tensor-parallel ranks has all parameters of norms and routers.

    Mixtral has 65 norms of 4096 parameters, and 32 routers of 4096 · 8 parameters.
    """
    whole, half = rank(split_run, "mixtral-8x7b"), rank(split_run, "mixtral-8x7b", tensor=2)
    on_both = 65 * 4096 + 32 * 4096 * 8
    assert 2 * half.parameters - whole.parameters == on_both


def needs(split_run: RunOf, name: str) -> MemoryForecast:
    """Return the forecast of a named model on 64 GPUs."""
    model = named_model(name).model(4096)
    memory = forecast(split_run(described_shape(model), 64), megatron_placement("bf16"))
    assert memory is not None
    return memory


def test_layers_whose_kernels_are_not_known_never_surely_fit(split_run: RunOf) -> None:
    """A model with Mamba layers never gets the verdict `yes`, however large the memory is.

    The reason is that the memory of these layers depends on their kernels. A model of attention and
    MLPs can get the verdict `yes`.
    """
    room = Capacity(10**6, "a GPU")
    assert fits(needs(split_run, "nemotron3-nano"), room) == "maybe"
    assert fits(needs(split_run, "llama3-8b"), room) == "yes"


def test_bf16_optimizer_adds_gradients_up_in_fp32(split_run: RunOf) -> None:
    """With DeepSpeed's BF16_Optimizer, each rank keeps gradients of all its parameters in fp32.

    If it is not certain that a run uses this optimizer, the low end of these gradients is zero. The
    optimizer's states are divided as in ZeRO-1, even if the configuration has stage 0.
    """
    run = split_run("1.3B", 64)
    ends = []
    for sure in (True, False):
        memory = forecast(run, bf16_optimizer_placement(1, sure=sure))
        assert memory is not None
        copies = next(part for part in memory.parts if part.name == "gradient copies")
        ends.append((copies.low_gib, copies.high_gib))
    assert run.parameters is not None
    whole = 4 * run.parameters / 2**30
    assert ends == [pytest.approx((whole, whole)), pytest.approx((0, whole))]
    assert bf16_optimizer_placement(0, sure=True).zero_stage == 1


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3-next-80b-a3b"])
def test_tensor_parallelism_splits_the_shared_expert(name: str) -> None:
    """Each of two tensor-parallel ranks has half of the matrices of a shared expert.

    Each also has the whole matrix that gives the shared expert's score per token.
    """
    model = named_model(name).model(4096)
    without = replace(model, layers=tuple(map(without_shared_expert, model.layers)))
    scores = {part.parameters for part in parts(model) if part.name == "shared expert score"}
    whole, half = (
        dense_parameters(model, split, 0) - dense_parameters(without, split, 0)
        for split in (Parallelism(), Parallelism(tensor_parallel_size=2))
    )
    assert 2 * half - whole == sum(scores)


def without_shared_expert(layer: Layer) -> Layer:
    """Return the layer without its shared expert; a layer without experts is returned unchanged."""
    if not isinstance(layer.mlp, Experts):
        return layer
    return replace(layer, mlp=replace(layer.mlp, shared_width=None, shared_gate=False))
