"""Of how many iterations the time in a report is the mean.

Most programs time the iterations since their report before, and divide by how many they were. No
line says how many; the reports around it and the configuration do.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from parsers.fields import whole
from parsers.records import Record, Setting, Step

_FIELDS = tuple(field.name for field in dataclasses.fields(Step))
_values = attrgetter(*_FIELDS)


def step_means(records: Iterable[Record], resumed_from: int | None) -> Iterator[Step]:
    """Yield the steps of one launch, with the `log_interval` of each as far as it can be told.

    It is the distance to the same program's report before, but not more than the configured
    interval, for a report may be missing; for the first one see `_first_interval`.

    One line is left out: since core 0.16, Megatron tells of the first iteration of a launch in
    addition, and does not reset its timer, so that the next line's mean holds that iteration, too.
    """
    records = list(records)
    steps = [record for record in records if isinstance(record, Step)]
    configured = _configured_interval(records)
    megatron = sorted({step.iteration for step in steps if step.skipped_iterations is not None})
    extra = _extra(megatron, configured, resumed_from)
    if resumed_from is None and extra is not None:
        resumed_from = extra - 1
    # Of Megatron-DeepSpeed's two programs, which may report at different intervals, one knows how
    # many iterations there are to be.
    means = [step for step in steps if step.step_seconds is not None and step.log_interval is None]
    others = {step.iteration for step in means if step.iterations is None}
    ours = {step.iteration for step in means if step.iterations is not None} - {extra}
    intervals_of_others = _intervals(sorted(others), None, resumed_from)
    intervals_of_ours = _intervals(sorted(ours), configured, resumed_from)
    for step in steps:
        if step.iteration == extra and step.skipped_iterations is not None:
            continue
        intervals = intervals_of_others if step.iterations is None else intervals_of_ours
        interval = intervals.get(step.iteration)
        if interval is None or step.step_seconds is None or step.log_interval is not None:
            yield step
        else:
            yield _with_interval(step, interval)


def _with_interval(step: Step, interval: int) -> Step:
    """Do what `dataclasses.replace` does, in half the time: a log may have 100,000 steps."""
    copy = object.__new__(Step)
    for name, value in zip(_FIELDS, _values(step), strict=True):
        object.__setattr__(copy, name, value)
    object.__setattr__(copy, "log_interval", interval)
    return copy


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


def _configured_interval(records: Iterable[Record]) -> int | None:
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
