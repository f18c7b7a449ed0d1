"""Choose the step reports of a run that its numbers use: those after the warm-up of each launch."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise
from math import isclose
from operator import or_
from statistics import fmean
from typing import Any

from parsers.records import RunTotals, Step
from parsers.runs.run import LogRun
from parsers.steps.blocks import StepBlock
from parsers.steps.seconds import (
    StepSeconds,
    overflowed_updates,
    skipped_updates,
    step_seconds,
)
from parsers.summary.times import times_of_reports
from parsers.summary.warmup import Warmup

# The Trainer prints losses with four decimals.
_SAME_LOSS, _LOSS_ROUNDING = 0.02, 0.5e-4
# The last batch of an epoch may have fewer samples.
_PARTIAL_BATCHES = 0.1


@dataclass(frozen=True, slots=True)
class Configured:
    """Values that the caller knows from the configuration of a run; unknown values are None.

    seq_length, world_size: used if the log does not contain them.
    """

    train_iters: int | None = None
    global_batch_size: int | None = None
    seq_length: int | None = None
    world_size: int | None = None


NOTHING_CONFIGURED = Configured()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReports:
    """The step reports of a launch as columns, and which of them the run's numbers use.

    step_seconds: the time of each report: as reported, or else the global batch divided by the
    samples per second. If no report has such a time, it is the tokens of an iteration divided by
    the tokens per second, or the time since the previous report. Without these, it is the tokens
    divided by the tokens per second of one GPU, or it is computed from the times since the start.
    times_from: the field of the reports that these times are from, e.g. `tokens_per_second`.
    skips: for each report, whether it includes a skipped update.
    counted: for each report, whether the run's numbers use it.
    last_warmup: the last iteration of the warm-up.
    dropped: the number of reports left out as warm-up.
    skipped: the number of reports after the warm-up that are left out because of a skipped update.
    covered: the number of reports after the warm-up that are left out because they are means over
        iterations that other reports cover.
    steady: whether the step times have settled.
    """

    steps: StepBlock
    step_seconds: Sequence[float | None]
    times_from: str | None
    skips: Sequence[bool]
    counted: Sequence[bool]
    last_warmup: int
    dropped: int
    skipped: int
    covered: int
    steady: bool

    def column(self, name: str) -> Iterator[Any]:
        """Yield the field `name` of each report from which the run's numbers are computed."""
        values = self.step_seconds if name == "step_seconds" else self.steps.column(name)
        return compress(values, self.counted)

    def with_iterations(
        self, total: RunTotals, planned: int | None, resumed_from: int | None
    ) -> RunTotals:
        """Return a result of Hugging Face's Trainer with its iterations, if they are certain.

        The Trainer prints the seconds of this launch, and divides all planned iterations by them,
        even if the launch continued from a checkpoint or stopped early. Its mean loss is the sum of
        this launch's losses, divided by the last iteration. So if it is the mean of all reported
        losses, no iteration is of an earlier launch. If the launch did not do all planned
        iterations, or may not have done them, the result is returned without its rates. It keeps
        its last iteration only if its iterations are certain.

        planned: the number of iterations of the training. resumed_from: the iteration of the
        checkpoint from which the launch continued. Both are None if they are unknown.
        """
        planned = planned or self._planned
        end = total.last_iteration or planned
        if total.iterations or not end or not total.steps_per_second:
            return total
        begin = resumed_from or 0
        ends, losses = self.steps.column("iteration"), self.steps.column("loss")
        sizes = [after - before for before, after in pairwise((begin, *ends))]
        is_known = end > begin and (
            not sizes or (min(sizes) > 0 and 0 <= end - ends[-1] < max(sizes))
        )
        if is_known and sizes and total.mean_loss and not begin and None not in losses:
            # The iterations after the last report have about the same loss.
            mean_loss = fmean((*losses, losses[-1]), (*sizes, end - ends[-1]))
            is_known = isclose(
                mean_loss, total.mean_loss, rel_tol=_SAME_LOSS, abs_tol=_LOSS_ROUNDING
            )
        if not is_known or end != planned:
            total = replace(total, samples_per_second=None, steps_per_second=None)
        if not is_known:
            return replace(total, last_iteration=None)
        return replace(total, iterations=end - begin)

    @property
    def _planned(self) -> int | None:
        """The number of iterations of the training, if all reports with a number agree."""
        numbers = {*filter(None, self.steps.column("iterations"))}
        return numbers.pop() if len(numbers) == 1 else None


@dataclass(frozen=True, slots=True)
class RunReports:
    """The step reports of a run, launch by launch."""

    launches: tuple[LaunchReports, ...] = ()

    def __len__(self) -> int:
        """Return the number of reports, including those of the warm-up."""
        return sum(len(launch.steps) for launch in self.launches)

    def column(self, name: str) -> Iterator[Any]:
        """Yield the field `name` of each report from which the run's numbers are computed."""
        return chain.from_iterable(launch.column(name) for launch in self.launches)

    def every(self, name: str) -> Iterator[Any]:
        """Yield the field `name` of each report, including the reports of the warm-up."""
        return chain.from_iterable(launch.steps.column(name) for launch in self.launches)

    @property
    def steps(self) -> list[Step]:
        """All reports, including those of the warm-up."""
        return [step for launch in self.launches for step in launch.steps.steps()]

    def has(self, name: str) -> bool:
        """Return whether a report has the field `name`; the field may be of the warm-up."""
        return any(name in launch.steps.columns for launch in self.launches)

    @property
    def seconds(self) -> list[float]:
        """The step times of the reports that the run's numbers use."""
        return [time for time in self.column("step_seconds") if time is not None]

    @property
    def times_from(self) -> str | None:
        """The field of the reports that the step times are from; None without step times."""
        return next(filter(None, (launch.times_from for launch in self.launches)), None)

    @property
    def dropped(self) -> int:
        """How many reports are left out as warm-up."""
        return sum(launch.dropped for launch in self.launches)

    @property
    def skipped(self) -> int:
        """How many reports after the warm-up are left out because of a skipped update."""
        return sum(launch.skipped for launch in self.launches)

    @property
    def covered(self) -> int:
        """How many means after the warm-up are left out because other reports cover the same."""
        return sum(launch.covered for launch in self.launches)

    @property
    def overflowed(self) -> bool:
        """Whether all reports after the warm-up are left out because of skipped updates."""
        return bool(self.skipped) and not any(any(launch.counted) for launch in self.launches)

    @property
    def steady(self) -> bool:
        """Whether the step times of every launch have settled."""
        return all(launch.steady for launch in self.launches)

    @property
    def iterations_told(self) -> int | None:
        """The number of iterations of the run, according to the last report that contains it."""
        return _last_known(self.every("iterations"))

    def last_iteration(self, totals: Iterable[RunTotals]) -> int | None:
        """Return the number of the last iteration; None if no report and no result contains it.

        The result of a run may be about a later iteration than the last step report.
        """
        numbers = [total.last_iteration for total in totals if total.last_iteration is not None]
        launch = next((launch for launch in reversed(self.launches) if len(launch.steps)), None)
        if launch:
            numbers.append(launch.steps.columns["iteration"][-1])
        return max(numbers, default=None)

    def statistics(self, totals: Iterable[RunTotals], batch: int | None) -> StepSeconds:
        """Return the statistics of the step times that the run's numbers use.

        If no report has a step time, all statistics except the mean are absent. The mean is then
        that of the whole run, warm-up included, from `totals`: `batch` divided by the samples per
        second, i.e. the time of a whole batch, or the seconds divided by the iterations. If both
        are known and differ by more than 10 %, it is the latter. If a program prints results while
        it trains, these seconds and iterations may be those from the first result to the last one.
        """
        if seconds := self.seconds:
            return StepSeconds.of(seconds)
        whole = [total for total in totals if total.phase is None and not total.per_gpu]
        rate = next(filter(None, (total.samples_per_second for total in whole)), None)
        mean, of_batch = _mean_between(whole), step_seconds(None, batch, rate)
        if mean and of_batch and not isclose(mean, of_batch, rel_tol=_PARTIAL_BATCHES):
            of_batch = None  # e.g. samples are prompts
        return StepSeconds(mean=of_batch or mean)


def run_reports(
    run: LogRun,
    warmup: Warmup,
    configured: Configured,
    *,
    tokens_per_gpu: float | None = None,
    keep_skipped: bool = False,
) -> RunReports:
    """Return the step reports of a run, and which of them its numbers use.

    Reports of the warm-up of each launch are not used, and neither are means over iterations that
    other reports cover. Reports that include a skipped update are used only with `keep_skipped`.
    tokens_per_gpu: the tokens of each iteration, divided by the number of GPUs. Leave it out if
    iterations differ in their tokens.
    """
    return RunReports(
        tuple(
            launch_reports(
                segment.step_columns,
                warmup,
                configured,
                resumed_from=segment.resumed_from,
                overflows=[step.offset for step in segment.skipped_steps],
                tokens_per_gpu=tokens_per_gpu,
                keep_skipped=keep_skipped,
            )
            for segment in run.segments
        )
    )


def launch_reports(
    steps: StepBlock,
    warmup: Warmup,
    configured: Configured,
    *,
    resumed_from: int | None = None,
    overflows: Sequence[int] = (),
    tokens_per_gpu: float | None = None,
    keep_skipped: bool = False,
) -> LaunchReports:
    """Return the step reports of a launch, and which of them the run's numbers use.

    resumed_from: the iteration of the checkpoint from which the launch continued, if known.
    overflows: the offsets of lines about skipped updates that contain no iteration. They are used
    if no report contains the number of skipped updates.
    tokens_per_gpu: see `run_reports`.
    keep_skipped: whether the numbers use reports that include a skipped update.
    """
    iterations = steps.column("iteration")
    seconds, times_from = times_of_reports(steps, configured.global_batch_size, tokens_per_gpu)
    so_far, since = steps.column("skipped"), steps.column("skipped_iterations")
    if overflows and not any(count is not None for count in (*so_far, *since)):
        skips = overflowed_updates(iterations, steps.column("offset"), overflows)
    else:
        skips = skipped_updates(iterations, so_far, since)
    covered = [*map(bool, steps.column("covered"))]
    left_out = covered if keep_skipped else [*map(or_, skips, covered)]
    end = warmup.end(
        iterations,
        [None if without else time for time, without in zip(seconds, left_out, strict=True)],
        train_iters=configured.train_iters or _last_known(steps.column("iterations")),
        resumed_from=resumed_from or 0,
    )
    dropped = bisect_right(iterations, end.iteration)
    return LaunchReports(
        steps=steps,
        step_seconds=seconds,
        times_from=times_from,
        skips=skips,
        counted=[False] * dropped + [not without for without in left_out[dropped:]],
        last_warmup=end.iteration,
        dropped=dropped,
        skipped=sum(left_out[dropped:]) - sum(covered[dropped:]),
        covered=sum(covered[dropped:]),
        steady=end.steady,
    )


def _last_known(values: Iterable[int | None]) -> int | None:
    return next((value for value in reversed([*values]) if value is not None), None)


def _mean_between(totals: Iterable[RunTotals]) -> float | None:
    """Return the mean seconds per iteration, from the start or the first result to the last one.

    Results before the last launch are left out, i.e. those before one that is not later than the
    previous one. Returns None if the number of iterations is not known.
    """
    timed = [
        (total.iterations, at, seconds)
        for total in totals
        if (at := total.last_iteration or total.iterations) and (seconds := total.train_seconds)
    ]
    if not timed:
        return None
    *earlier, (iterations, end, end_seconds) = timed
    if iterations:
        return end_seconds / iterations
    begin, begin_seconds = end, end_seconds
    for iterations, at, seconds in reversed(earlier):
        if at >= begin or seconds >= begin_seconds:
            break
        begin, begin_seconds = (0, 0.0) if iterations == at else (at, seconds)
    return None if begin == end else (end_seconds - begin_seconds) / (end - begin)
