"""Compute the sizes of a run that follow from the sizes in its campaign file."""

import dataclasses

import pytest
from fixture_types import RunOf

from orchestrator.run.model import Parallelism, size_names, sizes


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
    """The vocabulary is padded to a multiple of `vocab_size_multiple` * `tensor_parallel_size`."""
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
    "sequences split, too": (
        {
            "nodes": 4,
            "gpus_per_node": 4,
            "tensor_parallel_size": 2,
            "context_parallel_size": 4,
            "num_microbatches": 5,
        },
        (16, 2, 5, 10),
    ),
    "split 8 ways on 4": (
        {"gpus_per_node": 4, "tensor_parallel_size": 8, "num_microbatches": 2},
        (4, None, None, None),
    ),
    "split 3 ways on 4": (
        {"gpus_per_node": 4, "pipeline_parallel_size": 3},
        (4, None, None, None),
    ),
}


@pytest.mark.parametrize(("values", "expected"), BATCHES.values(), ids=BATCHES)
def test_sizes_that_do_not_divide_are_absent(
    run_of: RunOf, values: dict[str, int], expected: tuple[int | None, ...]
):
    """If a division of sizes has a remainder, the sizes that need its result are None.

    E.g. if tensor-parallel size 8 is set for 4 ranks, the global batch is None.
    """
    run = run_of(**values)
    assert (
        run.world_size,
        run.data_parallel_size,
        run.num_microbatches,
        run.batch.global_batch_size,
    ) == expected


def test_gpu_hours_are_every_gpu_for_the_whole_time_limit(run_of: RunOf):
    """A run's GPU-hours are all its GPUs times its time limit, not the time that it uses."""
    run = run_of(nodes=2, gpus_per_node=4, time_limit="0:45:00")
    assert run.resources.gpu_hours == 6.0


@pytest.mark.parametrize("framework", ["gpt", "deepspeed"])
def test_every_size_has_one_name(run_of: RunOf, framework: str):
    """For a run of any framework, `sizes` has every name that `size_names` returns."""
    values = {"script": "train.py"} if framework == "deepspeed" else {}
    named = sizes(run_of(framework=framework, **values))
    assert size_names() <= named.keys()
    assert {"parameters_billions", "world_size", "num_microbatches", "zero_stage"} <= size_names()


def test_a_run_without_a_model_has_no_model_sizes(run_of: RunOf):
    """If a run's model is unknown, the sizes of the model are None, not 0."""
    named = sizes(run_of(framework="deepspeed", script="train.py", model={}))
    assert {named[name] for name in ("num_layers", "padded_vocab_size", "parameters")} == {None}
    assert named["parameters_billions"] is None
