"""How Megatron deals layers and micro-batches out to pipeline stages, and what it refuses."""

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
    """Return parameters of such a run in two chunks a stage."""
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
def test_stages_need_not_be_alike_in_megatron_core(run_of: RunOf, values: dict[str, Any]):
    """And the forecast can be made, too."""
    run = run_of(**values)
    assert list(MEGATRON.checks.problems(run)) == []
    placement = MEGATRON.model.placement(run)
    assert placement is not None
    assert forecast(run, placement) is not None


def test_megatron_2_has_even_stages_alone(run_of: RunOf):
    problems = list(
        MEGATRON.checks.problems(run_of(**four_stages(30, LAST, 6, version="2", **DATA)))
    )
    assert problems == [
        "num_layers=30 is not divisible by pipeline_parallel_size=4",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (in_chunks(32), ("--num-layers-per-virtual-pipeline-stage", "4")),
        (in_chunks(30, EMBEDDING, LOSS), ("--num-virtual-stages-per-pipeline-rank", "2")),
        (in_chunks(30, LAST, 6), ("--num-virtual-stages-per-pipeline-rank", "2")),
    ],
    ids=["even", "counted", "ends"],
)
def test_chunks_of_uneven_stages_are_told_by_their_number(
    campaign_of: Callable[[str], Campaign], values: dict[str, Any], said: tuple[str, str]
):
    """How many layers each has differs."""
    campaign = campaign_of(f"name: chunks\ninclude: [{values}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/chunks/run")).split()
    assert [pair for pair in pairwise(words) if "-virtual-" in pair[0]] == [said]


@pytest.mark.parametrize("option", [f"{FIRST}=7", f"{LAYOUT}=Et*7|t*9|t*8|t*8L"])
def test_the_forecast_takes_stages_as_alike(run_of: RunOf, option: str):
    """Which the user is told."""
    run = run_of(**four_stages(31 if FIRST in option else 32, option))
    name = option.partition("=")[0]
    assert list(run_warnings(run, Cluster(name="far"), Path())) == [
        f"extra_args: the forecast takes stages as alike, and knows nothing of {name}"
    ]
