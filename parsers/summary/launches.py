"""Summarize the step reports of a launch after its warm-up."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from parsers.records import RunTotals
from parsers.steps.blocks import StepBlock
from parsers.steps.seconds import StepSeconds, skipped_updates, step_seconds
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True)
class Configured:
    """What a run was configured to do; None if that is not known."""

    train_iters: int | None = None
    global_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReports:
    """The step reports of a launch as columns, and which of them count.

    step_seconds, skips, counted: one per report: its time, as reported or the global batch over the
    samples per second; whether it holds a skipped update; whether the numbers are made of it.
    last_warmup: the last iteration of the warm-up. dropped, skipped: how many reports are left out
    as warm-up, and for a skipped update after it. steady: the step times have settled.
    """

    steps: StepBlock
    step_seconds: Sequence[float | None]
    skips: Sequence[bool]
    counted: Sequence[bool]
    last_warmup: int
    dropped: int
    skipped: int
    steady: bool

    def column(self, name: str) -> Iterator[Any]:
        """Yield a field of the reports that count."""
        values = self.step_seconds if name == "step_seconds" else self.steps.column(name)
        return compress(values, self.counted)

    @property
    def iterations_told(self) -> int | None:
        """How many iterations the run is to do, by its last report of that."""
        return _iterations_told(self.steps)

    @property
    def seconds(self) -> list[float]:
        """The step times that count."""
        return [time for time in self.column("step_seconds") if time is not None]

    @property
    def overflowed(self) -> bool:
        """Whether every report after the warm-up is left out for a skipped update."""
        return bool(self.skipped) and not any(self.counted)


def launch_reports(
    steps: StepBlock,
    warmup: Warmup,
    configured: Configured,
    *,
    resumed_from: int | None = None,
    keep_skipped: bool = False,
) -> LaunchReports:
    """Return which of a launch's reports count.

    resumed_from: the iteration of the checkpoint that it went on from, if that is known.
    """
    iterations = steps.column("iteration")
    seconds = _step_seconds(steps, configured.global_batch_size)
    skips = skipped_updates(steps.column("skipped"), steps.column("skipped_iterations"))
    left_out = [False] * len(steps) if keep_skipped else skips
    end = warmup.end(
        iterations,
        [None if skip else time for time, skip in zip(seconds, left_out, strict=True)],
        train_iters=configured.train_iters or _iterations_told(steps),
        resumed_from=resumed_from or 0,
    )
    dropped = bisect_right(iterations, end.iteration)
    return LaunchReports(
        steps=steps,
        step_seconds=seconds,
        skips=skips,
        counted=[False] * dropped + [not skip for skip in left_out[dropped:]],
        last_warmup=end.iteration,
        dropped=dropped,
        skipped=sum(left_out[dropped:]),
        steady=end.steady,
    )


def step_statistics(
    launches: Iterable[LaunchReports], totals: Iterable[RunTotals], batch: int | None
) -> StepSeconds:
    """Return the statistics of the step times that count, in all launches of a run.

    If there is none, only the mean is known: that of the whole run, warm-up included, by the
    program's own samples per second.
    """
    seconds = [time for launch in launches for time in launch.seconds]
    if seconds:
        return StepSeconds.of(seconds)
    rates = (one.samples_per_second for one in totals if one.phase is None and not one.per_gpu)
    return StepSeconds(mean=step_seconds(None, batch, next(filter(None, rates), None)))


def _iterations_told(steps: StepBlock) -> int | None:
    """Return how many iterations a run is to do, by its last report of that."""
    return next((one for one in reversed(steps.column("iterations")) if one is not None), None)


def _step_seconds(steps: StepBlock, batch: int | None) -> list[float | None]:
    rows = zip(
        steps.column("step_seconds"),
        steps.column("global_batch_size"),
        steps.column("samples_per_second"),
        strict=True,
    )
    return [step_seconds(reported, size or batch, rate) for reported, size, rate in rows]
