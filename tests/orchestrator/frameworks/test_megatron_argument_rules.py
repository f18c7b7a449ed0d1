"""Arguments in `extra_args` that Megatron would refuse are reported before the run starts."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run
from orchestrator.submit.scripts import job_script

DATA = {"data_path": "tokens", "vocab_file": "vocab.json", "merge_file": "merges.txt"}
CORE = {"framework": "megatron", "source": "megatron", "model": "18B", "precision": "bf16"}
OF_2021 = {**CORE, **DATA, "version": "2"}
PROGRAMS = {
    "core": CORE,
    "2": OF_2021,
    "3d": {**CORE, **DATA, "framework": "megatron_deepspeed_3d", "precision": "fp16"},
}


def problems_of(run: Run) -> list[str]:
    """Return the reasons why a run is impossible."""
    return list(FRAMEWORKS[run.framework].checks.problems(run))


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
    """An option that counts samples, e.g. --lr-decay-samples, is refused.

    The reason is that every run of teralog counts iterations.
    """
    option = arguments[0].partition("=")[0]
    assert problems_of(run_of(**program, extra_args=arguments)) == [
        (f"extra_args: {option} counts samples, but train_iters counts iterations; remove {option}")
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
    """If the user gives a learning-rate warm-up, the script leaves out its default warm-up."""
    run = {**program, "gpus_per_node": 1, "extra_args": arguments}
    campaign = campaign_of(f"name: warm-up\ninclude: [{run}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/warm-up/run")).split()
    given = [value for word, value in pairwise(words) if word == "--lr-warmup-fraction"]
    assert given == fractions


def experts(*arguments: Any, **values: Any) -> dict[str, Any]:
    """Return parameters of a run of Megatron core with a mixture of eight experts."""
    extra = ["--num-experts", "8", *map(str, arguments)]
    return {**CORE, "gpus_per_node": 8, "extra_args": extra, **values}


EXPERT_PARALLEL, EXPERT_TENSOR = "--expert-model-parallel-size", "--expert-tensor-parallel-size"
SPLIT = {"tensor_parallel_size": 2, "sequence_parallel": True}

ACCEPTED: dict[str, dict[str, Any]] = {
    "parameters gathered from a distributed optimizer": {
        **CORE,
        "use_distributed_optimizer": True,
        "extra_args": ["--overlap-grad-reduce", "--overlap-param-gather"],
    },
    "parameters gathered by FSDP": {
        **CORE,
        "extra_args": [
            *("--overlap-grad-reduce", "--overlap-param-gather"),
            *("--use-megatron-fsdp", "--ckpt-format", "fsdp_dtensor"),
        ],
    },
    "communication overlapped with sequences split": {
        **CORE,
        **SPLIT,
        "gpus_per_node": 2,
        "extra_args": ["--tp-comm-overlap"],
    },
    "experts on all ranks": experts(),
    "experts over all ranks": experts(EXPERT_PARALLEL, 8),
    "experts split by tensors, without biases": experts(
        EXPERT_PARALLEL, 4, "--disable-bias-linear", **SPLIT
    ),
    "whole experts and a split attention": experts(EXPERT_PARALLEL, 8, EXPERT_TENSOR, 1, **SPLIT),
    "no experts, written as an option": {**CORE, "extra_args": ["--num-experts", "0"]},
    "query groups that ranks divide": {
        **CORE,
        "gpus_per_node": 2,
        "tensor_parallel_size": 2,
        "extra_args": ["--group-query-attention", "--num-query-groups", "2"],
    },
    "query groups that are not asked for": {
        **CORE,
        "gpus_per_node": 2,
        "tensor_parallel_size": 2,
        "extra_args": ["--num-query-groups", "1"],
    },
    "warm-up that ends before the training": {
        **CORE,
        "train_iters": 20,
        "extra_args": ["--lr-warmup-iters", "19"],
    },
    "warm-up that ends before the decay": {
        **CORE,
        "train_iters": 20,
        "extra_args": ["--lr-warmup-iters", "20", "--lr-decay-iters", "100"],
    },
    "checkpoints saved": {**CORE, "extra_args": ["--save", "/x", "--save-interval", "5"]},
    "positions to spare": {**CORE, "extra_args": ["--max-position-embeddings", "2048"]},
    "a learning rate that never decays": {
        **CORE,
        "learning_rate": 1e-3,
        "extra_args": ["--min-lr", "1e-3"],
    },
    "data for each split": {
        **CORE,
        "extra_args": ["--train-data-path", "a", "b", "--valid-data-path", "c"],
    },
    "a blend of data sets": {
        **CORE,
        "extra_args": ["--data-path", "0.3", "a", "0.7", "b"],
    },
    "data sets that are as large as they are": {
        **CORE,
        "extra_args": ["--data-path", "a", "b", "c"],
    },
    "dummy data, written as an option": {**CORE, "extra_args": ["--mock-data"]},
    "a file of paths for each split, which data_path goes before": {
        **CORE,
        "data_path": "tokens",
        "extra_args": ["--per-split-data-args-path", "paths.json"],
    },
    "experts in one product": experts("--moe-grouped-gemm"),
    "a weight decay that grows": {
        **CORE,
        "extra_args": [
            *("--weight-decay-incr-style", "linear"),
            *("--start-weight-decay", "0", "--end-weight-decay", "0.1"),
        ],
    },
    "two stages of chunks": {
        **CORE,
        "gpus_per_node": 2,
        "pipeline_parallel_size": 2,
        "virtual_pipeline_parallel_size": 2,
        "num_microbatches": 2,
    },
    "three stages of chunks that wait for each other": {
        **CORE,
        "num_layers": 12,
        "gpus_per_node": 3,
        "pipeline_parallel_size": 3,
        "virtual_pipeline_parallel_size": 2,
        "num_microbatches": 3,
        "extra_args": ["--no-overlap-p2p-communication"],
    },
}


@pytest.mark.parametrize("values", ACCEPTED.values(), ids=ACCEPTED)
def test_values_that_megatron_core_accepts_are_not_reported(run_of: RunOf, values: dict[str, Any]):
    assert problems_of(run_of(**values)) == []


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "data of two kinds": (
        {**CORE, "extra_args": ["--mock-data", "--train-data-path", "a"]},
        ["--mock-data and --train-data-path are several sources of data; keep one of them"],
    ),
    "data for each split and data for all": (
        {**CORE, "data_path": "t", "extra_args": ["--valid-data-path", "a"]},
        ["data_path and --valid-data-path are several sources of data; keep one of them"],
    ),
    "dummy data and a blend": (
        {**CORE, "extra_args": ["--mock-data", "--data-path", "0.3", "a", "0.7", "b"]},
        ["--data-path and --mock-data are several sources of data; keep one of them"],
    ),
    "a blend and data": (
        {**CORE, "data_path": "t", "extra_args": ["--data-path", "0.3", "a", "0.7", "b"]},
        ["--data-path is set by data_path; remove it"],
    ),
    "dummy data and data": (
        {**CORE, "data_path": "t", "extra_args": ["--mock-data"]},
        ["data_path and --mock-data are several sources of data; keep one of them"],
    ),
    "a file of paths and a path": (
        {**CORE, "data_path": "t", "extra_args": ["--data-args-path", "paths"]},
        ["data_path and --data-args-path are several sources of data; keep one of them"],
    ),
    "a file in place of arguments": (
        {**CORE, "extra_args": ["--yaml-cfg", "all.yaml"]},
        ["--yaml-cfg replaces all arguments with those of a file; write the arguments one by one"],
    ),
    "no training": (
        {**CORE, "extra_args": ["--skip-train"]},
        ["--skip-train leaves out the training, so there are no steps to measure; remove it"],
    ),
    "layers said by an older name": (
        {**CORE, "extra_args": ["--encoder-num-layers", "40"]},
        ["--encoder-num-layers is set by num_layers; remove it"],
    ),
}


@pytest.mark.parametrize(("values", "problems"), REFUSED.values(), ids=REFUSED)
def test_contradictions_with_parameters_are_reported_before_the_run(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    assert problems_of(run_of(**values)) == [f"extra_args: {problem}" for problem in problems]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_warm_up_ends_before_the_training(run_of: RunOf, program: dict[str, Any]):
    arguments = ["--lr-warmup-iters", "20"]
    assert problems_of(run_of(**program, train_iters=20, extra_args=arguments)) == [
        (
            "extra_args: --lr-warmup-iters=20 must be less than 20, the number of "
            "iterations in which the learning rate decays; lower it, or set --lr-decay-iters"
        )
    ]


def test_a_value_that_is_not_a_number_breaks_no_rule(run_of: RunOf):
    """If an option has a text instead of a number, Megatron's argument rules ignore its value.

    Another check, against the program's options, reports such a value.
    """
    run = run_of(**{**CORE, "extra_args": [EXPERT_PARALLEL, "many"]})
    assert problems_of(run) == []


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--max-position-embeddings", "1000"],
            "--max-position-embeddings=1000 is less than seq_length=1024; raise it",
        ),
        (["--min-lr", "0.1"], "--min-lr=0.1 is above learning_rate=0.001; lower it"),
        (["--lr-decay-iters", "0"], "--lr-decay-iters=0 must be 1 or more"),
        (["--warmup", "1"], "--warmup is no longer valid; use --lr-warmup-fraction"),
        (
            ["--encoder-seq-length", "1024"],
            "--encoder-seq-length is set by seq_length; remove it",
        ),
    ],
)
def test_settings_that_every_megatron_since_2_refuses_are_reported(
    run_of: RunOf, program: dict[str, Any], arguments: list[str], problem: str
):
    run = run_of(**program, learning_rate=1e-3, extra_args=arguments)
    assert problems_of(run) == [f"extra_args: {problem}"]


@pytest.mark.parametrize(
    ("arguments", "mocked"),
    [
        ([], True),
        (["--train-data-path", "a"], False),
        (["--data-args-path", "paths"], False),
        (["--data-path", "0.3", "a", "0.7", "b"], False),
    ],
    ids=str,
)
def test_data_of_the_user_s_own_takes_the_place_of_dummy_data(
    campaign_of: Callable[[str], Campaign], arguments: list[str], *, mocked: bool
):
    run = {**CORE, "gpus_per_node": 1, "extra_args": arguments}
    campaign = campaign_of(f"name: data\ninclude: [{run}]\n")
    script = job_script(campaign.runs[0], campaign, Path("/results/data/run"))
    assert ("--mock-data" in script) == mocked


def test_chunks_of_two_stages_need_communication_that_overlaps(run_of: RunOf):
    run = run_of(
        **CORE,
        gpus_per_node=2,
        pipeline_parallel_size=2,
        virtual_pipeline_parallel_size=2,
        num_microbatches=2,
        extra_args=["--no-overlap-p2p-communication"],
    )
    assert problems_of(run) == [
        (
            "virtual_pipeline_parallel_size=2 with --no-overlap-p2p-communication needs "
            "pipeline_parallel_size=3 or more (got 2)"
        )
    ]


BLEND = "needs a weight before each path, e.g. [--data-path, 0.3, /data/a, 0.7, /data/b]"


@pytest.mark.parametrize(
    ("program", "words", "refused"),
    [
        (program, words, refused)
        for program in (
            {"framework": "megatron", "version": "2"},
            {"framework": "megatron_deepspeed_3d", "branch": "new"},
        )
        for words, refused in (
            (["0.3", "a", "0.7", "b"], False),
            ([3, "a", 7, "b"], False),
            (["a"], False),
            (["a", "b"], True),
            (["0.3", "a", "b"], True),
            (["0.3", "a", "0", "b"], False),
            (["0", "a", "0", "b"], True),
            (["2", "a", "-1", "b"], True),
            ([], True),
            (["nan", "a", "1", "b"], True),
        )
    ],
    ids=str,
)
def test_megatron_2_takes_weights_and_prefixes_in_turn(
    run_of: RunOf, program: dict[str, Any], words: list[Any], *, refused: bool
):
    """In Megatron 2, --data-path takes one prefix of data files, or weights and prefixes in turn.

    E.g. `0.3 a 0.7 b`. The option is in `extra_args`, and the run has no parameter `data_path`.
    """
    files = {name: value for name, value in DATA.items() if name != "data_path"}
    arguments = ["--data-path", *map(str, words)]
    run = run_of(**program, **files, source="m", model="s", precision="fp16", extra_args=arguments)
    assert problems_of(run) == ([f"extra_args: --data-path {BLEND}"] if refused else [])


def test_a_blend_is_the_only_data_of_a_script_of_2021(campaign_of: Callable[[str], Campaign]):
    run = {"framework": "megatron", "version": "2", **DATA, "source": "m", "model": "s"}
    del run["data_path"]
    run["extra_args"] = ["--data-path", "0.3", "a", "0.7", "b"]
    campaign = campaign_of(f"name: data\ninclude: [{run}]\n")
    words = job_script(campaign.runs[0], campaign, Path("/results/data/run")).split()
    assert words.count("--data-path") == 1
