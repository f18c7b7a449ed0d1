"""Compute the step time of each report of a launch, from whatever the program prints."""

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise, repeat
from math import isclose
from statistics import multimode

from parsers.steps.blocks import StepBlock
from parsers.steps.seconds import is_sound, step_seconds

# Whole seconds are wrong by up to 1 s, i.e. by 5 % of this time.
_LEAST_SECONDS = 20.0
_SAME_TOKENS = 0.01


def times_of_reports(
    steps: StepBlock, batch: int | None, tokens_per_gpu: float | None
) -> tuple[Sequence[float | None], str | None]:
    """Return the time of each report, and the field of the reports that the times are from.

    batch: the global batch size, for reports that do not contain it. tokens_per_gpu: the tokens of
    each iteration, divided by the number of GPUs. Both are None if they are unknown.
    """
    times: Sequence[float | None]
    if not steps.columns.keys().isdisjoint(("step_seconds", "samples_per_second")):
        reported, per_second = steps.column("step_seconds"), steps.column("samples_per_second")
        sizes = (size or batch for size in steps.column("global_batch_size"))
        times = [*map(step_seconds, reported, sizes, per_second)]
        if _any_known(times):
            return times, "step_seconds" if _any_known(reported) else "samples_per_second"
    if "tokens_per_second" in steps.columns:
        per_second = steps.column("tokens_per_second")
        times = [*map(step_seconds, repeat(None), steps.column("tokens"), per_second)]
        if _any_known(times):
            return times, "tokens_per_second"
    if "nominal_step_seconds" in steps.columns:
        times = _of_whole_intervals(steps)
        if _any_known(times):
            return times, "nominal_step_seconds"
    if tokens_per_gpu and "tokens_per_second_per_gpu" in steps.columns:
        per_second = steps.column("tokens_per_second_per_gpu")
        times = [step_seconds(None, tokens_per_gpu, rate) for rate in per_second]
        if _any_known(times):
            return times, "tokens_per_second_per_gpu"
    if "train_seconds" in steps.columns:
        times = _between(steps.columns["iteration"], steps.columns["train_seconds"])
        if _any_known(times):
            return times, "train_seconds"
    return [None] * len(steps), None


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
    times = steps.columns["nominal_step_seconds"]
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
        for time, rate in zip(steps.columns["nominal_step_seconds"], rates, strict=True)
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
