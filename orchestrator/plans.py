"""What a campaign would run: its runs, their sizes, what stands in their way."""

from typing import Any

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.model import sizes
from orchestrator.tables import EXACT, Column, Table, make_table, shown


def _billions(planned: PlannedRun) -> float | None:
    parameters = planned.run.parameters
    return None if parameters is None else parameters / 1e9


_COLUMNS: tuple[Column[PlannedRun], ...] = (
    Column("run", "run_id", lambda planned: planned.run_id),
    Column("label", "label", lambda planned: planned.label),
    Column("nodes", "nodes", lambda planned: planned.run.resources.nodes),
    Column("ranks", "world_size", lambda planned: planned.run.world_size),
    Column("DP", "data_parallel_size", lambda planned: planned.run.data_parallel_size),
    Column("micro-batch", "micro_batch_size", lambda planned: planned.run.batch.micro_batch_size),
    Column("micro-batches", "num_microbatches", lambda planned: planned.run.num_microbatches),
    Column(
        "global batch", "global_batch_size", lambda planned: planned.run.batch.global_batch_size
    ),
    Column("size (B)", "parameters_billions", _billions, EXACT),
    Column("GPU-hours", "gpu_hours", lambda planned: planned.run.resources.gpu_hours, EXACT),
    Column("problems", "problems", lambda planned: len(planned.problems) or None),
)


def plan_table(campaign: Campaign) -> Table:
    """Return the table of all runs, the impossible ones among them."""
    return make_table(_COLUMNS, campaign.runs)


def plan_records(campaign: Campaign) -> list[dict[str, Any]]:
    """Return one object a run: identity, label, every size, and its problems."""
    return [
        {
            "run_id": planned.run_id,
            "label": planned.label,
            **sizes(planned.run),
            "problems": list(planned.problems),
        }
        for planned in campaign.runs
    ]


def plan_totals(campaign: Campaign) -> str:
    """Return one line: how many runs, the GPU-hours they ask for, what was left out."""
    possible = [planned for planned in campaign.runs if not planned.problems]
    hours = sum(planned.run.resources.gpu_hours for planned in possible)
    impossible = len(campaign.runs) - len(possible)
    parts = [f"{len(campaign.runs)} runs on {campaign.cluster.name}"]
    if impossible:
        parts.append(f"{impossible} impossible")
    parts.append(f"{shown(hours, EXACT)} GPU-hours asked for at most")
    return "; ".join((*parts, *campaign.notes))


def problem_lines(campaign: Campaign) -> list[str]:
    """Return one sentence for each problem, with the runs that have it."""
    runs: dict[str, list[str]] = {}
    for planned in campaign.runs:
        for problem in planned.problems:
            runs.setdefault(problem, []).append(planned.label)
    return [f"{problem} ({_named(labels)})" for problem, labels in runs.items()]


def _named(labels: list[str]) -> str:
    first, more = ", ".join(labels[:3]), len(labels) - 3
    return first if more <= 0 else f"{first} and {more} more run{'s' if more > 1 else ''}"
