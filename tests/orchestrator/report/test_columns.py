"""Choose the columns of a report: those that distinguish its runs."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.common.tables import as_records
from orchestrator.report.report import Report

Reported = tuple[Any, Any, Report]

MEASURED = [
    "running_samples_per_second",
    "samples_per_second",
    "memory_allocated_gib",
    "max_memory_allocated_gib",
    "step_seconds_mean",
    "step_seconds_median",
    "step_seconds_spread",
    "reports",
    "tflops_per_gpu",
    "final_loss",
    "outcome",
]

COLUMNS: dict[str, tuple[str, int, list[str]]] = {
    "one run": ("", 1, []),
    "what is always there": ("matrix: {strategy: [ddp, zero3]}\n", 2, []),
    "what varies": ("matrix: {seed: [1, 2], train_iters: [4, 5]}\n", 4, ["train_iters", "seed"]),
    "what follows from it": (
        "matrix: {gpus_per_node: [1, 2]}\n",
        2,
        ["world_size", "global_batch_size"],
    ),
    "models": (
        "matrix: {model: [s, {preset: s, seq_length: 64}]}\n",
        2,
        ["parameters_billions", "seq_length"],
    ),
    "recomputation": (
        "matrix: {activation_checkpointing: [true, false]}\n",
        2,
        ["activation_checkpointing"],
    ),
    "repeats": ("repeats: 2\n", 2, ["repeat"]),
    "what no column tells": ("matrix: {learning_rate: [0.1, 0.2]}\n", 2, ["label"]),
}


@pytest.mark.parametrize(("text", "runs", "columns"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_appears_if_it_distinguishes_runs(
    reported: Callable[..., Reported], text: str, runs: int, columns: list[str]
):
    """A column of parameters appears in the report if its values differ between runs.

    The framework's own columns and the measured columns always appear. The column of labels appears
    if the runs differ only in parameters that have no column.
    """
    _, _, report = reported(text, *[None] * runs)
    assert list(report.table.names) == [
        *columns,
        "strategy",
        "offload",
        "precision",
        *MEASURED,
    ]


def test_runs_of_two_frameworks_share_a_table(reported: Callable[..., Reported]):
    """The runs of two frameworks share one table, which has the columns of both.

    If a framework lacks the value of a column, the cell is a dash.
    """
    text = "include: [{strategy: zero3}, {framework: deepspeed, script: a/train.py}]\n"
    _, _, report = reported(text, None, None)
    rows = as_records(report.table)
    assert [row["framework"] for row in rows] == ["gpt", "deepspeed"]
    assert [row["strategy"] for row in rows] == ["zero3", None]
    assert [row["script"] for row in rows] == [None, "train.py"]
    assert [row["precision"] for row in rows] == ["fp32", "fp32"]
