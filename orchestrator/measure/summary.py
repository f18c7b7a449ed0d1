"""From the records of a run's log to its numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.measure.gpu_samples import GpuSamples
from orchestrator.measure.warmup import Warmup
from orchestrator.run.flops import hardware_flops, model_flops, tflops_per_gpu
from orchestrator.run.model import Run
from parsers.records import Record, RunTotals, Step, Usage
from parsers.steps.merge import merge_steps
from parsers.steps.seconds import StepSeconds, skipped_updates
from parsers.steps.seconds import step_seconds as known_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of one run; absent is None.

    reports: how many step reports are averaged, those after the warm-up.
    skipped_reports: how many more there are after it, which hold a skipped update.
    step_seconds_mean, _median, _spread: of those; the spread is the sample standard deviation.
        Where no report tells a time, the mean is that of the whole run, warm-up included, by the
        program's own samples per second.
    tflops_per_gpu: hardware FLOPs, at the median step, or at the mean where there is no median;
        model_tflops_per_gpu: model FLOPs.
    samples_per_second: of the last report after the warm-up; running_samples_per_second: the mean
        that the program itself keeps (DeepSpeed), else global batch / mean step.
    memory_allocated_gib: of the last report; max_memory_allocated_gib: the highest reported.
    final_loss: of the last iteration; may be nan or inf, which is what the log says.
    parameters_logged: what the program counted, beside the size formula's `parameters`.
    device: the GPU's name, or `cpu`, as the program tells it.
    device_memory_gib, gpu_utilization_percent: as sampled beside the training; see `gpu_samples`.
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


def step_seconds(step: Step, run: Run) -> float | None:
    """Return the seconds of a step of a run, as `parsers.steps.seconds` says."""
    batch = step.global_batch_size or run.batch.global_batch_size
    return known_seconds(step.step_seconds, batch, step.samples_per_second)


@dataclass(frozen=True, slots=True)
class WarmSteps:
    """The step reports of a run after its warm-up.

    counted: those that its numbers are made of. skipped: those that hold a skipped update.
    """

    counted: tuple[Step, ...]
    skipped: tuple[Step, ...]

    @property
    def overflowed(self) -> bool:
        """Whether all hold a skipped update, so that there is nothing to make numbers of."""
        return bool(self.skipped) and not self.counted


def warm_steps(steps: Sequence[Step], train_iters: int, warmup: Warmup) -> WarmSteps:
    """Return the reports after the warm-up of a run of so many iterations."""
    last_warmup = warmup.last_iteration(train_iters)
    with_update, without = by_update(steps)
    return WarmSteps(
        tuple(step for step in with_update if step.iteration > last_warmup),
        tuple(step for step in without if step.iteration > last_warmup),
    )


def by_update(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Return the reports of which every iteration had its update, and those with a skipped one."""
    skips = skipped_updates(
        (step.skipped for step in steps), (step.skipped_iterations for step in steps)
    )
    parted: tuple[list[Step], list[Step]] = ([], [])
    for step, skipped in zip(steps, skips, strict=True):
        parted[skipped].append(step)
    return parted


def seconds_of(steps: Iterable[Step], global_batch_size: int | None) -> list[float]:
    """Return how long steps took, those of which it is not known left out."""
    times = (
        known_seconds(
            step.step_seconds,
            step.global_batch_size or global_batch_size,
            step.samples_per_second,
        )
        for step in steps
    )
    return [time for time in times if time is not None]


def summarise(run: Run, records: Iterable[Record], warmup: Warmup) -> Summary:
    """Return the numbers of a run; those of a run that did not get far enough are None."""
    records = list(records)
    return summary_of(run, merge_steps(records), records, warmup)


def summary_of(
    run: Run,
    steps: Sequence[Step],
    records: Sequence[Record],
    warmup: Warmup,
    samples: GpuSamples | None = None,
) -> Summary:
    """Return the same, with the steps that `merge_steps` makes of the records.

    samples: of its GPUs, where there were any.
    """
    totals = [record for record in records if isinstance(record, RunTotals)]
    warm = warm_steps(steps, run.training.train_iters, warmup)
    seconds = StepSeconds.of(seconds_of(warm.counted, run.batch.global_batch_size))
    reported = (
        record.max_memory_allocated_gib
        for record in records
        if isinstance(record, Step | Usage | RunTotals)
    )
    peaks = [peak for peak in reported if peak is not None]
    mean = seconds.mean if seconds.n else _whole_run_step_seconds(run, totals)
    typical = mean if seconds.median is None else seconds.median
    return Summary(
        reports=seconds.n,
        skipped_reports=len(warm.skipped),
        last_iteration=steps[-1].iteration if steps else None,
        step_seconds_mean=mean,
        step_seconds_median=seconds.median,
        step_seconds_spread=seconds.std,
        samples_per_second=_last(warm.counted, "samples_per_second"),
        running_samples_per_second=_last(warm.counted, "running_samples_per_second")
        or _rate(run.batch.global_batch_size, mean),
        tflops_per_gpu=tflops_per_gpu(hardware_flops(run), typical, run.world_size),
        model_tflops_per_gpu=tflops_per_gpu(model_flops(run), typical, run.world_size),
        memory_allocated_gib=_last(steps, "memory_allocated_gib"),
        max_memory_allocated_gib=max(peaks, default=None),
        final_loss=_last([*steps, *totals], "final_loss", "loss"),
        parameters_logged=_last(totals, "parameters"),
        device=_last(totals, "device"),
        device_memory_gib=samples.memory_gib if samples else None,
        gpu_utilization_percent=samples.utilization_percent if samples else None,
    )


def _whole_run_step_seconds(run: Run, totals: Iterable[RunTotals]) -> float | None:
    """Return global batch / samples per second, as a program tells them of all its iterations."""
    rates = (one.samples_per_second for one in totals if one.phase is None and not one.per_gpu)
    rate = next((rate for rate in rates if rate), None)
    return known_seconds(None, run.batch.global_batch_size, rate)


def _last(parts: Iterable[Any], *names: str) -> Any:
    found = None
    for part in parts:
        for name in names:
            value = getattr(part, name, None)
            found = value if value is not None else found
    return found


def _rate(samples: int | None, seconds: float | None) -> float | None:
    return samples / seconds if samples and seconds else None
