"""Compute the numbers of one run from its log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

from parsers.fields import whole
from parsers.formats.declared.json_lines import TORCHTITAN_METRICS
from parsers.formats.declared.torchtitan import TORCHTITAN
from parsers.formats.table import CONFIGURATION_FORMATS, SPEED_FORMATS
from parsers.records import LossReport, Outcome, OutcomeKind, RunTotals, Step, Throughput, Usage
from parsers.runs.run import LogRun
from parsers.steps.blocks import Records, step_column
from parsers.steps.merge import merge_totals
from parsers.steps.seconds import StepSeconds
from parsers.steps.units import with_units
from parsers.summary.launches import (
    NOTHING_CONFIGURED,
    Configured,
    LaunchReports,
    RunReports,
    run_reports,
)
from parsers.summary.rates import (
    computed_batch,
    engine_samples_per_second,
    known_values,
    mean_rate,
    rate_of_loss_reports,
    rate_of_samples,
    tokens_per_sample,
)
from parsers.summary.warmup import Warmup

_MIB_PER_GIB = 1024
_AXES = ("data", "tensor", "pipeline", "context")
EQUAL_BATCHES = frozenset({TORCHTITAN.name, TORCHTITAN_METRICS.name})
"""Names of the formats of torchtitan, whose iterations all have the same number of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStep:
    """A step report, and the number of its launch in the run, from 0.

    step_seconds: the reported time of a step, or the time computed from other values of the log.
    counted: whether the run's numbers use the report.
    """

    launch: int
    step: Step
    step_seconds: float | None
    counted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The numbers that the program itself prints for the whole run, warm-up included.

    train_seconds: how long the training took.
    step_seconds: the mean step time.
    samples_per_second, tokens_per_second: over all GPUs.
    tflops_per_gpu: what the program claims.
    """

    train_seconds: float | None
    step_seconds: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    tflops_per_gpu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTotal:
    """A line about a whole launch.

    totals: its numbers. Those of Hugging Face's Trainer have the number of iterations if it is
        certain, and have no rates if these are wrong.
    resumed_from: the iteration of the checkpoint from which the launch continued, if known.
    settings: the run's settings that have the same value on all lines. A program that runs out of
        memory may start again with another batch.
    """

    totals: RunTotals
    resumed_from: int | None
    settings: Mapping[str, str]

    @property
    def is_sound(self) -> bool:
        """False if the rates count iterations before the checkpoint, as the Trainer does."""
        return self.resumed_from is None or self.totals.steps_per_second is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The numbers of one run; absent values are None.

    path, run: its log, and the number of the run in it, from 0.
    formats: names of the formats of its reports; formats that report speed come first. Formats of
        the configuration are left out.
    launches: every step report, by launch. Below, "counting reports" are the step reports that the
        numbers use.
    warmup_source: where the warm-up comes from, e.g. `campaign gpt`; None if the caller of
        `summarise` does not state it.
    dropped, skipped, covered: how many step reports are left out: as warm-up, because of a skipped
        update, and because they are means over iterations that other reports cover.
    steady: False if the step times never settled.
    step_seconds: statistics of the counting reports. Without step times, only the mean of the whole
        run, from the program's numbers about it.
    step_times_from: the field of the step reports from which the step times are computed, e.g.
        `samples_per_second`; `step_seconds` if the reports contain the times. None if no report
        has a step time.
    result: the program's own numbers for the whole run.
    launch_totals: the lines about a whole launch. `result` contains the last ones, unchecked.
    last_iteration: the number of the last iteration, according to the last launch's last step
        report and to the result of the run. The program may count from 0. If its reports have no
        number, it is the number of reports.
    memory_reports: how many memory reports the training programs printed.
    loss_reports: how many reports contain a loss, but not the number of their iteration.
    peak_memory_gib: the highest peak of allocated memory that a program reports, or else of
        reserved memory. If no program reports a peak, the highest use since the first step
        report, e.g. in nvidia-smi's samples.
    samples_per_second: of the counting reports, over all GPUs. If they have no rate, the
        program's own rate for the whole run, or for the run so far.
    tokens_per_second: the mean rate in the counting reports, over all GPUs. If they have
        none, samples_per_second times the sequence length, or else the program's own rate.
    tokens_per_second_per_gpu: of the counting reports, or else of reports without an iteration.
    reported_tflops_per_gpu, reported_mfu: means over the counting reports, as printed. If
        these reports have no TFLOPs, the program's own number for the whole run.
    engine_samples_per_second: the rate of single engines, i.e. of DeepSpeed's trainers of one model
        each. None if no other report covers whole iterations.
    global_batch_size, world_size, parameters: the set-up, as the caller or the log states it. The
        batch may also be computed from reports with seconds and samples per second.
    batch_by_rates: whether global_batch_size was computed from seconds and samples per second.
    batch_changes: whether the counting reports have several global batch sizes.
    device, precision: the hardware and number format of the model's computation, as reported.
    rates_only: True if the counting reports have samples per second, but no step times; the global
        batch would give the step times.
    rates_without_unit: whether the reports contain rates in samples or tokens per second. The
        global batch would show which.
    config: the configuration in the log, as text.
    lines, not_understood: how many lines gave records, and how many looked like reports but could
        not be parsed.
    """

    path: str
    run: int
    formats: tuple[str, ...]
    launches: tuple[LaunchReports, ...]
    warmup: Warmup
    warmup_source: str | None
    dropped: int
    skipped: int
    covered: int
    steady: bool
    step_seconds: StepSeconds
    step_times_from: str | None
    result: RunResult
    launch_totals: tuple[LaunchTotal, ...]
    last_iteration: int | None
    samples_per_second: float | None
    tokens_per_second: float | None
    tokens_per_second_per_gpu: float | None
    reported_tflops_per_gpu: float | None
    reported_mfu: float | None
    engine_samples_per_second: float | None
    global_batch_size: int | None
    batch_by_rates: bool
    batch_changes: bool
    world_size: int | None
    parameters: int | None
    device: str | None
    precision: str | None
    rates_only: bool
    rates_without_unit: bool
    memory_reports: int
    loss_reports: int
    peak_memory_gib: float | None
    config: dict[str, str]
    outcome: Outcome
    lines: int
    not_understood: int
    notes: tuple[str, ...]

    @property
    def reports(self) -> int:
        """The number of step reports."""
        return sum(len(launch.steps) for launch in self.launches)

    @property
    def reported(self) -> Iterator[ReportedStep]:
        """The step reports of the run, each with its launch and whether it counts."""
        for number, launch in enumerate(self.launches):
            rows = zip(launch.steps.steps(), launch.step_seconds, launch.counted, strict=True)
            for step, seconds, counted in rows:
                yield ReportedStep(launch=number, step=step, step_seconds=seconds, counted=counted)

    @property
    def peak_memory_mib(self) -> float | None:
        """The peak memory in MiB."""
        return None if self.peak_memory_gib is None else self.peak_memory_gib * _MIB_PER_GIB

    @property
    def says_nothing(self) -> bool:
        """Whether the log contains no report of a run, and the outcome is unknown."""
        return not self.formats and self.outcome.kind is OutcomeKind.UNKNOWN


def summarise(
    run: LogRun,
    warmup: Warmup,
    *,
    keep_skipped: bool = False,
    configured: Configured = NOTHING_CONFIGURED,
    warmup_source: str | None = None,
) -> RunSummary:
    """Return the numbers of a run, without the warm-up of each of its launches.

    An iteration whose gradients overflowed skips its update and does less work than other
    iterations. A report that includes such an iteration is used only with `keep_skipped`.
    configured: values that the caller knows; those that are None are taken from the log.
    """
    config = run.config
    stated_batch = configured.global_batch_size or whole(config.get("global_batch_size"))
    run = _with_units(run, stated_batch)
    totals = run.totals
    batch = stated_batch or computed_batch(run)
    world_size = _world_size(totals, config)
    tokens_per_gpu = _tokens_per_gpu(
        run,
        batch,
        whole(config.get("seq_length")) or configured.seq_length,
        world_size or configured.world_size,
    )
    reports = run_reports(
        run,
        warmup,
        Configured(configured.train_iters or whole(config.get("train_iters")), batch),
        tokens_per_gpu=tokens_per_gpu,
        keep_skipped=keep_skipped,
    )
    result = RunResult(**{field.name: _total(totals, field.name) for field in fields(RunResult)})
    launches = tuple(_launch_totals(run, reports))
    samples = (
        rate_of_samples(reports, batch)
        or _total([launch.totals for launch in launches if launch.is_sound], "samples_per_second")
        or _last(reports.every("running_samples_per_second"))
    )
    statistics = reports.statistics((launch.totals for launch in launches), batch)
    last_batch = _last_stated(reports.column("global_batch_size"))
    return RunSummary(
        path=run.path,
        run=run.index,
        formats=_formats(run),
        launches=reports.launches,
        warmup=warmup,
        warmup_source=warmup_source,
        dropped=reports.dropped,
        skipped=reports.skipped,
        covered=reports.covered,
        steady=reports.steady,
        step_seconds=statistics,
        step_times_from=reports.times_from,
        result=result,
        launch_totals=launches,
        last_iteration=reports.last_iteration(totals),
        samples_per_second=samples,
        tokens_per_second=mean_rate(reports, "tokens_per_second")
        or _product(samples, tokens_per_sample(reports) or whole(config.get("seq_length")))
        or result.tokens_per_second,
        tokens_per_second_per_gpu=mean_rate(reports, "tokens_per_second_per_gpu")
        or rate_of_loss_reports(run),
        reported_mfu=mean_rate(reports, "reported_mfu"),
        reported_tflops_per_gpu=mean_rate(reports, "reported_tflops_per_gpu")
        or result.tflops_per_gpu,
        engine_samples_per_second=engine_samples_per_second(run),
        global_batch_size=last_batch or batch,
        batch_by_rates=not (last_batch or stated_batch) and batch is not None,
        batch_changes=len({*filter(None, reports.column("global_batch_size"))}) > 1,
        world_size=world_size,
        parameters=whole(config.get("parameters")) or _set_up(totals, "parameters"),
        device=_set_up(totals, "device"),
        precision=_set_up(totals, "precision"),
        rates_only=not statistics.n and mean_rate(reports, "samples_per_second") is not None,
        rates_without_unit=_has_rates_without_unit(run),
        memory_reports=len(run.memory_reports),
        loss_reports=sum(isinstance(report, LossReport) for report in run.reports),
        peak_memory_gib=_peak_gib(run),
        config=config,
        outcome=run.outcome or Outcome(kind=OutcomeKind.UNKNOWN),
        lines=run.lines,
        not_understood=sum(count for _, count in run.not_understood),
        notes=run.notes,
    )


def _with_units(run: LogRun, batch: int | None) -> LogRun:
    """Return a run with the units of its rates, which the global batch size shows."""
    if not _has_rates_without_unit(run):
        return run
    segments = (
        replace(segment, records=Records(with_units(segment.records.parts, batch)))
        for segment in run.segments
    )
    return replace(run, segments=tuple(segments))


def _has_rates_without_unit(run: LogRun) -> bool:
    return any(isinstance(report, Throughput) for report in run.reports)


def _tokens_per_gpu(
    run: LogRun, batch: int | None, length: int | None, world_size: int | None
) -> float | None:
    """Return the tokens of an iteration by torchtitan, divided by the number of GPUs.

    All its iterations have the same tokens: a global batch of sequences of the same length. Returns
    None for other programs, and if a value is unknown.
    """
    if batch and length and world_size and not EQUAL_BATCHES.isdisjoint(run.formats):
        return batch * length / world_size
    return None


def _formats(run: LogRun) -> tuple[str, ...]:
    reports = [name for name in run.formats if name not in CONFIGURATION_FORMATS]
    of_speed = [name for name in SPEED_FORMATS if name in reports]
    return (*of_speed, *(name for name in reports if name not in of_speed))


def _world_size(totals: Sequence[RunTotals], config: Mapping[str, str]) -> int | None:
    """Return the number of ranks: as the log states it, or nodes times GPUs per node.

    If neither is known, return the product of the parallel sizes. This product needs the
    data-parallel size; other parallel sizes are 1 if the log lacks them. For nanochat, return the
    tokens of a micro-batch divided by those of a rank.
    """
    of_rank, of_all = (
        whole(config.get(name)) for name in ("micro_batch_rank_tokens", "micro_batch_tokens")
    )
    nodes, gpus = (whole(config.get(name)) for name in ("nodes", "gpus_per_node"))
    layout = [whole(config.get(f"{axis}_parallel_size")) for axis in _AXES]
    return (
        whole(config.get("world_size"))
        or _set_up(totals, "world_size")
        or (nodes * gpus if nodes and gpus else None)
        or (prod(size or 1 for size in layout) if layout[0] else None)
        or (of_all // of_rank if of_rank and of_all and not of_all % of_rank else None)
    )


def _set_up(totals: Sequence[RunTotals], name: str) -> Any:
    """Return the last value of the field `name` in the run's totals; None if no total has one."""
    return _last_stated(getattr(total, name) for total in totals)


def _total(totals: Sequence[RunTotals], name: str) -> float | None:
    """Return the last value of the field `name` that the program reports for the whole run.

    Totals of a single GPU (`per_gpu`), or of a part of the work, are left out.
    """
    whole = (total for total in totals if not total.per_gpu and total.phase in {None, "overall"})
    return _last(getattr(total, name) for total in whole)


def _launch_totals(run: LogRun, reports: RunReports) -> Iterator[LaunchTotal]:
    values: dict[str, set[str]] = {}
    for segment in run.segments:
        for setting in segment.records.settings:
            values.setdefault(setting.name, set()).add(setting.value)
    settings = {name: text for name, (text, *others) in values.items() if not others}
    planned = whole(settings.get("train_iters"))
    for segment, launch in zip(run.segments, reports.launches, strict=True):
        for totals in merge_totals(segment.records):
            yield LaunchTotal(
                totals=launch.with_iterations(totals, planned, segment.resumed_from),
                resumed_from=segment.resumed_from,
                settings=settings,
            )


def _peak_gib(run: LogRun) -> float | None:
    parts = run.reports
    reports = [report for report in parts if isinstance(report, Usage | RunTotals)]
    losses = [report for report in parts if isinstance(report, LossReport)]
    peaks = known_values(step_column(parts, "max_memory_allocated_gib"))
    peaks += known_values(report.max_memory_allocated_gib for report in (*reports, *losses))
    peaks = peaks or [
        *known_values(step_column(parts, "max_memory_reserved_gib")),
        *known_values(report.max_memory_reserved_gib for report in losses),
    ]
    if peaks:
        return max(peaks)
    # If a job script runs nvidia-smi before the training, its output is not a peak of the training.
    begin = min(step_column(parts, "offset"), default=0)
    sampled = (report for report in reports if isinstance(report, Usage) and report.offset >= begin)
    return max(known_values(usage.memory_allocated_gib for usage in sampled), default=None) or None


def _last(values: Iterable[float | None]) -> float | None:
    return next(reversed(known_values(values)), None)


def _last_stated(values: Iterable[Any]) -> Any:
    return next((value for value in reversed([*values]) if value), None)


def _product(rate: float | None, count: float | None) -> float | None:
    return None if rate is None or count is None else rate * count
