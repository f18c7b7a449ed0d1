"""Further arguments that Megatron would refuse, each told in a sentence before the run."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign import Campaign
from orchestrator.frameworks import FRAMEWORKS
from orchestrator.model import Run
from orchestrator.scripts import job_script

RunOf = Callable[..., Run]

DATA = {"data_path": "tokens", "vocab_file": "vocab.json", "merge_file": "merges.txt"}
CORE = {"framework": "megatron", "source": "megatron", "model": "18B", "precision": "bf16"}
OF_2021 = {**CORE, **DATA, "version": "2"}
PROGRAMS = {
    "core": CORE,
    "2": OF_2021,
    "3d": {**CORE, **DATA, "framework": "megatron_deepspeed_3d", "precision": "fp16"},
}


def problems_of(run: Run) -> list[str]:
    """Return what makes a run impossible."""
    return list(FRAMEWORKS[run.framework].problems(run))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--lr-decay-samples", "1000"],
        ["--lr-warmup-samples=5"],
        ["--rampup-batch-size", "4", "4", "100"],
    ],
    ids=" ".join,
)
def test_a_schedule_by_samples_is_not_for_a_training_by_iterations(
    run_of: RunOf, program: dict[str, Any], arguments: list[str]
):
    """All runs train by iterations."""
    option = arguments[0].partition("=")[0]
    assert problems_of(run_of(**program, extra_args=arguments)) == [
        (
            f"extra_args: {option} is for a training by samples, and this one is by iterations, "
            "as train_iters says; take it out"
        )
    ]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--lr-warmup-iters", "5"],
        ["--lr-warmup-fraction", "0.1"],
        ["--lr-warmup-samples", "0", "--lr-decay-iters", "50"],
    ],
    ids=" ".join,
)
def test_a_schedule_by_iterations_is_the_user_s_to_choose(
    run_of: RunOf, program: dict[str, Any], arguments: list[str]
):
    assert problems_of(run_of(**program, extra_args=arguments)) == []


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_warm_up_said_twice_is_a_contradiction(run_of: RunOf, program: dict[str, Any]):
    arguments = ["--lr-warmup-fraction", "0.1", "--lr-warmup-iters", "5"]
    assert problems_of(run_of(**program, extra_args=arguments)) == [
        "extra_args: --lr-warmup-fraction and --lr-warmup-iters say the same; take one out"
    ]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    ("arguments", "fractions"),
    [
        ([], ["0.01"]),
        (["--lr-warmup-iters", "5"], []),
        (["--lr-warmup-iters=5"], []),
        (["--lr-warmup-fraction", "0.1"], ["0.1"]),
    ],
    ids=str,
)
def test_the_user_s_warm_up_takes_the_place_of_the_script_s(
    campaign_of: Callable[[str], Campaign],
    program: dict[str, Any],
    arguments: list[str],
    fractions: list[str],
):
    """Megatron takes a fraction or iterations, and not both."""
    run = {**program, "gpus_per_node": 1, "extra_args": arguments}
    campaign = campaign_of(f"name: warm-up\ninclude: [{run}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/warm-up/run")).split()
    given = [value for word, value in pairwise(words) if word == "--lr-warmup-fraction"]
    assert given == fractions
