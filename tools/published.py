"""Write the markdown pages of results/published/ again from their CSV files; part of `make record`.

Each page has a folder. `source.yaml` contains the page's author and the notes for its tables. Each
CSV file contains the numbers of one table, as the page prints them. The tool writes these tables as
markdown, with TFLOPs computed again. It also writes the contradictions that `teralog check-tables`
finds in these tables.
"""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from orchestrator.cli.main import main as teralog
from orchestrator.common.tables import Cell, Column, as_markdown, make_table
from orchestrator.markdown.meaning.cells import read_parameters
from orchestrator.run.flops import bigscience_flops, tflops_per_gpu

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "results" / "published"
FINDINGS = PUBLISHED / "findings.json"

TITLES = {
    "date": "Date",
    "test": "Test",
    "optimizer_placement": "Optimizer placement",
    "nodes": "Nodes",
    "gpus_per_node": "GPUs per node",
    "world_size": "GPUs",
    "parameters": "Size",
    "zero_stage": "ZeRO stage",
    "offload": "Offload",
    "precision": "Precision",
    "scattered_embeddings": "Scattered embeddings",
    "offload_optimizer": "Optimizer offload",
    "offload_param": "Parameter offload",
    "tensor_parallel_size": "TP",
    "pipeline_parallel_size": "PP",
    "data_parallel_size": "DP",
    "num_microbatches": "Chunks",
    "micro_batch_size": "Micro-batch",
    "global_batch_size": "Global batch",
    "memory_gb": "Memory (GB)",
    "memory_mb": "Memory (MB)",
    "memory_nvidia_smi_mb": "Memory, nvidia-smi (MB)",
    "memory_allocated_gb": "Memory allocated (GB)",
    "max_memory_allocated_gb": "Max memory allocated (GB)",
    "utilization_percent": "GPU utilization (%)",
    "step_seconds": "Step time (s)",
    "samples_per_second": "Throughput (samples/s)",
    "mean_samples_per_second": "Mean samples/s",
    "last_samples_per_second": "Last samples/s",
    "tflops_per_gpu": "TFLOPs",
    "outcome": "Outcome",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A table of a published page.

    constants: the values that all rows share, e.g. the sequence length. rows: the cells of each
    row, as the page prints them. The keys of both are names such as `seq_length` or `step_seconds`.
    """

    title: str
    constants: dict[str, int]
    rows: tuple[dict[str, str], ...]

    @property
    def has_tflops(self) -> bool:
        """Return whether the page prints TFLOPs in this table."""
        return any(row.get("tflops_per_gpu") for row in self.rows)


def sources() -> dict[str, dict[str, Any]]:
    """Return the content of each page's source.yaml, by the name of the page's folder."""
    files = sorted(PUBLISHED.glob("*/source.yaml"))
    return {file.parent.name: yaml.safe_load(file.read_text()) for file in files}


def tables(page: str, source: dict[str, Any]) -> Iterator[Published]:
    """Yield the tables of a page, in the order of the page.

    source: the content of the page's source.yaml.
    """
    general: dict[str, int] = {
        key: source[key] for key in ("seq_length", "factor") if key in source
    }
    for table in source["tables"]:
        with (PUBLISHED / page / table["file"]).open(newline="") as file:
            rows = tuple(csv.DictReader(file))
        own = {key: value for key, value in table.items() if key in TITLES}
        yield Published(title=table["title"], constants={**general, **own}, rows=rows)


def recomputed(table: Published, row: dict[str, str]) -> float | None:
    """Return a row's TFLOPs per GPU, computed from the page's numbers; None without a step time."""
    if not row.get("step_seconds"):
        return None
    flops = bigscience_flops(
        read_parameters(row["parameters"]),
        table.constants["seq_length"],
        int(row["global_batch_size"]),
        table.constants["factor"],
    )
    return tflops_per_gpu(flops, float(row["step_seconds"]), int(row["world_size"]))


def markdown(page: str, source: dict[str, Any]) -> str:
    """Return the markdown of a page, with its tables.

    source: the content of the page's source.yaml.
    """
    place = f"[{source['title']}]({source['url']})" if "url" in source else source["title"]
    origin = [f"Source: {place}", source.get("organisation"), source["date"], source.get("gpu")]
    parts = [f"# {source['title']}", "; ".join(part for part in origin if part) + "."]
    for table in tables(page, source):
        notes = [f"- {title} = {table.constants[key]}" for key, title in _notes(table)]
        parts += [f"## {table.title}", *(["\n".join(notes)] if notes else []), _rows(table)]
    return "\n\n".join(parts) + "\n"


def findings() -> str:
    """Return the output of `teralog check-tables --json` for all pages in results/published."""
    names = [f"{(PUBLISHED / page).relative_to(ROOT)}.md" for page in sources()]
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return CliRunner().invoke(teralog, ["check-tables", "--json", *names]).stdout
    finally:
        os.chdir(before)


def main() -> None:
    """Write the markdown of all pages, and then what `teralog check-tables` finds in them."""
    for page, source in sources().items():
        (PUBLISHED / f"{page}.md").write_text(markdown(page, source))
    FINDINGS.write_text(findings())


def _notes(table: Published) -> Iterator[tuple[str, str]]:
    titles = {"seq_length": "Sequence length", "tensor_parallel_size": "TP"}
    yield from ((key, title) for key, title in titles.items() if key in table.constants)


def _rows(table: Published) -> str:
    columns = [_column(name) for name in table.rows[0]]
    if table.has_tflops:
        columns.append(
            Column(
                "TFLOPs (recomputed)",
                "recomputed_tflops_per_gpu",
                lambda row: recomputed(table, row),
            )
        )
    return as_markdown(make_table(columns, table.rows))


def _column(name: str) -> Column[dict[str, str]]:
    def cell(row: dict[str, str]) -> Cell:
        return int(row[name]) if row[name].isdecimal() else row[name]

    return Column(TITLES[name], name, cell)


if __name__ == "__main__":
    main()
