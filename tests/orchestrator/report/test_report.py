"""Report a campaign: from the logs of its runs to its table, its page and its JSON."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.common.tables import Column, as_records
from orchestrator.common.version import version
from orchestrator.frameworks.base import OwnColumns
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.report.json_report import report_json
from orchestrator.report.report import Report, make_report, report_markdown

Reported = tuple[Campaign, list[Collected], Report]

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


def log(*seconds: float, loss: str = "6.25") -> str:
    """Return the text of a log whose steps took these seconds."""
    return "".join(
        f"[teralog] iteration {number}/4 | step_seconds {time} | samples_per_second {8 / time} "
        f"| loss {loss} | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
        for number, time in enumerate(seconds, start=1)
    )


FULL = log(9.0, 1.0, 2.0, 3.0)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB. <script>|`x`\n"
COMPLETED: dict[str, Any] = {"log": FULL, "state": "COMPLETED"}


def test_a_run_has_its_numbers_in_its_row(reported: Callable[..., Reported]):
    """The row of a run has its numbers after the warm-up, and its outcome."""
    _, _, report = reported("matrix: {strategy: [zero1]}\n", COMPLETED)
    (row,) = as_records(report.table)
    assert row == {
        "strategy": "zero1",
        "offload": None,
        "precision": "fp32",
        "running_samples_per_second": 4.0,
        "samples_per_second": pytest.approx(8 / 3),
        "memory_allocated_gib": 0.25,
        "max_memory_allocated_gib": 0.5,
        "step_seconds_mean": 2.0,
        "step_seconds_median": 2.0,
        "step_seconds_spread": 1.0,
        "reports": 3,
        "tflops_per_gpu": pytest.approx(226_492_416 * 2 / 2 / 2.0 / 1e12),
        "final_loss": 6.25,
        "outcome": "completed",
    }


ENDS: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "completed": (COMPLETED, {"outcome": "completed", "reports": 3, "final_loss": 6.25}),
    "out of memory": (
        {"log": log(9.0, 1.0) + OOM, "state": "FAILED"},
        {"outcome": "OOM", "reports": 1, "step_seconds_mean": 1.0, "step_seconds_spread": None},
    ),
    "out of memory in the warm-up": (
        {"log": log(9.0) + OOM, "state": "FAILED"},
        {
            "outcome": "OOM",
            "reports": None,
            "step_seconds_mean": None,
            "tflops_per_gpu": None,
            "max_memory_allocated_gib": 0.5,
        },
    ),
    "too slow": ({"log": log(9.0, 9.0), "state": "TIMEOUT"}, {"outcome": "TIMEOUT", "reports": 1}),
    "failed at once": (
        {"log": "", "state": "FAILED"},
        {"outcome": "FAILED", "reports": None, "final_loss": None},
    ),
    "cancelled": ({"log": "", "state": "CANCELLED"}, {"outcome": "CANCELLED"}),
    "killed": ({"log": log(9.0, 1.0)}, {"outcome": "INTERRUPTED", "reports": 1}),
    "not begun": (None, {"outcome": "not started", "reports": None, "final_loss": None}),
}


@pytest.mark.parametrize(("attempt", "cells"), ENDS.values(), ids=ENDS)
def test_every_run_keeps_its_row_however_it_ended(
    reported: Callable[..., Reported], attempt: dict[str, Any] | None, cells: dict[str, Any]
):
    """Each run has a row with its outcome, and a dash for each missing number."""
    _, _, report = reported("matrix: {seed: [1, 2]}\n", COMPLETED, attempt)
    rows = as_records(report.table)
    assert [row["seed"] for row in rows] == [1, 2]
    assert cells.items() <= rows[1].items()


def test_one_line_shows_how_the_numbers_were_computed(reported: Callable[..., Reported]):
    """One line below the table describes how the numbers were computed.

    It has the FLOPs formula, the warm-up, the kind of memory, teralog's version, the date and a
    checksum of the logs.
    """
    campaign, runs, report = reported("matrix: {seed: [1, 2]}\n", COMPLETED, None)
    assert "Narayanan et al. 2021, eq. 3" in report.provenance
    assert "divided by the median step time" in report.provenance
    assert "warm-up left out: the first iteration" in report.provenance
    assert "memory: rank 0's resident set" in report.provenance
    assert f"teralog {version()}, 2026-01-02; logs sha256 " in report.provenance
    assert "\n" not in report.provenance
    runs[0].log.write_text(FULL + "one more line\n")
    assert make_report(campaign, runs, "2026-01-02").provenance != report.provenance


def test_without_logs_there_is_no_checksum(reported: Callable[..., Reported]):
    """Without logs, the line below the table has a dash in place of the logs' checksum."""
    _, _, report = reported("", None)
    assert report.provenance.endswith("logs sha256 —.")


def test_the_page_has_the_table_its_making_and_what_failed(reported: Callable[..., Reported]):
    """The markdown page has the table, the line on how its numbers were computed, and the failures.

    Special characters in texts are escaped.
    """
    failed = {"log": OOM, "state": "FAILED"}
    campaign, runs, report = reported(
        "matrix: {deepspeed: [{}, {comet: {name: '<b>|x`'}}], strategy: [zero1]}\n",
        COMPLETED,
        failed,
    )
    page = report_markdown(campaign, report, runs, ["old | run", "other"])
    title, table, provenance, heading, failures, gone = page.rstrip("\n").split("\n\n")
    assert title == "# stages"
    assert len(table.splitlines()) == 4
    assert "Narayanan" in provenance
    assert heading == "## Runs that did not complete"
    assert "OOM — torch.OutOfMemoryError: CUDA out of memory." in failures
    assert r"\<script\>\|\`x\`" in failures
    assert r"name:\_b_x" in failures
    assert gone == r"Measured runs that are no longer in the campaign file: old \| run, other."
    assert "\n\n\n" not in page


def test_a_page_of_completed_runs_does_not_mention_failures(
    reported: Callable[..., Reported],
):
    """If no run failed, the page does not mention failures, nor removed or unstarted runs."""
    campaign, runs, report = reported("matrix: {seed: [1, 2]}\n", COMPLETED, None)
    assert report_markdown(campaign, report, runs, []).count("\n\n") == 2


def test_a_very_long_line_of_a_log_is_cut(reported: Callable[..., Reported]):
    """A very long line of a log is cut; its start is enough to recognize it."""
    failed = {"log": f"RuntimeError: CUDA out of memory. {'x' * 5000}\n", "state": "FAILED"}
    campaign, runs, report = reported("", failed)
    (line,) = re.findall(r"^- .*$", report_markdown(campaign, report, runs, []), re.MULTILINE)
    assert len(line) < 250
    assert line.endswith("x…")


def test_the_json_has_every_size_and_every_number(reported: Callable[..., Reported]):
    """The JSON has all sizes of run.json and all measured numbers, also those without a column."""
    campaign, runs, report = reported(
        "matrix: {activation_checkpointing: [true, false]}\n", COMPLETED, None
    )
    record = report_json(campaign, report, runs)
    assert (record["campaign"], record["provenance"]) == ("stages", report.provenance)
    done, waiting = record["runs"]
    assert done["activation_checkpointing"] is True
    assert done["model_tflops_per_gpu"] < done["tflops_per_gpu"]
    assert {"world_size": 2, "parameters": 136_960, "state": "COMPLETED"}.items() <= done.items()
    assert (waiting["state"], waiting["outcome"]) == ("NOT_STARTED", None)
    assert set(MEASURED) <= waiting.keys()
    assert waiting["step_seconds_mean"] is None


@pytest.mark.parametrize(
    ("loss", "text_of_loss"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf")]
)
def test_a_loss_of_nan_or_infinity_is_shown_and_is_text_in_json(
    reported: Callable[..., Reported], loss: str, text_of_loss: str
):
    """A loss of nan or inf is shown; in JSON it is text, because JSON has no such number."""
    campaign, runs, report = reported("", {"log": log(1.0, 1.0, loss=loss), "state": "COMPLETED"})
    assert f" {text_of_loss} " in report_markdown(campaign, report, runs, [])
    text = json.dumps(report_json(campaign, report, runs), allow_nan=False)
    assert json.loads(text)["runs"][0]["final_loss"] == text_of_loss


START = (
    "[teralog] start | strategy ddp | world_size 2 | backend nccl | device {} | precision fp16 "
    "| parameters 136960 | torch 2.13.0\n"
)


def on_gpus(folder: Path, profile: str) -> str:
    """Write a cluster profile; return the text of a campaign that uses it, with two precisions."""
    (folder / "gpus.yaml").write_text(f"gpus_per_node: 2\n{profile}\n")
    return (
        "cluster: gpus.yaml\nmatrix: {precision: [fp16, bf16], activation_checkpointing: [true]}\n"
    )


def test_a_known_gpu_gives_an_mfu(reported: Callable[..., Reported], tmp_path: Path):
    """MFU is model FLOPs per second over the GPU's peak for the run's precision.

    If this peak is unknown, MFU is a dash, and a sentence gives the reason.
    """
    text = on_gpus(tmp_path, "gpu: V100-SXM2-32GB")
    campaign, runs, report = reported(text, COMPLETED, COMPLETED)
    names = list(report.table.names)
    assert names[-6:] == [
        "tflops_per_gpu",
        "mfu_percent",
        "hfu_percent",
        "tokens_per_second_per_gpu",
        "final_loss",
        "outcome",
    ]
    tflops = 226_492_416 * 2 / 2 / 2.0 / 1e12
    first, second = as_records(report.table)
    assert first["mfu_percent"] == pytest.approx(100 * tflops / 125)
    assert first["hfu_percent"] == pytest.approx(100 * 285_212_672 / 2.0 / 125e12)
    assert (second["mfu_percent"], second["hfu_percent"]) == (None, None)
    assert (
        "MFU: TFLOPs per GPU without recomputation, divided by 125 TFLOP/s in dense fp16, "
        "V100 SXM2: NVIDIA V100 data sheet, r5 (January 2020); MFU unknown: no bf16 peak is known "
        "for V100 SXM2"
    ) in report.provenance
    done, unknown = report_json(campaign, report, runs)["runs"]
    assert done["mfu"] == pytest.approx(tflops / 125)
    assert done["hfu"] == pytest.approx(285_212_672 / 2.0 / 125e12)
    assert (unknown["mfu"], unknown["hfu"]) == (None, None)


def test_the_gpu_is_the_one_that_the_log_names(reported: Callable[..., Reported], tmp_path: Path):
    """MFU uses the GPU's name from the log, which may be more precise than that of the profile."""
    named = {"log": START.format("Tesla V100-PCIE-32GB") + FULL, "state": "COMPLETED"}
    _, _, report = reported(on_gpus(tmp_path, "gpu: V100"), named, None)
    assert as_records(report.table)[0]["mfu_percent"] == pytest.approx(
        100 * 226_492_416 / 2.0 / 112e12
    )
    assert "112 TFLOP/s in dense fp16, V100 PCIe" in report.provenance


def test_without_a_known_mfu_the_reason_replaces_the_column(
    reported: Callable[..., Reported], tmp_path: Path
):
    """If the GPU is unknown, a sentence replaces the MFU column, and asks for the GPU's peak."""
    campaign, runs, report = reported(on_gpus(tmp_path, "gpu: Foo"), COMPLETED, COMPLETED)
    assert "mfu_percent" not in report.table.names
    assert report.provenance.count("'Foo' is not in the table of GPUs; give gpu_peak_tf") == 1
    assert {run["mfu"] for run in report_json(campaign, report, runs)["runs"]} == {None}


def test_without_tflops_nothing_is_reported_about_mfu(
    reported: Callable[..., Reported], tmp_path: Path
):
    """If no run has a step time, nothing is reported about MFU."""
    _, _, report = reported(on_gpus(tmp_path, "gpu: Foo"), None, None)
    assert "MFU" not in report.provenance
    assert "Narayanan" in report.provenance


def test_only_columns_in_the_table_are_explained(
    reported: Callable[..., Reported], monkeypatch: pytest.MonkeyPatch
):
    """The line below the table explains only the columns that the table has.

    In the test, a framework's own columns replace the common columns.
    """
    own = (
        "tflops_per_gpu",
        "running_samples_per_second",
        "memory_allocated_gib",
        "max_memory_allocated_gib",
    )
    columns = OwnColumns(
        measures=tuple(Column(name, name, lambda logged: None) for name in own),
        measured_by="by its own measure",
    )
    changed = dataclasses.replace(FRAMEWORKS["gpt"], report=columns)
    monkeypatch.setitem(FRAMEWORKS, "gpt", changed)
    _, _, report = reported("", COMPLETED)
    assert report.provenance.startswith("step times over n reports, spread = ")
    assert "warm-up left out: the first iteration; by its own measure; " in report.provenance


def test_without_a_gpu_nothing_is_reported_about_mfu(reported: Callable[..., Reported]):
    """Runs on a CPU have no MFU and no note about it."""
    on_cpu = {"log": START.format("cpu") + FULL, "state": "COMPLETED"}
    campaign, runs, report = reported("", on_cpu)
    assert "mfu_percent" not in report.table.names
    assert "MFU" not in report.provenance
    assert report_json(campaign, report, runs)["runs"][0]["mfu"] is None


def test_runs_that_found_no_gpu_are_named(reported: Callable[..., Reported], tmp_path: Path):
    """The line below the table names runs that trained on the CPU although the profile has GPUs."""
    on_cpu = {"log": START.format("cpu") + FULL, "state": "COMPLETED"}
    _, _, report = reported(on_gpus(tmp_path, "gpu: V100"), on_cpu, COMPLETED)
    sentence = (
        "memory: from the GPU allocator; trained on the CPU, though cluster gpus has GPUs: fp16; "
    )
    assert sentence in report.provenance
    _, _, report = reported(on_gpus(tmp_path, "gpu: V100"), on_cpu, on_cpu)
    assert "memory: rank 0's resident set; trained on the CPU, though" in report.provenance
