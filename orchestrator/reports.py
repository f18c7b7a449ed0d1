"""A campaign's results: the table, the line that says how it was made, the page around them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator import run_columns
from orchestrator.campaign import Campaign
from orchestrator.collection import Collected, logs_checksum
from orchestrator.comparisons import with_changes
from orchestrator.flops import utilization
from orchestrator.frameworks import FRAMEWORKS
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.gpu_usage import GPU_USE
from orchestrator.gpus import Figure
from orchestrator.model import Run, sizes
from orchestrator.outcomes import COMPLETED, GIVEN_UP
from orchestrator.row_groups import group_breaks
from orchestrator.tables import (
    DASH,
    Cell,
    Column,
    Style,
    Table,
    as_markdown,
    as_records,
    escape_markdown,
    make_table,
)
from orchestrator.version import version
from parsers.records import OutcomeKind

_SHORT = Style(digits=3)

# Shown where they differ between the runs of a campaign, or a framework names them its own.
_VARYING: tuple[Column[Run], ...] = (
    run_columns.FRAMEWORK,
    run_columns.MODEL,
    run_columns.SIZE,
    run_columns.SEQUENCE,
    run_columns.NODES,
    run_columns.GPUS,
    run_columns.TENSOR,
    run_columns.PIPELINE,
    run_columns.CONTEXT,
    run_columns.MICRO_BATCH,
    run_columns.MICRO_BATCHES,
    run_columns.GLOBAL_BATCH,
    run_columns.RECOMPUTATION,
    run_columns.ITERATIONS,
    run_columns.SEED,
    run_columns.REPEAT,
)


def _ended(run: Collected) -> str:
    if run.given_up is not None:
        return run.given_up
    if run.outcome is None:
        return run.state.lower().replace("_", " ")
    return run.outcome if run.outcome == COMPLETED else run.outcome.upper()


_MEASURED: tuple[Column[Collected], ...] = (
    Column(
        "samples/s (avg)",
        "running_samples_per_second",
        lambda run: run.summary.running_samples_per_second,
    ),
    Column("samples/s (last)", "samples_per_second", lambda run: run.summary.samples_per_second),
    Column(
        "mem (GiB)", "memory_allocated_gib", lambda run: run.summary.memory_allocated_gib, _SHORT
    ),
    Column(
        "peak (GiB)",
        "max_memory_allocated_gib",
        lambda run: run.summary.max_memory_allocated_gib,
        _SHORT,
    ),
    Column("step mean (s)", "step_seconds_mean", lambda run: run.summary.step_seconds_mean, _SHORT),
    Column(
        "median (s)", "step_seconds_median", lambda run: run.summary.step_seconds_median, _SHORT
    ),
    Column(
        "spread (s)",
        "step_seconds_spread",
        lambda run: run.summary.step_seconds_spread,
        Style(digits=2),
    ),
    Column("n", "reports", lambda run: run.summary.reports or None),
    Column("TFLOPs/GPU", "tflops_per_gpu", lambda run: run.summary.tflops_per_gpu, _SHORT),
)
_ENDED: tuple[Column[Collected], ...] = (
    Column("final loss", "final_loss", lambda run: run.summary.final_loss, Style(digits=6)),
    Column("ended", "outcome", _ended),
)


_OF_WHOLE_RUNS = (
    "where there is no n, the program times its run as a whole: the mean is the global batch over "
    "its samples/s, warm-up included, and stands for the median; "
)
_SAMPLES = (
    "GPU mem, GPU util: nvidia-smi every 5 s, the highest memory of a device and the median of the "
    "use from when GPUs are first busy to when they last are; "
)
# Known of a run whose program tells of no steps.
_WITHOUT_STEPS = frozenset({"max_memory_allocated_gib", "outcome"})


@dataclass(frozen=True, slots=True)
class Report:
    """The table of a campaign's runs, and one line that says how its numbers were made.

    describing: the names of the columns that tell runs apart, the others being measured.
    """

    table: Table
    describing: tuple[str, ...]
    provenance: str


def make_report(campaign: Campaign, runs: Sequence[Collected], date: str) -> Report:
    """Return the report of `runs`; `date` is the day it is made."""
    describing = _describing(runs)
    columns = (
        *describing,
        *_own_measures(runs),
        *_sampled(runs),
        *_common(_MEASURED, runs),
        *_utilization(campaign, runs),
        *_common(_ENDED, runs),
    )
    table = with_changes(make_table(columns, runs), [run.planned.run for run in runs])
    names = tuple(column.name for column in describing)
    grouped = replace(table, breaks=group_breaks(table, len(names)))
    return Report(grouped, names, _provenance(campaign, runs, date))


def report_markdown(
    campaign: Campaign, report: Report, runs: Sequence[Collected], gone: Sequence[str]
) -> str:
    """Return the page: table, how it was made, how runs failed, what is no longer in the file."""
    parts = [f"# {campaign.name}", table_markdown(report)]
    failures = [
        f"- {escape_markdown(run.planned.label)}: {_ended(run)}{_told(run)}"
        for run in runs
        if run.outcome not in (None, COMPLETED, GIVEN_UP)
    ]
    if failures:
        parts += ["## Runs that did not complete", "\n".join(failures)]
    if gone:
        listed = ", ".join(escape_markdown(label) for label in gone)
        parts.append(f"Measured earlier and no longer in the campaign file: {listed}.")
    return "\n\n".join(parts) + "\n"


def table_markdown(report: Report) -> str:
    """Return the table and the line that says how it was made."""
    return f"{as_markdown(report.table)}\n\n{escape_markdown(report.provenance)}"


def report_json(campaign: Campaign, report: Report, runs: Sequence[Collected]) -> dict[str, Any]:
    """Return the report for programs; nan and inf are texts, for JSON knows neither."""
    rows = run_values(campaign, report, runs)
    return {
        "campaign": campaign.name,
        "provenance": report.provenance,
        "runs": [{name: json_number(value) for name, value in row.items()} for row in rows],
    }


def run_values(
    campaign: Campaign, report: Report, runs: Sequence[Collected]
) -> list[dict[str, Any]]:
    """Return of every run all that is known by a name: cells, sizes, and how it ended."""
    return [
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **row,
            # Over what the table shows of them: a size is the same value everywhere.
            **sizes(run.planned.run),
            "state": run.state,
            "outcome": run.outcome,
            "model_tflops_per_gpu": run.summary.model_tflops_per_gpu,
            "mfu": _of_peak(run.summary.model_tflops_per_gpu, _peak(campaign, run)),
            "hfu": _of_peak(run.summary.tflops_per_gpu, _peak(campaign, run)),
        }
        for run, row in zip(runs, as_records(report.table), strict=True)
    ]


def json_number(value: Any) -> Any:
    """Return a value as JSON can say it: nan and inf as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _describing(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns that tell runs apart; their labels too where those do not suffice."""
    frameworks = _frameworks(runs)
    own = {column.name: column for one in frameworks for column in one.columns}
    for column in _VARYING:
        # A framework's own words for it stand where no other framework has a row.
        if len(frameworks) > 1:
            own.pop(column.name, None)
    varying = [
        column
        for column in _VARYING
        if column.name not in own and len({column.value(run.planned.run) for run in runs}) > 1
    ]
    columns = (
        *(_of_run(column, column.value) for column in varying),
        *(_of_run(column, _value_by_name(column.name)) for column in own.values()),
    )
    descriptions = {tuple(column.value(run) for column in columns) for run in runs}
    if len(descriptions) < len(runs):
        label: Column[Collected] = Column("run", "label", lambda run: run.planned.label)
        return (label, *columns)
    return columns


def _frameworks(runs: Sequence[Collected]) -> list[Framework]:
    return [FRAMEWORKS[name] for name in dict.fromkeys(run.planned.run.framework for run in runs)]


def _own_measures(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns of what only these runs' frameworks measure."""
    common: dict[str, Callable[[Collected], Cell]] = {
        column.name: column.value for column in _MEASURED
    }
    own = {column.name: column for one in _frameworks(runs) for column in one.measures}

    def measured(name: str) -> Callable[[Collected], Cell]:
        def value(run: Collected) -> Cell:
            if name in run.measures or name not in common:
                return run.measures.get(name)
            return common[name](run)

        return value

    return tuple(
        Column(column.title, name, measured(name), column.style) for name, column in own.items()
    )


def _common(
    columns: Sequence[Column[Collected]], runs: Sequence[Collected]
) -> Iterator[Column[Collected]]:
    """Yield those of `columns` that can be known of these runs and have no other in their place."""
    frameworks = _frameworks(runs)
    own = {column.name for one in frameworks for column in one.measures}
    steps = any(one.reports_steps for one in frameworks)
    for column in columns:
        if column.name not in own and (steps or column.name in _WITHOUT_STEPS):
            yield column


def _of_run(column: Column[Run], value: Callable[[Run], Cell]) -> Column[Collected]:
    return Column(
        column.title, column.name, lambda collected: value(collected.planned.run), column.style
    )


def _value_by_name(name: str) -> Callable[[Run], Cell]:
    """Return a function that asks a run's own framework; one that has no such column says None."""

    def value(run: Run) -> Cell:
        columns = FRAMEWORKS[run.framework].columns
        return next((column.value(run) for column in columns if column.name == name), None)

    return value


def _sampled(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns of what nvidia-smi saw of runs; none where a framework has its own."""
    if any(column is GPU_USE for one in _frameworks(runs) for column in one.measures):
        return ()
    columns: tuple[Column[Collected], ...] = (
        Column("GPU mem (GiB)", "device_memory_gib", lambda run: run.summary.device_memory_gib),
        Column(
            "GPU util %",
            "gpu_utilization_percent",
            lambda run: run.summary.gpu_utilization_percent,
            _SHORT,
        ),
    )
    return tuple(column for column in columns if any(column.value(run) is not None for run in runs))


def _peak(campaign: Campaign, run: Collected) -> Figure | None:
    return campaign.cluster.peak_tflops(run.planned.run.training.precision, run.summary.device)


def _of_peak(tflops: float | None, peak: Figure | None) -> float | None:
    return utilization(tflops, peak.value if peak else None)


def _utilization(campaign: Campaign, runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the column of the MFU; none where it is known of no run."""

    def percent(run: Collected) -> float | None:
        mfu = _of_peak(run.summary.model_tflops_per_gpu, _peak(campaign, run))
        return None if mfu is None else 100 * mfu

    known = any(percent(run) is not None for run in runs)
    return (Column("MFU %", "mfu_percent", percent, _SHORT),) if known else ()


def _peaks_told(campaign: Campaign, runs: Sequence[Collected]) -> str:
    """Return what the peaks are and where they are from, or why they are not known."""
    peaks = dict.fromkeys(_peak(campaign, run) for run in runs)
    told = (
        f"MFU unknown: {peak.said}; "
        if peak.value is None
        else f"MFU: FLOPs without recomputation, over {peak.said}; "
        for peak in peaks
        if peak is not None
    )
    return "".join(told)


def _told(run: Collected) -> str:
    told = run.told
    if told is None or told.text is None or told.kind == OutcomeKind.COMPLETED:
        return ""
    text = told.text if len(told.text) <= 200 else f"{told.text[:199]}…"
    return f" — {escape_markdown(text)}"


def _provenance(campaign: Campaign, runs: Sequence[Collected], date: str) -> str:
    memory = "GPU allocator's" if campaign.cluster.has_gpus else "rank 0's resident set"
    whole = any(run.summary.step_seconds_mean and not run.summary.reports for run in runs)
    frameworks = _frameworks(runs)
    steps = (
        "TFLOPs per GPU: FLOPs of the exact matrix products, recomputed ones included (Narayanan "
        "et al. 2021, eq. 3), over the median step time and the ranks; samples/s (avg): the "
        "program's own average where it keeps one (DeepSpeed, all steps but two), else over the "
        "mean step; step times over n reports, spread = sample standard deviation; "
        f"{_OF_WHOLE_RUNS if whole else ''}{_SAMPLES if _sampled(runs) else ''}"
        f"{_peaks_told(campaign, runs)}warm-up left out: {campaign.warmup}; memory: {memory}; "
    )
    own = dict.fromkeys(f"{one.measured_by}; " for one in frameworks if one.measured_by)
    return (
        f"{steps if any(one.reports_steps for one in frameworks) else ''}{''.join(own)}"
        f"teralog {version()}, {date}; logs sha256 {logs_checksum(runs) or DASH}."
    )
