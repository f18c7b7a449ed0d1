"""A report of a campaign in examples/ has the layout of the published table that it repeats.

The published tables are in results/published. A report has the columns of such a table in the same
order, and further columns between and after them. Its rows are in the campaign's order, and no row
is left out.
"""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import load_campaign
from orchestrator.collect.collected import collect_campaign
from orchestrator.common.tables import as_records
from orchestrator.report.report import Report, make_report, report_markdown
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "results" / "published"

# Names in the report of columns that have another name on the page.
NAMES = {
    "parameters": "parameters_billions",
    "step_seconds": "step_seconds_mean",
    "optimizer_placement": "test_desc",
    # Nodes, GPUs per node and micro-batch, e.g. 1n_8g_dp_4bs.
    "micro_batch_size, with nodes": "arrangement",
    "memory_mb": "gpu_memory_mib",
    "utilization_percent": "gpu_utilization_percent",
    "samples_per_second": "running_samples_per_second",
    "mean_samples_per_second": "running_samples_per_second",
    "last_samples_per_second": "samples_per_second",
    "memory_allocated_gb": "memory_allocated_gib",
    "max_memory_allocated_gb": "max_memory_allocated_gib",
}
# The date of a row; and values that the page has in words, or that have no log.
NO_COLUMN = {"date", "test", "memory_gb", "memory_nvidia_smi_mb"}
CAMPAIGNS: dict[str, list[str]] = {
    "megatron-largest-16gb": ["gpt2-experiments/megatron-largest-16gb"],
    "megatron-largest-32gb": ["gpt2-experiments/megatron-largest-32gb"],
    "megatron-performance": ["gpt2-experiments/megatron-performance"],
    "megatron-deepspeed-3d": [
        "gpt2-experiments/megatron-deepspeed-3d-new",
        "gpt2-experiments/megatron-deepspeed-3d-old",
    ],
    "megatron-deepspeed-zero": [
        "gpt2-experiments/megatron-zero",
        "gpt2-experiments/megatron-zero-tensor-parallel",
        "gpt2-experiments/megatron-zero-cpu-offload",
    ],
    "megatron-deepspeed-zero-embeddings": ["gpt2-experiments/megatron-zero-scattered-embeddings"],
    "hf-zero-performance": ["gpt2-experiments/hf-zero"],
    "hf-zero3-largest": ["gpt2-experiments/hf-zero3-offload-largest"],
    "oneflow-optimizer-placement": ["oneflow-megatron-lm/8-gpus"],
    "deepspeed-stages": ["deepspeed-cifar/zero-stages"],
}


def page_columns(table: str) -> list[str]:
    """Return the names of the report columns that correspond to a published table's columns.

    They are in the table's order. A column that reports do not have, e.g. the date, is left out.
    """
    with (PAGES / f"{table}.csv").open() as file:
        header = next(csv.reader(file))
    names = [name for name in header if name not in NO_COLUMN]
    if "nodes" in names:
        names = [
            "micro_batch_size, with nodes" if name == "micro_batch_size" else name
            for name in names
            if name not in {"nodes", "gpus_per_node"}
        ]
    if "memory_nvidia_smi_mb" in header:
        # A report has a column of utilization only if it was sampled.
        names.remove("utilization_percent")
    return [NAMES.get(name, name) for name in names]


def unmeasured(name: str, folder: Path) -> Report:
    """Return the report of a campaign in examples/, before any of its runs has started.

    name: the name of the campaign file without `.yaml`. folder: an empty folder for results.
    """
    campaign = load_campaign(ROOT / "examples" / f"{name}.yaml")
    return make_report(campaign, collect_campaign(campaign, CampaignStore(folder)), "2026-01-02")


@pytest.mark.parametrize(
    ("name", "table"), [(name, table) for name, tables in CAMPAIGNS.items() for table in tables]
)
def test_the_columns_of_the_page_come_in_its_order(name: str, table: str, tmp_path: Path) -> None:
    """A report has the columns of the published table, in the same order.

    The report may have further columns between them.
    """
    names = unmeasured(name, tmp_path).table.names
    wanted = page_columns(table)
    assert [column for column in names if column in wanted] == wanted


# The rows before which the reports have a blank one. The page's separators are by hand: it parts
# models and GPUs too, and the run that failed.
BREAKS: dict[str, set[int]] = {
    "megatron-largest-16gb": {4},
    "megatron-largest-32gb": set(),
    "megatron-performance": {7, 11},
    "megatron-deepspeed-3d": {2},
    "megatron-deepspeed-zero-embeddings": set(),
    "hf-zero-performance": {6},
    "hf-zero3-largest": set(),
    "oneflow-optimizer-placement": {4, 6},
    "deepspeed-stages": {1, 3, 4},
}


@pytest.mark.parametrize("name", BREAKS)
def test_groups_are_set_apart_where_the_page_s_are(name: str, tmp_path: Path) -> None:
    """A report separates groups of rows by a blank row where the published page does."""
    assert unmeasured(name, tmp_path).table.breaks == BREAKS[name]


def test_a_run_out_of_memory_keeps_its_row(
    attempt_in: Callable[..., Attempt], tmp_path: Path
) -> None:
    """A run that ran out of memory has a row in the report, without a step time.

    In this campaign, the run is in the last of eleven rows.
    """
    campaign = load_campaign(ROOT / "examples" / "megatron-deepspeed-zero-embeddings.yaml")
    store = CampaignStore(tmp_path)
    log = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB.\n"
    attempt_in(store.run(campaign.runs[-1].run_id), log=log, state="FAILED")
    runs = collect_campaign(campaign, store)
    report = make_report(campaign, runs, "2026-01-02")
    last = as_records(report.table)[-1]
    assert (last["micro_batch_size"], last["scattered_embeddings"]) == (22, "yes")
    assert (last["step_seconds_mean"], last["outcome"]) == (None, "OOM")
    lines = [
        line for line in report_markdown(campaign, report, runs, []).splitlines() if line[:1] == "|"
    ]
    assert len(lines) == 2 + 11
    assert "OOM" in lines[-1]
