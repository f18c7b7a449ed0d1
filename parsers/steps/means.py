"""Find the number of iterations over which a report's time is the mean.

Most programs measure the time since their previous report, and divide it by the number of
iterations. Their lines do not contain this number. teralog computes it from the reports before and
after, and from the configuration.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise

from parsers.fields import whole
from parsers.records import Setting
from parsers.steps.blocks import Part, StepBlock, joined_steps


def step_means(parts: Sequence[Part], resumed_from: int | None) -> StepBlock:
    """Return the step reports of one launch, each with its `log_interval` if it is known.

    log_interval: over how many iterations the report's time is the mean. It is the number of
    iterations since the previous report, but at most the configured interval, because a report may
    be missing. If two parts of the program print reports, only reports of the same part count. For
    the first report, it is computed from the checkpoint's iteration (`resumed_from`), the second
    report or the configuration. It is not known for reports without an iteration number.

    Since core 0.16, Megatron prints an additional line for the first iteration of a launch, and
    does not reset its timer. So the mean in the next line includes this iteration, too. The
    result does not contain the additional line.
    """
    steps = joined_steps(parts)
    iterations, totals = steps.column("iteration"), steps.column("iterations")
    skipped, logged_intervals = steps.column("skipped_iterations"), steps.column("log_interval")
    configured = _configured_interval(parts)
    of_megatron = (
        number for number, count in zip(iterations, skipped, strict=True) if count is not None
    )
    extra = _extra(sorted({*of_megatron}), configured, resumed_from)
    if resumed_from is None and extra is not None:
        resumed_from = extra - 1
    is_mean = [
        seconds is not None and interval is None and not covered and not unnumbered
        for seconds, interval, covered, unnumbered in zip(
            steps.column("step_seconds"),
            logged_intervals,
            steps.column("covered"),
            steps.column("unnumbered"),
            strict=True,
        )
    ]
    # Megatron-DeepSpeed has two reporters, which may have different intervals. Only one of them
    # prints the number of iterations of the run.
    means = [*compress(zip(iterations, totals, strict=True), is_mean)]
    others = {number for number, total in means if total is None}
    ours = {number for number, total in means if total is not None} - {extra}
    intervals_of_others = _intervals(sorted(others), None, resumed_from)
    intervals_of_ours = _intervals(sorted(ours), configured, resumed_from)
    intervals = [
        (intervals_of_others if total is None else intervals_of_ours).get(number)
        if mean
        else interval
        for number, total, mean, interval in zip(
            iterations, totals, is_mean, logged_intervals, strict=True
        )
    ]
    result = StepBlock({**steps.columns, "log_interval": intervals})
    if extra is None:
        return result
    return result.only(
        number != extra or count is None for number, count in zip(iterations, skipped, strict=True)
    )


def _intervals(
    iterations: Sequence[int], configured: int | None, resumed_from: int | None
) -> dict[int, int]:
    """Return over how many iterations each report of one program is a mean.

    iterations: the iterations of the reports, in order. configured: the log interval in the
    configuration, if known. The result has the iterations of the reports as keys. A report
    for which the number is not known is left out.
    """
    intervals = {number: number - before for before, number in pairwise(iterations)}
    first = _first_interval(iterations, configured, resumed_from)
    if first is not None:
        intervals[iterations[0]] = first
    if configured:
        intervals = {number: min(interval, configured) for number, interval in intervals.items()}
    return intervals


def _first_interval(
    iterations: Sequence[int], configured: int | None, resumed_from: int | None
) -> int | None:
    """Return the number of iterations that a launch's first report covers; None if not known.

    iterations: those of the launch's reports.
    resumed_from: the iteration of the checkpoint from which the launch continued, if known.

    Without `resumed_from`, the answer is known in three cases, because programs report at multiples
    of their interval:

    - the first report is of iteration 1;
    - the first two reports are of iterations n and 2n;
    - the iteration of the first report is a multiple of the `configured` interval.
    """
    if not iterations:
        return None
    first = iterations[0]
    if resumed_from is not None:
        return first - resumed_from if first > resumed_from else None
    if first == 1 or (len(iterations) > 1 and iterations[1] == 2 * first):
        return first
    return configured if configured and first % configured == 0 else None


def _configured_interval(records: Iterable[Part]) -> int | None:
    for record in records:
        if isinstance(record, Setting) and record.name == "log_interval":
            return whole(record.value) or None
    return None


def _extra(
    iterations: Sequence[int], configured: int | None, resumed_from: int | None
) -> int | None:
    """Return the iteration of Megatron's additional report about a launch's first iteration.

    This iteration is not a multiple of the log interval. Returns None if there is no such report.
    """
    if len(iterations) < 2:
        return None
    first, second = iterations[:2]
    if not configured and len(iterations) == 2:
        # Without other information: reports are at multiples of their interval.
        is_first = first == (resumed_from or 0) + 1
        return first if is_first and first % (second - first) else None
    interval = configured or min(after - before for before, after in pairwise(iterations[1:]))
    return first if second < first + interval and second % interval == 0 else None
