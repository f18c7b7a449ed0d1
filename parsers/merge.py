"""Reports of the same thing become one.

Several lines speak of one iteration: those of two programs, or of every rank. A result is printed
by every node, and a setting by everybody. Here each counts once.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from parsers.records import Record, RunTotals, Setting, Step

_STEP_FIELDS = tuple(field.name for field in dataclasses.fields(Step))

# Who is believed where a name is told several values: the program, then what it says in words,
# then the script that started it.
_SOURCES = ("arguments", "report", "echo", "host")
# What has as many values as there are machines.
_LISTS = frozenset({"host", "gpu"})

_ROUNDING = 0.02
_NODES_APART_SECONDS = 1.0


def merge_steps(records: Iterable[Record]) -> list[Step]:
    """Return one Step an iteration, made of all that the lines of one launch say of it, in order.

    What an earlier line said stays, but for one thing: a line that knows how many iterations the
    run is to do comes before one that does not. Of Megatron-DeepSpeed's two lines it is the more
    precise one. Megatron core's line of the first iteration is left out, see `_is_extra`.
    """
    records = list(records)
    reports: dict[int, list[Step]] = {}
    for record in records:
        if isinstance(record, Step):
            reports.setdefault(record.iteration, []).append(record)
    steps = [_merged(reports[iteration]) for iteration in sorted(reports)]
    return steps[1:] if _is_extra(steps, _log_interval(records)) else steps


def merge_totals(records: Iterable[Record]) -> list[RunTotals]:
    """Return what the lines of one launch say of it as a whole, each thing once.

    The nodes of a run print its result with times that each took for itself: those of one result
    differ by less than a second or two percent.
    """
    kept: list[RunTotals] = []
    for record in records:
        if isinstance(record, RunTotals) and not any(_is_copy(record, one) for one in kept):
            kept.append(record)
    return kept


def merge_settings(records: Iterable[Record]) -> dict[str, str]:
    """Return the configuration that the lines of a run tell: one value a name.

    Of several, the first one of the most credible source. Hosts and GPUs are listed, with commas.
    """
    settings = [record for record in records if isinstance(record, Setting)]
    merged: dict[str, str] = {}
    for source in _SOURCES:
        for setting in settings:
            if setting.source == source and setting.name not in _LISTS:
                merged.setdefault(setting.name, setting.value)
    for name in sorted(_LISTS):
        values = dict.fromkeys(one.value for one in settings if one.name == name)
        if values:
            merged[name] = ", ".join(values)
    return merged


def _merged(reports: Sequence[Step]) -> Step:
    if len(reports) == 1:
        return reports[0]
    first, *others = sorted(reports, key=lambda step: step.iterations is None)
    for other in others:
        fresh = {
            name: getattr(other, name) for name in _STEP_FIELDS if getattr(first, name) is None
        }
        first = dataclasses.replace(first, **fresh)
    return first


def _log_interval(records: Iterable[Record]) -> int | None:
    for record in records:
        if isinstance(record, Setting) and record.name == "log_interval":
            return int(record.value) or None if record.value.isdecimal() else None
    return None


def _is_extra(steps: Sequence[Step], interval: int | None) -> bool:
    """Return whether the first step is the extra line that Megatron core prints since 0.16.

    It tells of the first iteration of a launch alone, between two multiples of the log interval.
    The timer is not reset behind it, so that the next line's mean holds that iteration, too.
    """
    if len(steps) < 2 or steps[0].skipped_iterations is None:
        return False
    first, second = steps[0].iteration, steps[1].iteration
    if not interval and len(steps) > 2:
        interval = steps[2].iteration - second
    elif not interval and first == 1 and second > 2:
        interval = second
    return interval is not None and second < first + interval and second % interval == 0


def _is_copy(one: RunTotals, other: RunTotals) -> bool:
    tolerance = _ROUNDING
    if one.train_seconds:
        tolerance = max(tolerance, _NODES_APART_SECONDS / one.train_seconds)
    for field in dataclasses.fields(RunTotals):
        if field.name == "offset":
            continue
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, float) and isinstance(theirs, float):
            alike = math.isclose(mine, theirs, rel_tol=tolerance) or repr(mine) == repr(theirs)
        else:
            alike = mine == theirs
        if not alike:
            return False
    return True
