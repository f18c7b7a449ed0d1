"""How Megatron distributes layers and micro-batches over pipeline stages, and what it refuses."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.checks import run_warnings
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.forecast import forecast
from orchestrator.run.identity import run_id
from orchestrator.run.model import sizes
from orchestrator.submit.scripts import job_script

MEGATRON = FRAMEWORKS["megatron"]
DATA = {"data_path": "tokens", "vocab_file": "vocab.json", "merge_file": "merges.txt"}
EMBEDDING = "--account-for-embedding-in-pipeline-split"
LOSS = "--account-for-loss-in-pipeline-split"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
LAYOUT = "--pipeline-model-parallel-layout"
GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"


def four_stages(num_layers: int, *extra_args: Any, **values: Any) -> dict[str, Any]:
    """Return parameters of a run of Megatron core over a pipeline of four stages."""
    return {
        "framework": "megatron",
        "source": "megatron",
        "model": {
            "num_layers": num_layers,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "vocab_size": 50257,
            "seq_length": 128,
        },
        "gpus_per_node": 4,
        "pipeline_parallel_size": 4,
        "num_microbatches": 8,
        "extra_args": [str(argument) for argument in extra_args],
        **values,
    }


def in_chunks(num_layers: int, *extra_args: Any, **values: Any) -> dict[str, Any]:
    """Return parameters of a run over four pipeline stages, each with two chunks of layers."""
    return four_stages(num_layers, *extra_args, virtual_pipeline_parallel_size=2, **values)


UNEVEN = {
    "the embedding and the loss count as layers": four_stages(30, EMBEDDING, LOSS),
    "the embedding alone does": four_stages(31, EMBEDDING),
    "a last stage of its own": four_stages(31, LAST, 7),
    "a first stage of its own": four_stages(31, f"{FIRST}=7"),
    "both": four_stages(32, FIRST, 7, LAST, 5),
    "a layout": four_stages(30, LAYOUT, "Et*7|t*8|t*8|t*7L"),
    "in chunks with the embedding and the loss": in_chunks(30, EMBEDDING, LOSS),
    "in chunks with a last stage of its own": in_chunks(30, LAST, 6),
    "a larger group of micro-batches": in_chunks(32, GROUP, 5, num_microbatches=10),
    "a last group that fills the pipeline": in_chunks(32, GROUP, 5, num_microbatches=9),
    "a group that only chunks have": four_stages(32, GROUP, 6),
}


@pytest.mark.parametrize("values", UNEVEN.values(), ids=UNEVEN)
def test_stages_may_differ_in_megatron_core(run_of: RunOf, values: dict[str, Any]):
    """In Megatron core, pipeline stages may have different numbers of layers.

    The plan still forecasts their memory.
    """
    run = run_of(**values)
    assert list(MEGATRON.checks.problems(run)) == []
    placement = MEGATRON.model.placement(run)
    assert placement is not None
    assert forecast(run, placement) is not None


def test_megatron_2_has_only_even_stages(run_of: RunOf):
    problems = list(
        MEGATRON.checks.problems(run_of(**four_stages(30, LAST, 6, version="2", **DATA)))
    )
    assert problems == [
        "num_layers=30 is not divisible by pipeline_parallel_size=4",
    ]


@pytest.mark.parametrize(
    ("values", "option"),
    [
        (in_chunks(32), ("--num-layers-per-virtual-pipeline-stage", "4")),
        (in_chunks(30, EMBEDDING, LOSS), ("--num-virtual-stages-per-pipeline-rank", "2")),
        (in_chunks(30, LAST, 6), ("--num-virtual-stages-per-pipeline-rank", "2")),
    ],
    ids=["even", "counted", "ends"],
)
def test_chunks_of_uneven_stages_are_given_by_their_number(
    campaign_of: Callable[[str], Campaign], values: dict[str, Any], option: tuple[str, str]
):
    """If stages have different numbers of layers, the script gives the number of chunks per stage.

    If all stages are equal, the script gives the number of layers per chunk.
    """
    campaign = campaign_of(f"name: chunks\ninclude: [{values}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/chunks/run")).split()
    assert [pair for pair in pairwise(words) if "-virtual-" in pair[0]] == [option]


@pytest.mark.parametrize("option", [f"{FIRST}=7", f"{LAYOUT}=Et*7|t*9|t*8|t*8L"])
def test_the_forecast_assumes_equal_stages(run_of: RunOf, option: str):
    """The forecast assumes that all stages have equally many layers.

    If the stages of a run differ, a warning reports this assumption.
    """
    run = run_of(**four_stages(31 if FIRST in option else 32, option))
    name = option.partition("=")[0]
    assert list(run_warnings(run, Cluster(name="far"), Path())) == [
        f"extra_args: the memory forecast assumes equal pipeline stages and ignores {name}"
    ]


ON_16 = {"nodes": 4, "gpus_per_node": 4, "tensor_parallel_size": 4, "pipeline_parallel_size": 8}
OF_3D = {"framework": "megatron_deepspeed_3d", **DATA}
OF_2 = {"version": "2", **DATA}


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ({**ON_16, **OF_2}, (4, 4)),
        ({**ON_16, "version": "core-0.8"}, (4, 4)),
        ({**ON_16, **OF_3D, "branch": "new"}, (4, 4)),
        ({**ON_16, **OF_3D, "branch": "new", "engine": "megatron"}, (4, 4)),
        ({**OF_2, "gpus_per_node": 2, "tensor_parallel_size": 4}, (2, 1)),
        # No more stages than GPUs / TP: nothing is lowered.
        ({**ON_16, **OF_2, "pipeline_parallel_size": 2}, (4, 2)),
        # These versions refuse such sizes.
        ({**ON_16, "version": "core-0.9"}, (4, 8)),
        ({**ON_16, "version": "core"}, (4, 8)),
        ({**ON_16, **OF_3D, "branch": "old"}, (4, 8)),
    ],
)
def test_older_versions_lower_parallel_sizes_that_are_too_large(
    run_of: RunOf, values: dict[str, Any], split: tuple[int, int]
):
    """Older versions of Megatron lower a parallel size that is too large for the number of ranks.

    The run stores both the size that the user gave and the size that Megatron uses.
    """
    run = run_of(**four_stages(32, **values))
    parallelism = run.parallelism
    assert (parallelism.tensor_parallel_size, parallelism.pipeline_parallel_size) == split
    assert parallelism.given.pipeline_parallel_size == values.get("pipeline_parallel_size", 4)
    warned = [
        line for line in FRAMEWORKS[run.framework].checks.warnings(run) if "trains with" in line
    ]
    assert bool(warned) == (parallelism != parallelism.given)


def test_a_lowered_run_is_not_the_run_with_the_lower_size(run_of: RunOf):
    """If Megatron lowers a run's pipeline size to 4, the run still differs from one with size 4.

    Both train with the same sizes, but have different identities.
    """
    asked = run_of(**four_stages(32, **{**ON_16, **OF_2}))
    lower = run_of(**four_stages(32, **{**ON_16, **OF_2, "pipeline_parallel_size": 4}))
    assert sizes(asked)["pipeline_parallel_size"] == sizes(lower)["pipeline_parallel_size"] == 4
    assert (asked.data_parallel_size, asked.num_microbatches) == (1, 8)
    assert run_id(asked) != run_id(lower)


def test_a_number_of_copies_is_compared_with_what_trains(run_of: RunOf):
    """The user's `data_parallel_size` must be the number of model copies that Megatron trains.

    E.g. Megatron lowers the pipeline size of a run on 16 ranks from 8 to 4. With tensor size 4, the
    run has one copy of the model.
    """
    for copies, contradicted in ((1, None), (2, 2)):
        run = run_of(**four_stages(32, **{**ON_16, **OF_2}, data_parallel_size=copies))
        assert run.parallelism.contradicted_data_parallel_size == contradicted


def test_the_command_line_has_the_size_that_was_given(campaign_of: Callable[[str], Campaign]):
    """The command line has the pipeline size that the user gave; Megatron itself lowers it."""
    campaign = campaign_of(f"name: lowered\ninclude: [{four_stages(32, **{**ON_16, **OF_2})}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/lowered/run")).split()
    assert ("--pipeline-model-parallel-size", "8") in pairwise(words)
