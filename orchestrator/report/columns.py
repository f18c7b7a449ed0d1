"""The columns of a campaign's report: parameters that distinguish runs, and measured values.

MFU and HFU are also computed here: the TFLOPs of a run as a fraction of the peak of its
GPUs.
"""

from collections.abc import Callable, Iterator, Sequence

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import Cell, Column, Style
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.gpu_usage import GPU_USE
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.gpus import Figure
from orchestrator.run import run_columns
from orchestrator.run.flops import utilization
from orchestrator.run.model import Run


def mfu(campaign: Campaign, run: Collected) -> float | None:
    """Return the MFU of a run: its model TFLOPs per GPU, divided by the GPU's peak.

    Model TFLOPs are without recomputation. Returns None if the TFLOPs or the peak are
    unknown.
    """
    return _of_peak(run.summary.model_tflops_per_gpu, _peak(campaign, run))


def hfu(campaign: Campaign, run: Collected) -> float | None:
    """Return the HFU of a run: its hardware TFLOPs per GPU, divided by the GPU's peak.

    Hardware TFLOPs include recomputation. Returns None if the TFLOPs or the peak are
    unknown.
    """
    return _of_peak(run.summary.tflops_per_gpu, _peak(campaign, run))


def peaks_told(campaign: Campaign, runs: Sequence[Collected]) -> str:
    """Return a text about the GPUs' peak TFLOPs: their sources, or why the peaks are unknown.

    The text is empty if no run has model TFLOPs, because then no peak is needed.
    """
    if all(run.summary.model_tflops_per_gpu is None for run in runs):
        return ""
    peaks = dict.fromkeys(_peak(campaign, run) for run in runs)
    sentence = (
        f"MFU unknown: {peak.explanation}; "
        if peak.value is None
        else f"MFU: TFLOPs per GPU without recomputation, divided by {peak.explanation}; "
        for peak in peaks
        if peak is not None
    )
    return "".join(sentence)


def _peak(campaign: Campaign, run: Collected) -> Figure | None:
    return campaign.cluster.peak_tflops(run.planned.run.training.precision, run.summary.device)


def _of_peak(tflops: float | None, peak: Figure | None) -> float | None:
    return utilization(tflops, peak.value if peak else None)


_SHORT = Style(digits=3)

# Each is shown if its values differ between the runs of a campaign. A framework may replace it by
# a column of the same name.
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


def ended(run: Collected) -> str:
    """Return the cell that shows how a run ended: its outcome, in capitals if it did not complete.

    For a run that was given up, the cell contains the reason. For a run that has not ended, the
    cell contains its state.
    """
    if run.given_up is not None:
        return run.given_up
    if run.outcome is None:
        return run.state.lower().replace("_", " ")
    return run.outcome if run.outcome == RunOutcome.COMPLETED else run.outcome.upper()


_MEASURED: tuple[Column[Collected], ...] = (
    Column(
        "samples/s (avg)",
        "running_samples_per_second",
        lambda run: run.summary.running_samples_per_second,
        minor=True,
    ),
    Column("samples/s (last)", "samples_per_second", lambda run: run.summary.samples_per_second),
    Column(
        "mem (GiB)",
        "memory_allocated_gib",
        lambda run: run.summary.memory_allocated_gib,
        _SHORT,
        minor=True,
    ),
    Column(
        "peak (GiB)",
        "max_memory_allocated_gib",
        lambda run: run.summary.max_memory_allocated_gib,
        _SHORT,
    ),
    Column(
        "step mean (s)",
        "step_seconds_mean",
        lambda run: run.summary.step_seconds_mean,
        _SHORT,
        minor=True,
    ),
    Column(
        "median (s)", "step_seconds_median", lambda run: run.summary.step_seconds_median, _SHORT
    ),
    Column(
        "spread (s)",
        "step_seconds_spread",
        lambda run: run.summary.step_seconds_spread,
        Style(digits=2),
        minor=True,
    ),
    Column("n", "reports", lambda run: run.summary.reports or None, minor=True),
    Column("TFLOPs/GPU", "tflops_per_gpu", lambda run: run.summary.tflops_per_gpu, _SHORT),
)
_ENDED: tuple[Column[Collected], ...] = (
    Column(
        "final loss", "final_loss", lambda run: run.summary.final_loss, Style(digits=6), minor=True
    ),
    Column("ended", "outcome", ended),
)
# This column is shown if a campaign has crowded runs.
_CROWDED: Column[Collected] = Column("crowded", "crowded", lambda run: run.crowded)
# Columns that have values even if the program reports no steps.
_WITHOUT_STEPS = frozenset({"max_memory_allocated_gib", "outcome"})


def describing_columns(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns that distinguish runs.

    If two runs have equal values in all these columns, a column with the runs' labels is added as
    the first one.
    """
    frameworks = frameworks_of(runs)
    own = {column.name: column for framework in frameworks for column in framework.report.chosen}
    for column in _VARYING:
        # A framework's own title is used if no other framework has a row.
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


def measured_columns(
    campaign: Campaign, runs: Sequence[Collected]
) -> tuple[Column[Collected], ...]:
    """Return the columns of the measured values, and of the runs' outcomes."""
    return (
        *_own_measures(runs),
        *sampled_columns(runs),
        *_common(_MEASURED, runs),
        *_utilization(campaign, runs),
        *([_CROWDED] if any(run.crowded for run in runs) else []),
        *_common(_ENDED, runs),
    )


def common_names(runs: Sequence[Collected]) -> set[str]:
    """Return the names of the measured columns that are common to all frameworks.

    A column is left out if a framework of these runs defines its own column with the same
    name. If no framework of these runs reports steps, columns about steps are left out,
    too.
    """
    return {column.name for column in _common(_MEASURED, runs)}


def frameworks_of(runs: Sequence[Collected]) -> list[Framework]:
    """Return the frameworks of runs, each once, in the runs' order."""
    return [FRAMEWORKS[name] for name in dict.fromkeys(run.planned.run.framework for run in runs)]


def _own_measures(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns of measured values that the frameworks of these runs define themselves."""
    common: dict[str, Callable[[Collected], Cell]] = {
        column.name: column.value for column in _MEASURED
    }
    own = {
        column.name: column
        for framework in frameworks_of(runs)
        for column in framework.report.measures
    }

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
    """Yield those of `columns` that apply to these runs.

    A column is left out if a framework of these runs defines its own column with the same
    name. If no framework of these runs reports steps, columns about steps are left out,
    too.
    """
    frameworks = frameworks_of(runs)
    own = {column.name for framework in frameworks for column in framework.report.measures}
    steps = any(framework.log.reports_steps for framework in frameworks)
    for column in columns:
        if column.name not in own and (steps or column.name in _WITHOUT_STEPS):
            yield column


def _of_run(column: Column[Run], value: Callable[[Run], Cell]) -> Column[Collected]:
    return Column(
        column.title, column.name, lambda collected: value(collected.planned.run), column.style
    )


def _value_by_name(name: str) -> Callable[[Run], Cell]:
    """Return a function that returns a run's cell in a column of the run's framework.

    name: the name of the column. If a run's framework does not define this column, the cell
    is None.
    """

    def value(run: Run) -> Cell:
        columns = FRAMEWORKS[run.framework].report.chosen
        return next((column.value(run) for column in columns if column.name == name), None)

    return value


def sampled_columns(runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns of the values that nvidia-smi measured at intervals during the runs.

    Columns without any value are left out. Returns no columns if a framework of these runs defines
    its own column for the GPU utilization.
    """
    if any(
        column is GPU_USE
        for framework in frameworks_of(runs)
        for column in framework.report.measures
    ):
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


def _utilization(campaign: Campaign, runs: Sequence[Collected]) -> tuple[Column[Collected], ...]:
    """Return the columns with MFU, HFU and tokens per second per GPU.

    The column with HFU is left out if the HFU of every run is equal to its MFU, i.e. if no run
    recomputes activations. Returns no columns if no run has an MFU.
    """
    columns: list[Column[Collected]] = [
        Column("MFU %", "mfu_percent", lambda run: _percent(mfu(campaign, run)), _SHORT)
    ]
    if any(mfu(campaign, run) != hfu(campaign, run) for run in runs):
        columns.append(
            Column(
                "HFU %",
                "hfu_percent",
                lambda run: _percent(hfu(campaign, run)),
                _SHORT,
                minor=True,
            )
        )
    columns.append(
        Column(
            "tokens/s (per GPU)",
            "tokens_per_second_per_gpu",
            tokens_per_gpu,
            Style(digits=4),
            minor=True,
        )
    )
    has_mfu = any(mfu(campaign, run) is not None for run in runs)
    return tuple(columns) if has_mfu else ()


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


def tokens_per_gpu(run: Collected) -> float | None:
    """Return the tokens per second per GPU, computed from the median step time.

    If the median is not known, the mean step time is used. Returns None if both are not known, or
    if the model or the global batch is not known.
    """
    planned, summary = run.planned.run, run.summary
    seconds = summary.step_seconds_median or summary.step_seconds_mean
    batch = planned.batch.global_batch_size
    if planned.model is None or batch is None or not seconds:
        return None
    return batch * planned.model.seq_length / seconds / planned.world_size
