"""Runs: their sizes, and the identity that is a hash of their parameters."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model import ModelShape, Parallelism, Run, run_id, size_names, sizes

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


# Literal: a later version that changes one of these makes every run measured so far a stranger.
PINNED = {
    "gpt, all defaults": ({}, "ba5d1f6bd0cd"),
    "gpt, nothing left at its default": (
        {
            "model": "xl",
            "nodes": 2,
            "gpus_per_node": 4,
            "micro_batch_size": 3,
            "num_microbatches": 5,
            "train_iters": 50,
            "precision": "bf16",
            "activation_checkpointing": True,
            "learning_rate": 0.01,
            "seed": 7,
            "strategy": "zero3",
            "offload_optimizer": "cpu",
            "offload_param": "cpu",
            "launcher": "srun",
            "deepspeed": {"zero_optimization": {"reduce_bucket_size": 4096}},
        },
        "pinned",
    ),
    "deepspeed, a script": (
        {
            "framework": "deepspeed",
            "model": {},
            "script": "train.py",
            "script_args": ["--flag", "1"],
            "zero_stage": 2,
        },
        "pinned",
    ),
}


@pytest.mark.parametrize(("values", "identity"), PINNED.values(), ids=PINNED)
def test_an_identity_never_changes(run_of: RunOf, values: dict[str, Any], identity: str):
    """Results stay findable: the same parameters have the same identity in every version."""
    assert run_id(run_of(**values)) == identity


SAME = {
    "a preset and its numbers": (
        {"model": "s"},
        {
            "model": {
                "num_layers": 12,
                "hidden_size": 768,
                "num_attention_heads": 12,
                "vocab_size": 50257,
                "seq_length": 1024,
            }
        },
    ),
    "a preset and itself with a size written out": (
        {"model": "s"},
        {"model": {"preset": "s", "seq_length": 1024}},
    ),
    "two keys of one preset": ({"model": "opt-125m"}, {"model": "125m"}),
    "a size within the model and beside it": (
        {"model": {"preset": "s", "seq_length": 64}},
        {"model": "s", "seq_length": 64},
    ),
    "the usual MLP width, written out": ({"model": "s"}, {"model": "s", "ffn_hidden_size": 3072}),
    "micro-batches and the global batch": (
        {"gpus_per_node": 2, "num_microbatches": 3},
        {"gpus_per_node": 2, "global_batch_size": 6},
    ),
    "defaults written out": (
        {},
        {
            "nodes": 1,
            "gpus_per_node": 1,
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "micro_batch_size": 1,
            "global_batch_size": 1,
            "train_iters": 20,
            "precision": "fp32",
            "activation_checkpointing": False,
            "learning_rate": 1.5e-4,
            "seed": 1234,
            "strategy": "ddp",
            "offload_optimizer": "none",
            "offload_param": "none",
            "launcher": "torchrun",
            "deepspeed": {},
        },
    ),
    "a whole number for a learning rate": ({"learning_rate": 1}, {"learning_rate": 1.0}),
    "keys of a mapping in another order": (
        {"strategy": "zero1", "deepspeed": {"fp16": {}, "bf16": {"a": 1, "b": 2}}},
        {"deepspeed": {"bf16": {"b": 2, "a": 1}, "fp16": {}}, "strategy": "zero1"},
    ),
    "another time limit": ({"time_limit": 10}, {"time_limit": "2:00:00"}),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_equal_parameters_have_one_identity_however_they_are_spelled(
    run_of: RunOf, one: dict[str, Any], other: dict[str, Any]
):
    """A campaign file that is tidied up keeps its results."""
    assert run_id(run_of(**one)) == run_id(run_of(**other))


changes = st.fixed_dictionaries(
    {},
    optional={
        "repeat": st.integers(1, 3),
        "cluster": st.sampled_from(["local", "v100"]),
        "num_layers": st.sampled_from([2, 3]),
        "hidden_size": st.sampled_from([64, 128]),
        "num_attention_heads": st.sampled_from([4, 8]),
        "ffn_hidden_size": st.sampled_from([100, 200]),
        "vocab_size": st.sampled_from([512, 513]),
        "seq_length": st.sampled_from([64, 65]),
        "nodes": st.integers(1, 3),
        "gpus_per_node": st.integers(1, 3),
        "micro_batch_size": st.integers(1, 3),
        "num_microbatches": st.integers(1, 3),
        "tensor_parallel_size": st.integers(1, 3),
        "pipeline_parallel_size": st.integers(1, 3),
        "train_iters": st.sampled_from([20, 21]),
        "precision": st.sampled_from(["fp32", "bf16", "fp16"]),
        "activation_checkpointing": st.booleans(),
        "learning_rate": st.sampled_from([1.5e-4, 1e-3]),
        "seed": st.integers(0, 3),
        "strategy": st.sampled_from(["ddp", "zero0", "zero3"]),
        "offload_optimizer": st.sampled_from(["none", "cpu"]),
        "offload_param": st.sampled_from(["none", "cpu"]),
        "launcher": st.sampled_from(["torchrun", "deepspeed"]),
        "deepspeed": st.sampled_from([{}, {"fp16": {}}, {"fp16": {"enabled": True}}]),
        "time_limit": st.integers(1, 3),
    },
)


def measured(run: Run) -> dict[str, Any]:
    """Return all that makes a run what it is: its fields, without those about asking for it."""
    fields = dataclasses.asdict(run)
    del fields["model_name"], fields["resources"]["time_limit_seconds"]
    return fields


@given(changes, changes)
def test_runs_have_one_identity_exactly_when_they_measure_the_same(
    run_of: RunOf, one: dict[str, Any], other: dict[str, Any]
):
    """Any parameter that changes makes another run, save those that only ask for resources."""
    first, second = run_of(**one), run_of(**other)
    same = measured(first) == measured(second)
    assert (run_id(first) == run_id(second)) == same
