"""Find over how many iterations the time in a report is the mean.

Most programs time the iterations since their report before, and divide by how many they were. No
line says how many; the reports around it and the configuration do.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, pairwise

from parsers.fields import whole
from parsers.records import Setting
from parsers.steps.blocks import Part, StepBlock, joined_steps


def step_means(parts: Sequence[Part], resumed_from: int | None) -> StepBlock:
    """Return the steps of one launch, with the `log_interval` of each as far as it can be told.

    It is the distance to the same program's report before, but not more than the configured
    interval, for a report may be missing; for the first one see `_first_interval`.

    One line is left out: since core 0.16, Megatron tells of the first iteration of a launch in
    addition, and does not reset its timer, so that the next line's mean holds that iteration, too.
    """
    steps = joined_steps(parts)
    iterations, totals = steps.column("iteration"), steps.column("iterations")
    skipped, known = steps.column("skipped_iterations"), steps.column("log_interval")
    configured = _configured_interval(parts)
    of_megatron = (
        number for number, one in zip(iterations, skipped, strict=True) if one is not None
    )
    extra = _extra(sorted({*of_megatron}), configured, resumed_from)
    if resumed_from is None and extra is not None:
        resumed_from = extra - 1
    is_mean = [
        seconds is not None and interval is None
        for seconds, interval in zip(steps.column("step_seconds"), known, strict=True)
    ]
    # Of Megatron-DeepSpeed's two programs, which may report at different intervals, one knows how
    # many iterations there are to be.
    means = [*compress(zip(iterations, totals, strict=True), is_mean)]
    others = {number for number, total in means if total is None}
    ours = {number for number, total in means if total is not None} - {extra}
    intervals_of_others = _intervals(sorted(others), None, resumed_from)
    intervals_of_ours = _intervals(sorted(ours), configured, resumed_from)
    intervals = [
        (intervals_of_others if total is None else intervals_of_ours).get(number) if mean else told
        for number, total, mean, told in zip(iterations, totals, is_mean, known, strict=True)
    ]
    found = StepBlock({**steps.columns, "log_interval": intervals})
    if extra is None:
        return found
    return found.only(
        number != extra or one is None for number, one in zip(iterations, skipped, strict=True)
    )


def _intervals(
    iterations: Sequence[int], configured: int | None, resumed_from: int | None
) -> dict[int, int]:
    """Return the interval of each report of one program, as far as it is known, by iteration."""
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
    """Return how many iterations were done up to the first report; None where nothing tells.

    Programs report at the multiples of their interval. Where no checkpoint is known, a launch
    whose first report is about iteration n, and the next one about 2n, began at the beginning.
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
    """Return the iteration of which a line tells in addition to those of the interval, if any."""
    if len(iterations) < 2:
        return None
    first, second = iterations[:2]
    if not configured and len(iterations) == 2:
        # With nothing else to go by: reports of an interval stand at its multiples.
        is_first = first == (resumed_from or 0) + 1
        return first if is_first and first % (second - first) else None
    interval = configured or min(after - before for before, after in pairwise(iterations[1:]))
    return first if second < first + interval and second % interval == 0 else None
