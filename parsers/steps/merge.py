"""Merge reports of the same value into one.

Several lines can report one iteration, because two programs or all ranks print it. Every node
prints the result, and every process prints the settings. Here each value counts once.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from parsers.records import RunTotals, SkippedStep, Step
from parsers.steps.blocks import STEP_FIELDS, Part, StepBlock, step_column, stored_records
from parsers.steps.means import step_means

# The source that counts if a name has several values: the program's dump, then its sentences, then
# the script that started it.
_SOURCES = ("arguments", "report", "echo", "host")
# Settings with a value for each machine.
_LISTS = frozenset({"host", "gpu"})

# Fields that describe only one engine's part of a step, if there are several engines.
_NO_RATES: dict[str, Any] = dict.fromkeys(
    (
        "step_seconds",
        "samples_per_second",
        "tokens_per_second",
        "running_samples_per_second",
        "reported_tflops_per_gpu",
    )
)
_TOTALS = [field.name for field in dataclasses.fields(RunTotals) if field.name != "offset"]
_values = attrgetter(*_TOTALS)
_ROUNDING = 0.02
_NODES_APART_SECONDS = 1.0


def merged_steps(records: Iterable[Part], *, resumed_from: int | None = None) -> StepBlock:
    """Merge all step reports of one launch into one per iteration, in order.

    A mean over iterations that other reports cover, too, stays a report of its own.

    If several reports of an iteration have a value, the first one counts. There is one
    exception, because of Megatron-DeepSpeed, which prints two lines per iteration. The more
    precise line contains the total number of iterations, so such a line takes precedence
    over a line without it.

    Megatron core's additional line for the first iteration is left out. Each report gets
    the number of iterations over which its time is the mean. If some reports cover whole
    iterations, the times and rates of single engines are removed.
    resumed_from: the iteration of the checkpoint from which the launch continued, if known.
    """
    records = stored_records(records)
    interval = [setting for setting in records.settings if setting.name == "log_interval"]
    means = step_means([*_whole_iterations(records.reports), *interval], resumed_from)
    if not means.falls:
        return means
    unlike = _without_copies(means)
    if not unlike.falls:
        return unlike
    # A mean over iterations that other reports cover is a report of its own.
    reports: dict[tuple[int, bool], list[Step]] = {}
    for step in unlike.steps():
        reports.setdefault((step.iteration, bool(step.covered)), []).append(step)
    return StepBlock.of([_merged(reports[iteration]) for iteration in sorted(reports)])


def _without_copies(steps: StepBlock) -> StepBlock:
    """Return reports in the order of their iterations; of equal reports only the first.

    Reports are equal if they differ only in their offset.
    """
    names = [name for name in steps.columns if name != "offset"]
    rows = zip(*(steps.columns[name] for name in names), strict=True)
    first: dict[tuple[Any, ...], int] = {}
    for at, row in enumerate(rows):
        first.setdefault(row, at)
    iterations = steps.columns["iteration"]
    return steps.at(sorted(first.values(), key=iterations.__getitem__))


def _whole_iterations(parts: Sequence[Part]) -> Sequence[Part]:
    """Remove times and rates of single engines, if other reports cover whole iterations.

    An engine is DeepSpeed's trainer of one model. An RLHF program has several, e.g. for an actor
    and a critic.
    """
    if not any(step_column(parts, "end_to_end")):
        return parts
    steps = (
        step for part in parts for step in (part.steps() if isinstance(part, StepBlock) else [part])
    )
    return [
        dataclasses.replace(step, **_NO_RATES)
        if isinstance(step, Step) and not step.end_to_end
        else step
        for step in steps
    ]


def merge_skipped(records: Iterable[Part]) -> list[SkippedStep]:
    """Return the reports of skipped steps of one launch, one per skipped step.

    If several ranks report skipped steps, only the reports of the rank with the most are returned.
    """
    by_rank: dict[int | None, list[SkippedStep]] = {}
    for record in stored_records(records).reports:
        if isinstance(record, SkippedStep):
            by_rank.setdefault(record.rank, []).append(record)
    return max(by_rank.values(), key=len, default=[])


def merge_totals(records: Iterable[Part]) -> list[RunTotals]:
    """Return the results of a whole run from the lines of one launch, each result once.

    Each node prints the run's result, with times that it measured itself. So two results count as
    one if their numbers differ by at most 2 %, and all other values are equal. In a training of
    less than 50 s, the numbers may differ by more: by 1 s divided by the training's
    seconds, e.g. by 5 % in a training of 20 s. Only trainer_state.json contains the last iteration
    of the Trainer's result, so one of the two may lack it.
    """
    kept: list[RunTotals] = []
    alike: dict[int | None, list[RunTotals]] = {}
    for record in stored_records(records).reports:
        if isinstance(record, RunTotals):
            others = alike.setdefault(record.last_iteration, [])
            if not any(_is_copy(record, other) for other in others):
                others.append(record)
                kept.append(record)
    if all(total.last_iteration is not None for total in kept):
        return kept
    numbered = [
        dataclasses.replace(total, last_iteration=None)
        for total in kept
        if total.last_iteration is not None
    ]
    return [
        total
        for total in kept
        if total.last_iteration is not None or not any(_is_copy(total, other) for other in numbered)
    ]


def merge_settings(records: Iterable[Part]) -> dict[str, str]:
    """Return the configuration that the lines of a run contain: one value per name.

    If a name has several values, the first one from the most reliable source counts: from the
    program's list of its arguments, or else from its other lines, or else from the script that
    started it. Hosts and GPUs are an exception: their value lists all different values, separated
    by commas.
    """
    settings = stored_records(records).settings
    merged: dict[str, str] = {}
    for source in _SOURCES:
        for setting in settings:
            if setting.source == source and setting.name not in _LISTS:
                merged.setdefault(setting.name, setting.value)
    for name in sorted(_LISTS):
        values = dict.fromkeys(setting.value for setting in settings if setting.name == name)
        if values:
            merged[name] = ", ".join(values)
    return merged


def _merged(reports: Sequence[Step]) -> Step:
    if len(reports) == 1:
        return reports[0]
    first, *others = sorted(reports, key=lambda step: step.iterations is None)
    for other in others:
        fresh = {
            name: value
            for name in STEP_FIELDS
            if getattr(first, name) is None and (value := getattr(other, name)) is not None
        }
        if first.step_seconds is not None:
            fresh.pop("log_interval", None)  # of another mean
        if fresh:  # else it is a copy, of which there may be one from each rank
            first = dataclasses.replace(first, **fresh)
    return first


def _is_copy(totals: RunTotals, other: RunTotals) -> bool:
    tolerance = _ROUNDING
    if totals.train_seconds:
        tolerance = max(tolerance, _NODES_APART_SECONDS / totals.train_seconds)
    for mine, theirs in zip(_values(totals), _values(other), strict=True):
        if isinstance(mine, float) and isinstance(theirs, float):
            if not math.isclose(mine, theirs, rel_tol=tolerance) and repr(mine) != repr(theirs):
                return False
        elif mine != theirs:
            return False
    return True
