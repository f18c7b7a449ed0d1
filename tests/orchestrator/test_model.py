"""Runs: every size that follows from what was chosen."""

import dataclasses
from collections.abc import Callable

import pytest

from orchestrator.model import ModelShape, Parallelism, Run, size_names, sizes

RunOf = Callable[..., Run]

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
    """The formula is exact, not an estimate."""
    layers, hidden, vocab, seq = shape
    assert ModelShape(layers, hidden, 16, vocab, seq).parameters(vocab) == expected


def test_an_mlp_of_another_width_has_its_own_number_of_parameters():
    """Each column and row of the MLP counts 2h + 1."""
    usual = ModelShape(3, 64, 4, 512, 64)
    wider = dataclasses.replace(usual, ffn_hidden_size=257)
    assert wider.parameters(512) - usual.parameters(512) == 3 * (2 * 64 + 1)


@pytest.mark.parametrize(
    ("vocab_size", "multiple", "tensor_parallel_size", "padded"),
    [
        (50257, 1, 1, 50257),
        (50257, 128, 1, 50304),
        (50257, 128, 4, 50688),
        (50304, 128, 1, 50304),
        (1, 128, 8, 1024),
    ],
)
def test_the_vocabulary_is_padded_to_a_multiple_for_each_tensor_parallel_rank(
    run_of: RunOf, vocab_size: int, multiple: int, tensor_parallel_size: int, padded: int
):
    """The padded vocabulary is the one whose embedding counts."""
    run = dataclasses.replace(
        run_of(vocab_size=vocab_size),
        vocab_size_multiple=multiple,
        parallelism=Parallelism(tensor_parallel_size),
    )
    assert run.padded_vocab_size == padded
    assert run.parameters == run.model.parameters(padded)


BATCHES = {
    "one rank": ({"micro_batch_size": 4}, (1, 1, 1, 4)),
    "two ranks": ({"gpus_per_node": 2, "micro_batch_size": 4}, (2, 2, 1, 8)),
    "accumulated": ({"gpus_per_node": 2, "num_microbatches": 3}, (2, 2, 3, 6)),
    "by global batch": ({"gpus_per_node": 2, "global_batch_size": 6}, (2, 2, 3, 6)),
    "by global batch, not divisible": (
        {"gpus_per_node": 2, "global_batch_size": 7},
        (2, 2, None, 7),
    ),
    "global batch below one pass": ({"gpus_per_node": 2, "global_batch_size": 1}, (2, 2, None, 1)),
    "split 8 ways on 64": (
        {
            "nodes": 16,
            "gpus_per_node": 4,
            "tensor_parallel_size": 4,
            "pipeline_parallel_size": 2,
            "num_microbatches": 5,
        },
        (64, 8, 5, 40),
    ),
    "split 8 ways on 4": (
        {"gpus_per_node": 4, "tensor_parallel_size": 8, "num_microbatches": 2},
        (4, None, None, None),
    ),
    "split 3 ways on 4": (
        {"gpus_per_node": 4, "pipeline_parallel_size": 3},
        (4, None, None, 1),
    ),
}


@pytest.mark.parametrize(("values", "expected"), BATCHES.values(), ids=BATCHES)
def test_sizes_that_do_not_divide_are_absent(
    run_of: RunOf, values: dict[str, int], expected: tuple[int | None, ...]
):
    """World size, data-parallel size, micro-batches and global batch follow from what is chosen."""
    run = run_of(**values)
    assert (
        run.world_size,
        run.data_parallel_size,
        run.num_microbatches,
        run.batch.global_batch_size,
    ) == expected


def test_gpu_hours_are_every_gpu_for_the_whole_time_limit(run_of: RunOf):
    """They are what is asked for, not what is used."""
    run = run_of(nodes=2, gpus_per_node=4, time_limit="0:45:00")
    assert run.resources.gpu_hours == 6.0


@pytest.mark.parametrize("framework", ["gpt", "deepspeed"])
def test_every_size_has_one_name(run_of: RunOf, framework: str):
    """`size_names` are those that every framework's runs have, whatever their options."""
    values = {"script": "train.py"} if framework == "deepspeed" else {}
    named = sizes(run_of(framework=framework, **values))
    assert size_names() <= named.keys()
    assert {"parameters_billions", "world_size", "num_microbatches", "zero_stage"} <= size_names()


def test_a_run_without_a_model_has_no_model_sizes(run_of: RunOf):
    """Absent is None, not 0."""
    named = sizes(run_of(framework="deepspeed", script="train.py", model={}))
    assert {named[name] for name in ("num_layers", "padded_vocab_size", "parameters")} == {None}
    assert named["parameters_billions"] is None
