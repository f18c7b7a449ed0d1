"""The plan of a campaign: a table of the runs, messages about problems, and a line of totals."""

import json

import pytest
from fixture_types import CampaignOf

from orchestrator.campaign.plan import (
    plan_records,
    plan_table,
    plan_totals,
    problem_lines,
    warning_lines,
)
from orchestrator.common.tables import as_records

MODEL = "{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}"
MIXED = f"""\
name: mixed
defaults:
  {{framework: gpt, model: {MODEL}, gpus_per_node: 4, micro_batch_size: 2, time_limit: 30}}
matrix: {{strategy: [ddp, zero3], global_batch_size: [16, 12]}}
exclude: [{{strategy: ddp, global_batch_size: 12}}]
"""


def test_a_plan_shows_each_run_with_its_sizes(campaign_of: CampaignOf):
    """A plan shows the ranks, batch sizes, parameters and memory of every run, even if impossible.

    The number of micro-batches is absent if the global batch cannot be divided into micro-batches.
    """
    rows = as_records(plan_table(campaign_of(MIXED), {}))
    assert [row.pop("run_id") for row in rows] == [p.run_id for p in campaign_of(MIXED).runs]
    sizes = {
        "nodes": 1,
        "world_size": 4,
        "data_parallel_size": 4,
        "micro_batch_size": 2,
        "parameters_billions": 0.00013696,
        "gpu_hours": 2.0,
        "fits": "yes",
    }
    for row in rows:
        low, high = map(float, row.pop("memory_gib").split("-"))
        assert 0.3 < low < high < 1
    possible = {"num_microbatches": 2, "global_batch_size": 16, "problems": None}
    impossible = {"num_microbatches": None, "global_batch_size": 12, "problems": 1}
    assert rows == [
        {"label": "ddp gb16", **sizes, **possible},
        {"label": "zero3 gb16", **sizes, **possible},
        {"label": "zero3 gb12", **sizes, **impossible},
    ]


def test_a_plan_shows_how_runs_are_split_if_one_is_split(campaign_of: CampaignOf):
    """A plan has a column for a parallel size only if this size exceeds 1 in a run.

    Parallel sizes are e.g. pipeline-parallel and tensor-parallel.
    """
    split = (
        "name: split\ndefaults: {framework: deepspeed, script: a.py, gpus_per_node: 4}\n"
        "matrix: {pipeline_parallel_size: [1, 2]}\n"
    )
    rows = as_records(plan_table(campaign_of(split), {}))
    assert [row["pipeline_parallel_size"] for row in rows] == [1, 2]
    assert all("tensor_parallel_size" not in row for row in rows)


def test_a_warning_is_reported_once_and_forbids_nothing(campaign_of: CampaignOf):
    """A warning appears once and names its runs; these runs can still be submitted."""
    campaign = campaign_of(
        "name: across\ndefaults: {framework: deepspeed, script: /dev/null, nodes: 2}\n"
        "matrix: {tensor_parallel_size: [1, 2], seed: [1, 2]}\n"
    )
    assert warning_lines(campaign) == [
        (
            "tensor_parallel_size=2 does not divide gpus_per_node=1: each layer is divided "
            "over several nodes and waits for the network (tp2 seed=1, tp2 seed=2)"
        )
    ]
    assert [len(record["warnings"]) for record in plan_records(campaign, {})] == [0, 0, 1, 1]


def test_a_plan_for_programs_has_every_size_and_the_problems(campaign_of: CampaignOf):
    """The JSON of a plan has the sizes and the problems of each run.

    The sizes have the names of the campaign file's parameters, or names such as `gpu_hours`.
    """
    records = plan_records(campaign_of(MIXED), {})
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    last = records[-1]
    chosen = {"framework": "gpt", "strategy": "zero3", "precision": "fp32", "num_layers": 2}
    derived = {"zero_stage": 3, "parameters": 136_960, "ffn_hidden_size": 256, "gpu_hours": 2.0}
    assert {**chosen, **derived}.items() <= last.items()
    assert last["problems"] == [
        "global_batch_size=12 is not divisible by micro_batch_size*data_parallel_size=8"
    ]
    assert [record["problems"] for record in records[:-1]] == [[], []]


TOTALS = {
    "as many as there are": (
        MIXED.replace(", 12]", "]"),
        "2 runs on local: 2 to start; 4 GPU-hours",
    ),
    "the impossible ask for nothing": (
        MIXED,
        (
            "3 runs on local: 2 to start, 1 impossible; 4 GPU-hours requested at most; "
            "1 run excluded by 'strategy: ddp, global_batch_size: 12'"
        ),
    ),
    "one run": (
        MIXED.replace("zero3, ", "").replace("ddp, zero3", "ddp"),
        "1 run on local: 1 to start;",
    ),
    "many hours are whole ones": (
        MIXED.replace("time_limit: 30", "time_limit: 4000-0").replace("16, 12", "16"),
        "2 runs on local: 2 to start; 768,000 GPU-hours requested at most",
    ),
}


@pytest.mark.parametrize(("text", "line"), TOTALS.values(), ids=TOTALS)
def test_the_totals_are_one_line(campaign_of: CampaignOf, text: str, line: str):
    """The line of totals counts the runs, the excluded runs, and the GPU-hours of possible runs."""
    assert plan_totals(campaign_of(text)).startswith(line)


def test_the_totals_count_what_is_done(campaign_of: CampaignOf):
    """The line of totals counts completed runs, and GPU-hours only of runs that will start.

    The plan's table and JSON show the state of each run, e.g. "completed" or "to start".
    """
    campaign = campaign_of(MIXED)
    first, *_ = campaign.runs
    states = {first.run_id: "completed"}
    line = "3 runs on local: 1 completed, 1 to start, 1 impossible; 2 GPU-hours requested at most;"
    assert plan_totals(campaign, states).startswith(line)
    cells = [row[2] for row in plan_table(campaign, {}, states).rows]
    assert cells == ["completed", "to start", "impossible"]
    assert [record["state"] for record in plan_records(campaign, {}, states)] == cells
    assert "state" not in plan_table(campaign, {}).names
    done = {planned.run_id: "completed" for planned in campaign.runs}
    assert plan_totals(campaign, done).startswith("3 runs on local: 3 completed; 1 run excluded")


def test_each_problem_is_reported_once_with_the_runs_that_have_it(campaign_of: CampaignOf):
    """A message names three runs that have the problem, and the number of further such runs."""
    campaign = campaign_of(
        f"name: a\ndefaults: {{framework: gpt, model: {MODEL}, train_iters: 5}}\n"
        "matrix: {num_attention_heads: [7, 4], seed: [1, 2, 3, 4, 5]}\n"
        "include: [{precision: fp16, num_attention_heads: 7}]\n"
    )
    seven = [f"num_attention_heads=7 seed={seed}" for seed in (1, 2, 3)]
    assert problem_lines(campaign) == [
        (
            "hidden_size=64 is not divisible by num_attention_heads=7 "
            f"({', '.join(seven)} and 3 more runs)"
        ),
        (
            "precision=fp16 needs a GPU, and cluster local has none; try bf16 or fp32 "
            "(num_attention_heads=7 seed=1234 fp16)"
        ),
    ]


@pytest.mark.parametrize(
    ("seeds", "named"),
    [
        ([1], "seed=1"),
        ([1, 2, 3], "seed=1, seed=2, seed=3"),
        ([1, 2, 3, 4], "seed=1, seed=2, seed=3 and 1 more run"),
        ([1, 2, 3, 4, 5], "seed=1, seed=2, seed=3 and 2 more runs"),
    ],
)
def test_up_to_three_runs_are_named(campaign_of: CampaignOf, seeds: list[int], named: str):
    """A message names up to three runs, and counts the rest."""
    included = [{"seed": 9, "num_attention_heads": 12}, *({"seed": seed} for seed in seeds)]
    campaign = campaign_of(
        "name: a\ndefaults: {framework: gpt, model: s, num_attention_heads: 7, seed: 9}\n"
        f"include: {included}\n"
    )
    (line,) = problem_lines(campaign)
    assert line == f"hidden_size=768 is not divisible by num_attention_heads=7 ({named})"


def test_a_plan_without_problems_does_not_mention_problems(campaign_of: CampaignOf):
    """A plan without problems has no line about problems."""
    assert problem_lines(campaign_of("name: a\ndefaults: {framework: gpt, model: s}\n")) == []
