"""Build the JSON report of a campaign: its runs, and its configurations."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.report.configurations import Configuration, configurations
from orchestrator.report.report import Report, json_number, run_values

# For each of these numbers, a configuration has the median, the lowest and the highest value.
_COMBINED = (
    "tflops_per_gpu",
    "model_tflops_per_gpu",
    "mfu",
    "step_seconds_median",
    "running_samples_per_second",
    "max_memory_allocated_gib",
)


def report_json(campaign: Campaign, report: Report, runs: Sequence[Collected]) -> dict[str, Any]:
    """Return the report as a JSON object; nan and inf are texts, because JSON has neither."""
    rows = run_values(campaign, report, runs)
    by_id = {row["run_id"]: row for row in rows}
    return {
        "campaign": campaign.name,
        "provenance": report.provenance,
        "runs": [{name: json_number(value) for name, value in row.items()} for row in rows],
        "configurations": [_record(group, by_id) for group in configurations(runs)],
    }


def _record(group: Configuration, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a configuration as a JSON object.

    It contains the ids of the runs. It also contains the medians and ranges of their numbers. These
    are computed from the completed runs, or from all runs if no run completed.

    rows: the values of each run, by its id.
    """
    measured = [rows[run.planned.run_id] for run in group.measured]
    numbers = {name: [row.get(name) for row in measured] for name in _COMBINED}
    return {
        "label": group.label,
        "run_ids": list(group.run_ids),
        "measured_run_ids": [row["run_id"] for row in measured],
        "crowded_run_ids": [run.planned.run_id for run in group.measured if run.crowded],
        **{name: _interval(values) for name, values in numbers.items()},
    }


def _interval(values: Sequence[Any]) -> dict[str, float | int] | None:
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers:
        return None
    return {"n": len(numbers), "median": median(numbers), "low": min(numbers), "high": max(numbers)}
