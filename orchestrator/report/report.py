"""Build a campaign's report: its table, the line below the table, report.md, and JSON values.

Blank rows in the table separate groups of runs with an equal value, e.g. the same model.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected, logs_checksum
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import (
    DASH,
    Table,
    as_markdown,
    as_records,
    escape_markdown,
    make_table,
)
from orchestrator.common.text import counted, named
from orchestrator.common.version import version
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.report.changes import with_changes
from orchestrator.report.columns import (
    common_names,
    describing_columns,
    ended,
    frameworks_of,
    hfu,
    measured_columns,
    mfu,
    peaks_told,
    sampled_columns,
    tokens_per_gpu,
)
from orchestrator.run.model import sizes
from parsers.records import OutcomeKind

_EQUATION = "Narayanan et al. 2021, eq. 3"
# How FLOPs are counted if a model has other layers than GPT-2.
_PARTS = "of each part of the model, as `teralog estimate flops --model` shows them"
# How the common columns are made, by their names.
_MADE_BY = {
    "tflops_per_gpu": "TFLOPs per GPU: FLOPs of the exact matrix products, with recomputation "
    f"({_EQUATION}), divided by the median step time and the number of ranks; ",
    "running_samples_per_second": "samples/s (avg): the program's own average if it prints one "
    "(DeepSpeed: all steps except two), else the global batch divided by the mean step time; ",
    "step_seconds_mean": "step times over n reports, spread = sample standard deviation; ",
}
_OF_WHOLE_RUNS = (
    "if n is absent, the program measures only the time of the whole run: mean and median are then "
    "the global batch divided by its samples/s, with the warm-up; "
)
_CROWDED = (
    "crowded: more ranks than cores, or other runs on this machine at the same time; such runs are "
    "slower, and do not count in the scaling efficiency; "
)
_SAMPLES = (
    "GPU mem: the highest memory of a GPU; GPU util: the median utilization between the first and "
    "the last time that GPUs are busy; both from nvidia-smi every 5 s, and empty if the training "
    "was too short for a sample; "
)


@dataclass(frozen=True, slots=True)
class Report:
    """The table of a campaign's runs, and one line about how its numbers were computed.

    describing: the names of the columns that distinguish runs; the other columns are measured.
    """

    table: Table
    describing: tuple[str, ...]
    provenance: str


def make_report(campaign: Campaign, runs: Sequence[Collected], date: str) -> Report:
    """Return the report of `runs`.

    date: the date in the line below the table, e.g. 2026-01-31.
    """
    describing = describing_columns(runs)
    table = make_table((*describing, *measured_columns(campaign, runs)), runs)
    table = with_changes(table, [run.planned.run for run in runs])
    table = replace(table, breaks=group_breaks(table, len(describing)))
    names = tuple(column.name for column in describing)
    return Report(table, names, _provenance(campaign, runs, date))


def group_breaks(table: Table, columns: int) -> frozenset[int]:
    """Divide the rows of a table into groups; return the index of each group's first row.

    The index of the first group is left out, because a blank row is only shown between
    groups. The rows of a group are adjacent and have the same value in one column, e.g. in
    `model`. The function chooses the first of the leftmost `columns` columns that satisfies
    all these conditions:
    - it has at least two different values;
    - all rows with the same value are adjacent;
    - at least half of the groups have several rows.
    If no column satisfies the conditions, the table has no groups, and the result is empty.
    """
    for column in range(columns):
        sizes = Counter(row[column] for row in table.rows)
        values = [value for value, _ in groupby(row[column] for row in table.rows)]
        of_one_row = sum(size == 1 for size in sizes.values())
        # There are as many groups as values. So no value comes back after another value.
        if 1 < len(values) == len(sizes) >= 2 * of_one_row:
            return frozenset(accumulate(sizes[value] for value in values[:-1]))
    return frozenset()


def report_markdown(
    campaign: Campaign, report: Report, runs: Sequence[Collected], gone: Sequence[str]
) -> str:
    """Return the text of report.md: the table, the line about its numbers, and two lists.

    The first list contains the runs that did not complete, the second one the runs in `gone`.
    gone: labels of runs that were measured and are no longer in the campaign file.
    """
    parts = [f"# {campaign.name}", table_markdown(report)]
    failures = [
        f"- {escape_markdown(run.planned.label)}: {ended(run)}{_end_in_log(run)}"
        for run in runs
        if run.outcome not in (None, RunOutcome.COMPLETED, RunOutcome.GIVEN_UP)
    ]
    if failures:
        parts += ["## Runs that did not complete", "\n".join(failures)]
    if gone:
        listed = ", ".join(escape_markdown(label) for label in gone)
        parts.append(f"Measured runs that are no longer in the campaign file: {listed}.")
    return "\n\n".join(parts) + "\n"


def table_markdown(report: Report) -> str:
    """Return a report in markdown: its table, and the line about how numbers were computed."""
    return f"{as_markdown(report.table)}\n\n{escape_markdown(report.provenance)}"


def run_values(
    campaign: Campaign, report: Report, runs: Sequence[Collected]
) -> list[dict[str, Any]]:
    """Return one object per run with all its values by name: cells, sizes, and how it ended."""
    return [
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **row,
            # These replace the sizes in the table's row, so that a size has the same value
            # everywhere.
            **sizes(run.planned.run),
            "state": run.state,
            "outcome": run.outcome,
            "model_tflops_per_gpu": run.summary.model_tflops_per_gpu,
            "mfu": mfu(campaign, run),
            "hfu": hfu(campaign, run),
            "tokens_per_second_per_gpu": tokens_per_gpu(run),
        }
        for run, row in zip(runs, as_records(report.table), strict=True)
    ]


def json_number(value: Any) -> Any:
    """Return a value in a form that JSON can contain: nan and inf as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _end_in_log(run: Collected) -> str:
    outcome = run.log_outcome
    if outcome is None or outcome.text is None or outcome.kind == OutcomeKind.COMPLETED:
        return ""
    text = outcome.text if len(outcome.text) <= 200 else f"{outcome.text[:199]}…"
    return f" — {escape_markdown(text)}"


def _of_steps(campaign: Campaign, runs: Sequence[Collected]) -> Iterator[str]:
    """Yield the parts of the line below the table that are for programs that report steps.

    The parts explain e.g. how TFLOPs were computed, and which reports were left out.
    """
    there = common_names(runs)
    described = any(_is_described(run) for run in runs)
    for name, sentence in _MADE_BY.items():
        if name in there:
            yield sentence.replace(_EQUATION, _PARTS) if described else sentence
    if any(run.summary.step_seconds_mean and not run.summary.reports for run in runs):
        yield _OF_WHOLE_RUNS
    if sampled_columns(runs):
        yield _SAMPLES
    if any(run.crowded for run in runs):
        yield _CROWDED
    if "tflops_per_gpu" in there:
        yield peaks_told(campaign, runs)
        yield from _of_unreckoned(runs)
    yield f"warm-up left out: {campaign.warmup}; "
    yield from _of_skipped_updates(runs)
    on_cpu = [run for run in runs if run.summary.device == "cpu" or not campaign.cluster.has_gpus]
    if there & {"memory_allocated_gib", "max_memory_allocated_gib"}:
        on_gpu = len(on_cpu) < len(runs)
        yield "memory: from the GPU allocator; " if on_gpu else "memory: rank 0's resident set; "
    if on_cpu and campaign.cluster.has_gpus:
        labels = named([run.planned.label for run in on_cpu])
        yield f"trained on the CPU, though cluster {campaign.cluster.name} has GPUs: {labels}; "


def _is_described(run: Collected) -> bool:
    model = run.planned.run.model
    return model is not None and model.described is not None


def _of_unreckoned(runs: Sequence[Collected]) -> Iterator[str]:
    labels: dict[str, list[str]] = {}
    for planned in (run.planned for run in runs):
        for option in FRAMEWORKS[planned.run.framework].report.unreckoned(planned.run):
            labels.setdefault(option, []).append(planned.label)
    for option, of_these in labels.items():
        yield f"model sizes and FLOPs ignore {option} of the runs {named(of_these)}; "


def _of_skipped_updates(runs: Sequence[Collected]) -> Iterator[str]:
    skipped = sum(run.summary.skipped_reports for run in runs)
    if skipped:
        empty = [
            run.planned.label
            for run in runs
            if run.summary.skipped_reports and not run.summary.reports
        ]
        of_these = f"; all reports of {named(empty)} contain a skipped update" if empty else ""
        yield f"{counted(skipped, 'report')} with skipped updates left out{of_these}; "


def _provenance(campaign: Campaign, runs: Sequence[Collected], date: str) -> str:
    frameworks = frameworks_of(runs)
    steps = any(framework.log.reports_steps for framework in frameworks)
    own = dict.fromkeys(
        f"{framework.report.measured_by}; "
        for framework in frameworks
        if framework.report.measured_by
    )
    return (
        f"{''.join(_of_steps(campaign, runs)) if steps else ''}{''.join(own)}"
        f"teralog {version()}, {date}; logs sha256 {logs_checksum(runs) or DASH}."
    )
