"""The numbers of one run, from what its log tells."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from parsers.fields import whole
from parsers.formats import CONFIGURATION_FORMATS, SPEED_FORMATS
from parsers.records import Outcome, OutcomeKind, RunTotals, Step, Usage
from parsers.runs import LogRun
from parsers.warmup import WarmupPolicy

_MIB_PER_GIB = 1024
# What is larger, or closer to zero, is mangled, and could not be added up or divided by.
_MAGNITUDE = 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """Statistics of n step times, in seconds; `std` is that of a sample. What n forbids is None."""

    n: int = 0
    mean: float | None = None
    median: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    first: float | None = None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "StepSeconds":
        """Return the statistics of step times, in the order of the log."""
        if not seconds:
            return cls()
        return cls(
            n=len(seconds),
            mean=_mean(seconds),
            median=statistics.median(seconds),
            std=statistics.stdev(seconds) if len(seconds) > 1 else None,
            min=min(seconds),
            max=max(seconds),
            first=seconds[0],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStep:
    """A step report of a run's launch, the first of which is 0.

    step_seconds: as reported, or the global batch over the samples per second.
    counted: it is one of those that the numbers are made of.
    """

    launch: int
    step: Step
    step_seconds: float | None
    counted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The numbers of one run; absent is None.

    path, run: its log, and the how manieth run of it, from 0.
    formats: what its reports are, those of speed first; those of its configuration not at all.
    reported: every step report. dropped, skipped: how many of them are left out, as warm-up and
        since their update was skipped. steady: False where the step times never settled.
    memory_reports: how many training programs printed. peak_memory_gib: the highest that they
        say was allocated; where they say nothing, the highest use of a device that nvidia-smi saw.
    samples_per_second, tokens_per_second: of the reports that count, over all GPUs; else the
        program's own figure for the whole run, or for all of it so far.
    reported_tflops_per_gpu: likewise, what the program claims.
    config: the configuration that the log tells, as text.
    lines, not_understood: how many lines gave records, and how many only looked as if they would.
    """

    path: str
    run: int
    formats: tuple[str, ...]
    reported: tuple[ReportedStep, ...]
    policy: WarmupPolicy
    dropped: int
    skipped: int
    steady: bool
    step_seconds: StepSeconds
    samples_per_second: float | None
    tokens_per_second: float | None
    reported_tflops_per_gpu: float | None
    memory_reports: int
    peak_memory_gib: float | None
    config: dict[str, str]
    outcome: Outcome
    lines: int
    not_understood: int
    notes: tuple[str, ...]

    @property
    def peak_memory_mib(self) -> float | None:
        """The peak in MiB."""
        return None if self.peak_memory_gib is None else self.peak_memory_gib * _MIB_PER_GIB

    @property
    def says_nothing(self) -> bool:
        """Whether nothing in the log is of a run."""
        return not self.formats and self.outcome.kind is OutcomeKind.UNKNOWN


def summarise(run: LogRun, policy: WarmupPolicy, *, keep_skipped: bool = False) -> RunSummary:
    """Return the numbers of a run, without the warm-up of each of its launches.

    An iteration whose update was skipped, for its gradients overflowed, does less work than
    another; a report that holds one counts only with `keep_skipped`.
    """
    config = run.config
    batch = whole(config.get("global_batch_size"))
    launches = [
        _launch(number, segment.steps, batch, policy, keep_skipped=keep_skipped)
        for number, segment in enumerate(run.segments)
    ]
    reported = tuple(one for launch in launches for one in launch.reported)
    counted = [one for one in reported if one.counted]
    samples = (
        _samples_per_second(counted, batch)
        or _total(run, "samples_per_second")
        or _last(one.step.running_samples_per_second for one in reported)
    )
    return RunSummary(
        path=run.path,
        run=run.index,
        formats=_formats(run),
        reported=reported,
        policy=policy,
        dropped=sum(launch.dropped for launch in launches),
        skipped=sum(launch.skipped for launch in launches),
        steady=all(launch.steady for launch in launches),
        step_seconds=StepSeconds.of(_known(one.step_seconds for one in counted)),
        samples_per_second=samples,
        tokens_per_second=_mean(one.step.tokens_per_second for one in counted)
        or _product(samples, _tokens_a_sample(counted) or whole(config.get("seq_length")))
        or _total(run, "tokens_per_second"),
        reported_tflops_per_gpu=_mean(one.step.reported_tflops_per_gpu for one in counted)
        or _total(run, "tflops_per_gpu"),
        memory_reports=len(run.memory_reports),
        peak_memory_gib=_peak_gib(run),
        config=config,
        outcome=run.outcome or Outcome(kind=OutcomeKind.UNKNOWN),
        lines=run.lines,
        not_understood=sum(count for _, count in run.not_understood),
        notes=run.notes,
    )


def _formats(run: LogRun) -> tuple[str, ...]:
    reports = [name for name in run.formats if name not in CONFIGURATION_FORMATS]
    of_speed = [name for name in SPEED_FORMATS if name in reports]
    return (*of_speed, *(name for name in reports if name not in of_speed))


def step_seconds(step: Step, global_batch_size: int | None) -> float | None:
    """Return the seconds of a step: reported, else the global batch over samples per second."""
    seconds, batch = step.step_seconds, step.global_batch_size or global_batch_size
    if seconds is None and batch and step.samples_per_second:
        seconds = batch / step.samples_per_second
    return seconds if seconds is not None and seconds >= 0 and _is_sound(seconds) else None


@dataclass(frozen=True, slots=True)
class _Launch:
    """The reports of a launch, and how many are left out for which reason."""

    reported: list[ReportedStep]
    dropped: int
    skipped: int
    steady: bool


def _launch(
    number: int,
    steps: Sequence[Step],
    batch: int | None,
    policy: WarmupPolicy,
    *,
    keep_skipped: bool,
) -> _Launch:
    seconds = [step_seconds(step, batch) for step in steps]
    skips = [not keep_skipped and skip for skip in _skips(steps)]
    truncation = policy.truncation(
        [None if skip else time for time, skip in zip(seconds, skips, strict=True)]
    )
    dropped = truncation.reports
    reported = [
        ReportedStep(
            launch=number, step=step, step_seconds=time, counted=at >= dropped and not skips[at]
        )
        for at, (step, time) in enumerate(zip(steps, seconds, strict=True))
    ]
    return _Launch(reported, dropped, sum(skips[dropped:]), truncation.steady)


def _skips(steps: Sequence[Step]) -> Iterator[bool]:
    """Yield for each report whether it holds an iteration whose update was skipped."""
    before = 0
    for step in steps:
        so_far = before if step.skipped is None else step.skipped
        yield bool(step.skipped_iterations) or so_far > before
        before = so_far


def _samples_per_second(counted: Sequence[ReportedStep], batch: int | None) -> float | None:
    """Return samples over seconds of all reports that count, else the mean of those reported.

    What a program reports may be wrong, or the mean of all that came before; the batch is not.
    """
    sized = [
        (one.step.global_batch_size or batch, one.step_seconds)
        for one in counted
        if (one.step.global_batch_size or batch) and one.step_seconds
    ]
    if not sized:
        return _mean(one.step.samples_per_second for one in counted)
    return sum(size or 0 for size, _ in sized) / sum(seconds or 0 for _, seconds in sized)


def _tokens_a_sample(counted: Sequence[ReportedStep]) -> float | None:
    """Return how long sequences were between the first report that counts and the last one."""
    told = [
        (one.step.consumed_tokens, one.step.consumed_samples)
        for one in (*counted[:1], *counted[-1:])
    ]
    match told:
        case [(int(tokens_before), int(samples_before)), (int(tokens), int(samples))]:
            if tokens > tokens_before and samples > samples_before:
                return (tokens - tokens_before) / (samples - samples_before)
    return None


def _total(run: LogRun, name: str) -> float | None:
    """Return a rate that the run's program gives for all of it, over all GPUs; the last one."""
    whole = (one for one in run.totals if not one.per_gpu and one.phase in {None, "overall"})
    return _last(getattr(one, name) for one in whole)


def _peak_gib(run: LogRun) -> float | None:
    reports = [one for one in run.records if isinstance(one, Step | Usage | RunTotals)]
    peaks = _known(one.max_memory_allocated_gib for one in reports)
    if peaks:
        return max(peaks)
    # What a job script has nvidia-smi print before the training is no peak of it.
    begin = min((one.offset for one in reports if isinstance(one, Step)), default=0)
    sampled = (one for one in reports if isinstance(one, Usage) and one.offset >= begin)
    return max(_known(one.memory_allocated_gib for one in sampled), default=None) or None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and _is_sound(value)]


def _last(values: Iterable[float | None]) -> float | None:
    return next(reversed(_known(values)), None)


def _is_sound(value: float) -> bool:
    return value == 0 or 1 / _MAGNITUDE < abs(value) < _MAGNITUDE


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; of equal values it is that one, however it is rounded."""
    known = _known(values)
    return min(max(statistics.fmean(known), min(known)), max(known)) if known else None


def _product(rate: float | None, count: float | None) -> float | None:
    return None if rate is None or count is None else rate * count
