"""A run's identity is a hash of its parameters.

It is the same in every version of teralog, and for every spelling of the parameters.
"""

import dataclasses
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.run.identity import run_id
from orchestrator.run.model import Run

# Literal ids: a version that changes one of them no longer finds the runs measured so far.
PINNED = {
    "gpt, all defaults": ({}, "0806bbb16682"),
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
        "574329391b47",
    ),
    "deepspeed, a script": (
        {
            "framework": "deepspeed",
            "model": {},
            "script": "train.py",
            "script_args": ["--flag", "1"],
            "zero_stage": 2,
        },
        "83e092d5b67f",
    ),
}


@pytest.mark.parametrize(("values", "identity"), PINNED.values(), ids=PINNED)
def test_an_identity_never_changes(run_of: RunOf, values: dict[str, Any], identity: str):
    """The same parameters give the same identity in every version, so earlier results are found."""
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
    "a size within the model and next to it": (
        {"model": {"preset": "s", "seq_length": 64}},
        {"model": "s", "seq_length": 64},
    ),
    "the usual MLP width, written out": ({"model": "s"}, {"model": "s", "ffn_hidden_size": 3072}),
    "micro-batches and the global batch": (
        {"gpus_per_node": 2, "num_microbatches": 3},
        {"gpus_per_node": 2, "global_batch_size": 6},
    ),
    "both of them, which agree": (
        {"gpus_per_node": 2, "num_microbatches": 3},
        {"gpus_per_node": 2, "num_microbatches": 3, "global_batch_size": 6},
    ),
    "defaults written out": (
        {},
        {
            "nodes": 1,
            "gpus_per_node": 1,
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "context_parallel_size": 1,
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


@pytest.mark.parametrize(("values", "other_values"), SAME.values(), ids=SAME)
def test_equal_parameters_have_one_identity_however_they_are_spelled(
    run_of: RunOf, values: dict[str, Any], other_values: dict[str, Any]
):
    """Equal parameters give the same identity, whatever their spelling in the campaign file."""
    assert run_id(run_of(**values)) == run_id(run_of(**other_values))


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
    """Return the run's fields without the model's name and the time limit.

    These two do not change a run's identity.
    """
    fields = dataclasses.asdict(run)
    del fields["model_name"], fields["resources"]["time_limit_seconds"]
    return fields


@given(changes, changes)
def test_runs_have_one_identity_exactly_when_they_measure_the_same(
    run_of: RunOf, values: dict[str, Any], other_values: dict[str, Any]
):
    """Two runs have the same identity if, and only if, all their fields except two are equal.

    The two exceptions are the model's name and the time limit.
    """
    first, second = run_of(**values), run_of(**other_values)
    same = measured(first) == measured(second)
    assert (run_id(first) == run_id(second)) == same
