"""The campaigns of the GPT2 experiments in examples/ plan exactly the rows of the GPT2 page.

The page's numbers are in results/published/gpt2-experiments. Rows whose numbers contradict each
other are planned unchanged, as impossible runs. A row with more stages than GPUs / TP is not
contradictory, because Megatron-LM 2 lowers the number of stages.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign.campaign import PlannedRun, load_campaign
from orchestrator.run import run_columns

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "results" / "published" / "gpt2-experiments"

# The page does not contain the shapes of these sizes, so a model of similar size replaces them.
# 22B is 48 layers of 6144.
SIZES = {"50B": "52B", "78B": "81B", "24B": "25B", "22B": "18B"}
COLUMNS = {
    "world_size": lambda run: run.world_size,
    "parameters": lambda run: run.model_name,
    "tensor_parallel_size": lambda run: run.parallelism.tensor_parallel_size,
    "pipeline_parallel_size": lambda run: run.parallelism.given.pipeline_parallel_size,
    "data_parallel_size": run_columns.DATA.value,
    "num_microbatches": run_columns.MICRO_BATCHES.value,
    "micro_batch_size": lambda run: run.batch.micro_batch_size,
    "global_batch_size": lambda run: run.batch.global_batch_size,
    "scattered_embeddings": lambda run: "Y" if run.options.scattered_embeddings else "N",
}
TP_4 = {"tensor_parallel_size": "4"}
CAMPAIGNS: dict[str, list[tuple[str, dict[str, str]]]] = {
    "megatron-largest-16gb": [("megatron-largest-16gb", TP_4)],
    "megatron-largest-32gb": [("megatron-largest-32gb", TP_4)],
    "megatron-performance": [("megatron-performance", TP_4)],
    "megatron-deepspeed-3d": [
        ("megatron-deepspeed-3d-new", TP_4),
        ("megatron-deepspeed-3d-old", TP_4),
    ],
    "megatron-deepspeed-zero": [
        ("megatron-zero", TP_4),
        ("megatron-zero-tensor-parallel", {}),
        ("megatron-zero-cpu-offload", {}),
    ],
    "megatron-deepspeed-zero-embeddings": [("megatron-zero-scattered-embeddings", {})],
}


def page_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of the GPT2 page that a campaign should plan, each with its values by column.

    A value that the page gives only in a note on a whole table is added to every row of the table.
    """
    rows = []
    for table, notes in CAMPAIGNS[name]:
        with (PAGE / f"{table}.csv").open() as file:
            rows += [notes | row for row in csv.DictReader(file)]
    return rows


def shown(planned: PlannedRun, columns: list[str]) -> tuple[str, ...]:
    """Return the values of a planned run for these columns of the page, as text."""
    return tuple(str(COLUMNS[column](planned.run)) for column in columns)


def wanted(row: dict[str, str], columns: list[str]) -> tuple[str, ...]:
    """Return the values of a row of the page for these columns, as text."""
    return tuple(SIZES.get(row[column], row[column]) for column in columns)


def contradictory(row: dict[str, str]) -> bool:
    """Return whether a row's numbers contradict each other.

    The number of GPUs must be the product of TP, stages and data-parallel size. The global batch
    size must be the product of micro-batch size, micro-batches and data-parallel size.
    """
    numbers: dict[str, int] = {key: int(text) for key, text in row.items() if text.isdecimal()}
    tensor, world_size = numbers["tensor_parallel_size"], numbers["world_size"]
    split = tensor * min(numbers.get("pipeline_parallel_size", 1), world_size // tensor)
    copies = numbers["data_parallel_size"]
    batch = numbers["micro_batch_size"] * numbers.get("num_microbatches", 1) * copies
    return world_size != split * copies or numbers["global_batch_size"] != batch


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_plans_the_rows_of_the_page(name: str):
    """The possible runs of a campaign have the numbers of the page's rows without contradictions.

    Rows that the page repeats are one run.
    """
    rows = [row for row in page_rows(name) if not contradictory(row)]
    columns = [column for column in COLUMNS if all(column in row for row in rows)]
    runs = [
        run for run in load_campaign(ROOT / "examples" / f"{name}.yaml").runs if not run.problems
    ]
    assert {shown(run, columns) for run in runs} == {wanted(row, columns) for row in rows}
    assert not any(run.memory_problem for run in runs)


CONTRADICTIONS = {"megatron-largest-16gb": 1}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_rows_that_contradict_themselves_are_planned_as_contradictions(name: str):
    """A row whose numbers contradict each other is planned unchanged, as an impossible run."""
    rows = [row for row in page_rows(name) if contradictory(row)]
    runs = [run for run in load_campaign(ROOT / "examples" / f"{name}.yaml").runs if run.problems]
    given = [column for column in COLUMNS if all(column in row for row in rows)]
    assert len(runs) == len(rows) == CONTRADICTIONS.get(name, 0)
    assert {shown(run, given) for run in runs} == {wanted(row, given) for row in rows}
    problems: list[Any] = [problem for run in runs for problem in run.problems]
    assert all("contradicts" in problem or "not divisible" in problem for problem in problems)


def test_rows_with_more_stages_than_ranks_are_planned_as_the_program_ran_them():
    """A run with more pipeline stages than GPUs / TP is planned with fewer, as Megatron trained it.

    With TP 4, a run on 16 GPUs has 4 stages, and a run on 64 GPUs has 16. The page gives 8 and 32.
    """
    runs = [
        planned.run
        for planned in load_campaign(ROOT / "examples" / "megatron-performance.yaml").runs
    ]
    lowered = [
        (run.world_size, run.parallelism.given.pipeline_parallel_size, split.pipeline_parallel_size)
        for run in runs
        if (split := run.parallelism) != run.parallelism.given
    ]
    assert lowered == [(16, 8, 4)] * 5 + [(64, 32, 16)]
