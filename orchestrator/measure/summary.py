"""Summarize the log of a planned run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.measure.gpu_samples import GpuSamples
from orchestrator.run.flops import hardware_flops, model_flops, tflops_per_gpu
from orchestrator.run.model import Run
from parsers.records import Record, RunTotals, Step, Usage
from parsers.steps.merge import merged_steps
from parsers.summary.launches import Configured, RunReports, launch_reports
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of one run; absent values are None.

    reports: how many step reports are averaged: those after the warm-up, without skipped updates.
    skipped_reports: how many reports after the warm-up are not averaged, because they include a
        skipped update.
    step_seconds_mean, step_seconds_median, step_seconds_spread: mean, median and sample standard
        deviation of the step times in the averaged reports. If no report contains a time, the mean
        is computed from numbers that the program prints for the whole run: the samples per second,
        or the seconds and the iterations. This mean includes the warm-up.
    tflops_per_gpu: 10**12 hardware FLOPs per second and GPU, computed from the median step time, or
        from the mean without a median.
    model_tflops_per_gpu: 10**12 model FLOPs per second and GPU, computed from the same step time.
    samples_per_second: the value in the last averaged report.
    running_samples_per_second: the mean rate that the program itself computes (DeepSpeed);
        otherwise the global batch divided by the mean step time.
    memory_allocated_gib: the value in the last report.
    max_memory_allocated_gib: the highest value in the log.
    final_loss: the final loss that the program prints; otherwise the loss in the last report. May
        be nan or inf, as in the log.
    parameters_logged: the model's number of parameters, as the program reports it. The column
        `parameters` of a campaign's report is different: teralog computes it from the sizes of the
        model.
    device: the GPU's name, or `cpu`, as the program reports it.
    device_memory_gib: the highest memory use of one GPU, from samples by nvidia-smi. None if it is
        below max_memory_allocated_gib, because then no sample was taken while the run trained.
    gpu_utilization_percent: the median use of the GPUs, from the same samples. For each GPU,
        samples before its first use and after its last use are left out. None in the same case as
        device_memory_gib.
    """

    reports: int = 0
    skipped_reports: int = 0
    last_iteration: int | None = None
    step_seconds_mean: float | None = None
    step_seconds_median: float | None = None
    step_seconds_spread: float | None = None
    samples_per_second: float | None = None
    running_samples_per_second: float | None = None
    tflops_per_gpu: float | None = None
    model_tflops_per_gpu: float | None = None
    memory_allocated_gib: float | None = None
    max_memory_allocated_gib: float | None = None
    final_loss: float | None = None
    parameters_logged: int | None = None
    device: str | None = None
    device_memory_gib: float | None = None
    gpu_utilization_percent: float | None = None


def configured(run: Run) -> Configured:
    """Return the number of iterations and the global batch size that a run's parameters set."""
    return Configured(run.training.train_iters, run.batch.global_batch_size)


def record_reports(run: Run, records: Iterable[Record], warmup: Warmup) -> RunReports:
    """Return the step reports in `records`, and which of them the averages use.

    records: the records of one launch.
    The averages use the step reports after the warm-up that have no skipped update.
    """
    return RunReports((launch_reports(merged_steps(records), warmup, configured(run)),))


def summarise_records(
    run: Run,
    records: Sequence[Record],
    reports: RunReports,
    samples: GpuSamples | None = None,
) -> Summary:
    """Return the numbers of a run; a number is None if it cannot be computed from the log.

    reports: the step reports in `records`.
    samples: the samples of the run's GPUs; None if there are none.
    """
    totals = [record for record in records if isinstance(record, RunTotals)]
    batch = run.batch.global_batch_size
    seconds = reports.statistics(totals, batch)
    peaks = [
        record.max_memory_allocated_gib
        for record in records
        if isinstance(record, Step | Usage | RunTotals)
        and record.max_memory_allocated_gib is not None
    ]
    peak = max(peaks, default=None)
    if samples and not samples.show_training(peak):
        samples = None
    typical = seconds.mean if seconds.median is None else seconds.median
    final_loss = _last(total.final_loss for total in totals)
    return Summary(
        reports=seconds.n,
        skipped_reports=reports.skipped,
        last_iteration=reports.last_iteration(totals),
        step_seconds_mean=seconds.mean,
        step_seconds_median=seconds.median,
        step_seconds_spread=seconds.std,
        samples_per_second=_last(reports.column("samples_per_second")),
        running_samples_per_second=_last(reports.column("running_samples_per_second"))
        or _rate(batch, seconds.mean),
        tflops_per_gpu=tflops_per_gpu(hardware_flops(run), typical, run.world_size),
        model_tflops_per_gpu=tflops_per_gpu(model_flops(run), typical, run.world_size),
        memory_allocated_gib=_last(reports.every("memory_allocated_gib")),
        max_memory_allocated_gib=peak,
        final_loss=_last(reports.every("loss")) if final_loss is None else final_loss,
        parameters_logged=_last(total.parameters for total in totals),
        device=_last(total.device for total in totals),
        device_memory_gib=samples.memory_gib if samples else None,
        gpu_utilization_percent=samples.utilization_percent if samples else None,
    )


def _last(values: Iterable[Any]) -> Any:
    """Return the last value that is not None; None if there is no such value."""
    return next((value for value in reversed([*values]) if value is not None), None)


def _rate(samples: int | None, seconds: float | None) -> float | None:
    return samples / seconds if samples and seconds else None
