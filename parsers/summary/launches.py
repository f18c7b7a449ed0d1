"""Choose the step reports of a run that its numbers use: those after the warm-up of each launch."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise, repeat
from math import isclose
from operator import or_
from statistics import fmean, multimode
from typing import Any

from parsers.records import RunTotals, Step
from parsers.runs.run import LogRun
from parsers.steps.blocks import StepBlock
from parsers.steps.seconds import (
    StepSeconds,
    is_sound,
    overflowed_updates,
    skipped_updates,
    step_seconds,
)
from parsers.summary.warmup import Warmup

# Whole seconds are wrong by up to 1 s, i.e. by 5 % of this time.
_LEAST_SECONDS = 20.0
# The Trainer prints losses with four decimals.
_SAME_LOSS, _LOSS_ROUNDING = 0.02, 0.5e-4
_SAME_TOKENS = 0.01
# The last batch of an epoch may have fewer samples.
_PARTIAL_BATCHES = 0.1


@dataclass(frozen=True, slots=True)
class Configured:
    """Values that the caller knows from the configuration of a run; unknown values are None.

    seq_length, world_size: used if the log does not contain them.
    tokens_per_gpu: the tokens of an iteration, divided by the number of GPUs. Leave it out if
    iterations differ in their tokens.
    """

    train_iters: int | None = None
    global_batch_size: int | None = None
    seq_length: int | None = None
    world_size: int | None = None
    tokens_per_gpu: float | None = None


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
    run: LogRun, warmup: Warmup, configured: Configured, *, keep_skipped: bool = False
) -> RunReports:
    """Return the step reports of a run, and which of them its numbers use.

    Reports of the warm-up of each launch are not used, and neither are means over iterations that
    other reports cover. Reports that include a skipped update are used only with `keep_skipped`.
    """
    return RunReports(
        tuple(
            launch_reports(
                segment.step_columns,
                warmup,
                configured,
                resumed_from=segment.resumed_from,
                overflows=[step.offset for step in segment.skipped_steps],
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
    keep_skipped: bool = False,
) -> LaunchReports:
    """Return the step reports of a launch, and which of them the run's numbers use.

    resumed_from: the iteration of the checkpoint from which the launch continued, if known.
    overflows: the offsets of lines about skipped updates that contain no iteration. They are used
    if no report contains the number of skipped updates.
    keep_skipped: whether the numbers use reports that include a skipped update.
    """
    iterations = steps.column("iteration")
    seconds, times_from = _step_seconds(steps, configured)
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


def _step_seconds(
    steps: StepBlock, configured: Configured
) -> tuple[Sequence[float | None], str | None]:
    """Return the time of each report, and the field of the reports that the times are from.

    configured: the global batch size and the tokens, for reports that do not contain them.
    """
    times: Sequence[float | None]
    if not steps.columns.keys().isdisjoint(("step_seconds", "samples_per_second")):
        reported, per_second = steps.column("step_seconds"), steps.column("samples_per_second")
        sizes = (size or configured.global_batch_size for size in steps.column("global_batch_size"))
        times = [*map(step_seconds, reported, sizes, per_second)]
        if _any_known(times):
            return times, "step_seconds" if _any_known(reported) else "samples_per_second"
    if "tokens_per_second" in steps.columns:
        per_second = steps.column("tokens_per_second")
        times = [*map(step_seconds, repeat(None), steps.column("tokens"), per_second)]
        if _any_known(times):
            return times, "tokens_per_second"
    if "seconds_per_interval" in steps.columns:
        times = _of_whole_intervals(steps)
        if _any_known(times):
            return times, "seconds_per_interval"
    if configured.tokens_per_gpu and "tokens_per_second_per_gpu" in steps.columns:
        per_second = steps.column("tokens_per_second_per_gpu")
        times = [step_seconds(None, configured.tokens_per_gpu, rate) for rate in per_second]
        if _any_known(times):
            return times, "tokens_per_second_per_gpu"
    if "train_seconds" in steps.columns:
        times = _between(steps.columns["iteration"], steps.columns["train_seconds"])
        if _any_known(times):
            return times, "train_seconds"
    return [None] * len(steps), None


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


def _any_known(values: Iterable[float | None]) -> bool:
    return any(value is not None for value in values)


def _of_whole_intervals(steps: StepBlock) -> list[float | None]:
    """Return the time of each report that covers a whole log interval.

    torchtitan divides the time since its previous report by its log interval. It reports iteration
    1 and the multiples of the interval, so the first two reports of a launch may cover fewer
    iterations. The first report may also include the set-up. A validation starts the clock again,
    so the report after it may cover fewer iterations, too. Its tokens show that.
    """
    iterations = steps.columns["iteration"]
    gaps = [(after, after - before) for before, after in pairwise(iterations)]
    later = gaps[1:] if gaps and iterations[0] == 1 else gaps
    interval = max(multimode(gap for at, gap in later if at % gap == 0), default=None)
    whole = [False, *(gap == interval and at % gap == 0 for at, gap in gaps)]
    times = steps.columns["seconds_per_interval"]
    partial = _partial(steps, whole, interval) if interval else whole
    return [
        step_seconds(time or None, None, None) if is_whole and not is_partial else None
        for time, is_whole, is_partial in zip(times, whole, partial, strict=True)
    ]


def _partial(steps: StepBlock, whole: Sequence[bool], interval: int) -> list[bool]:
    """Return for each report whether its tokens are those of a part of the log interval.

    They are if they are a multiple of the tokens of one iteration, and fewer than those of a whole
    interval. The tokens of an iteration may differ, e.g. in fine-tuning. Then they are rarely such
    a multiple.

    whole: for each report, whether the previous report is one log interval before it.
    """
    rates = steps.column("tokens_per_second_per_gpu")
    tokens = [
        (time or 0.0) * (rate or 0.0)  # per GPU, divided by the log interval
        for time, rate in zip(steps.columns["seconds_per_interval"], rates, strict=True)
    ]
    most = max(compress(tokens, whole), default=0.0)
    # The first report covers iteration 1 only. Some programs divide its time by 1.
    if steps.columns["iteration"][0] == 1 and not isclose(tokens[0], most, rel_tol=_SAME_TOKENS):
        most = max(most, tokens[0] * interval)
    if not is_sound(most) or most <= 0:
        return [False] * len(tokens)
    covered = (count / most * interval for count in tokens)
    return [
        0.5 < count < interval - 0.5 and abs(count - round(count)) < _SAME_TOKENS
        for count in covered
    ]


def _between(iterations: Sequence[int], seconds: Sequence[float | None]) -> list[float | None]:
    """Return for each report the mean seconds per iteration since the previous report.

    seconds: for each report, the seconds since the start of the training. If all of them are whole,
    the program rounds them. Then the mean is over at least 20 s, so the rounding changes it by 5 %
    or less, and only the report at the end of this time has an item.

    The item for the first report is None. An item is also None if the seconds do not increase, or
    are None for the report or for the previous one.
    """
    whole = all(now is None or float(now).is_integer() for now in seconds)
    least = _LEAST_SECONDS if whole else 0.0
    times: list[float | None] = [None] * len(seconds)
    begin: tuple[int, float] | None = None
    for at, (iteration, now) in enumerate(zip(iterations, seconds, strict=True)):
        passed = None if now is None or begin is None else now - begin[1]
        if passed is not None and begin is not None and passed > 0 and passed >= least:
            times[at] = passed / (iteration - begin[0])
        if now is None:
            begin = None
        elif passed is None or passed < 0 or passed >= least:
            begin = iteration, now
    return times
