"""Show which sources make a campaign's runs vary, in a table and in sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.common.tables import Column, Style, Table, make_table, shown
from orchestrator.common.text import counted
from orchestrator.compare.intervals import welch_degrees
from orchestrator.compare.measured_run import MeasuredRun, crowded_lines, trouble_lines
from orchestrator.compare.sample_size import blocks_to_find, runs_to_find
from orchestrator.compare.variance_components import Component, components, pooled

# The difference in speed for which `noise_sentences` computes how many runs are needed.
_WANTED = 0.05
_SHORT = Style(digits=2)


@dataclass(frozen=True, slots=True)
class NoiseSource:
    """A source of noise, e.g. the hours of the day, and how much it makes step times vary.

    name: the name of the source in JSON. title: its name in tables and sentences. component: the
    variance that the source causes in the logarithms of step times. sentence: explains what this
    variance means; if the variance is unknown, explains which runs are needed to compute it.
    """

    name: str
    title: str
    component: Component
    sentence: str

    @property
    def percent(self) -> float | None:
        """The standard deviation that the source causes, in % of a step time; None if not known."""
        variance = self.component.variance
        return None if variance is None else 100 * math.expm1(math.sqrt(variance))


@dataclass(frozen=True, slots=True)
class NoisePage:
    """The noise of a campaign by source: steps, runs, allocations, repeats, hours, nodes.

    runs: the number of runs with a step time. troubled: the runs without a step time. crowded:
    contains one sentence with the names of the crowded runs; empty if there are none.
    """

    sources: tuple[NoiseSource, ...]
    runs: int
    troubled: tuple[MeasuredRun, ...]
    crowded: tuple[str, ...] = ()

    def spread(self, name: str) -> float | None:
        """Return the standard deviation that a source causes in the logarithms of step times.

        name: the name of the source. Returns None if the standard deviation is not known.
        """
        variances = (source.component.variance for source in self.sources if source.name == name)
        return next((math.sqrt(variance) for variance in variances if variance is not None), None)


def noise_page(runs: Sequence[MeasuredRun]) -> NoisePage:
    """Estimate how much each source of noise makes the step times of these runs vary."""
    timed = [run for run in runs if run.seconds is not None]
    logs = [math.log(run.seconds or 1) for run in timed]
    kinds = [run.what_repeats_share for run in timed]
    allocations = [run.allocation or f"alone:{run.run_id}" for run in timed]
    steps = [[math.log(seconds) for seconds in run.step_seconds] for run in timed]
    (of_allocation,), of_run = components(logs, kinds, allocations)
    of_all = components(logs, kinds)[1] if not of_run.degrees else _sum(of_allocation, of_run)

    def between(groups: Sequence[object]) -> Component:
        """Return the variance component of groups of runs, e.g. of the runs of each hour.

        groups: the group of each run. If some runs share an allocation, the allocations are a
        second factor. Then differences between the allocations of a group do not count as
        differences between groups.
        """
        if not of_run.degrees:
            # Each run has its own allocation, or an unknown one.
            return components(logs, kinds, groups)[0][0]
        return components(logs, kinds, groups, allocations)[0][0]

    hours, nodes = [_hour(run) for run in timed], [run.nodes for run in timed]
    sources = (
        _source("steps", "steps of a run", pooled(steps), _OF_STEPS),
        _source("runs", "runs in an allocation", of_run, _OF_RUNS),
        _source("allocations", "allocations", of_allocation, _OF_ALLOCATIONS),
        _source("repeats", "repeats in separate allocations", of_all, _OF_ALL),
        _source("hours", "hours of the day", _known(between, hours), _OF_HOURS),
        _source("nodes", "nodes", _known(between, nodes), _OF_NODES),
    )
    troubled = tuple(run for run in runs if run.trouble)
    return NoisePage(sources, len(timed), troubled, tuple(crowded_lines(timed)))


# The meaning of each source if it is known, and the reason if it is not.
_OF_STEPS = (
    "two steps of one run differ by {percent}",
    "no run reports two steps after its warm-up",
)
_OF_RUNS = (
    "equal runs in one allocation differ by {percent} from their mean, drift included",
    "no allocation has two runs to compare",
)
_OF_ALLOCATIONS = (
    "the means of allocations differ by {percent}, in addition to the variation of their runs",
    "several allocations are needed, one of them with several runs",
)
_OF_ALL = (
    "equal runs in separate allocations differ by {percent}, the accuracy of a single run",
    "equal runs in several allocations are needed",
)
_OF_HOURS = (
    "runs at different hours of the day differ by {percent}",
    "runs at several hours of the day are needed, with several allocations in one of these hours",
)
_OF_NODES = (
    "runs on different nodes differ by {percent}",
    "several sets of nodes are needed, one of them with several allocations",
)


def _source(name: str, title: str, component: Component, texts: tuple[str, str]) -> NoiseSource:
    meanings, unknown = texts
    bare = NoiseSource(name, title, component, "")
    if bare.percent is None:
        return NoiseSource(name, title, component, f"{title}: unknown; {unknown}.")
    if not component.variance:
        degrees = f"{counted(component.degrees, 'degree')} of freedom"
        nothing = f"too small to measure next to the other sources, with {degrees}"
        return NoiseSource(name, title, component, f"{title}: {nothing}.")
    percent = f"{shown(bare.percent, _SHORT)}%"
    return NoiseSource(name, title, component, f"{title}: {meanings.format(percent=percent)}.")


def _sum(outer: Component, inner: Component) -> Component:
    """Return the variance of a run in a random allocation: the sum of two variances.

    outer: the variance between allocations. inner: the variance between the runs of an allocation.
    If one of them is None, e.g. because there is only one allocation, the sum is None. The degrees
    of freedom of the sum follow Satterthwaite (1946). So a hundred runs in two allocations count
    hardly more than two runs.
    """
    if outer.variance is None or inner.variance is None:
        return Component(None, 0)
    sizes = outer.degrees + 1, inner.degrees + 1
    degrees = welch_degrees(outer.variance, inner.variance, sizes)
    return Component(outer.variance + inner.variance, degrees)


def _known(between: Callable[[Sequence[object]], Component], groups: Sequence[object]) -> Component:
    return Component(None, 0) if None in groups or not groups else between(groups)


def _hour(run: MeasuredRun) -> int | None:
    """Return the hour of the day at which a run started, from 0 to 23; None if not known.

    The hour is in this machine's time zone. A recorded time without a zone is not converted.
    """
    if run.started_at is None:
        return None
    time = datetime.fromisoformat(run.started_at)
    return (time.astimezone() if time.tzinfo else time).hour


_COLUMNS: tuple[Column[NoiseSource], ...] = (
    Column("between", "source", lambda source: source.title),
    Column("± %", "percent", lambda source: source.percent, _SHORT),
    Column("rests on", "degrees", lambda source: source.component.degrees),
)


def noise_table(page: NoisePage) -> Table:
    """Return a table with a row per source of noise: its size in % and its degrees of freedom."""
    return make_table(_COLUMNS, page.sources)


def noise_sentences(page: NoisePage) -> Iterator[str]:
    """Yield sentences on each source of noise, and on how many runs the user needs.

    With this number of runs, `compare` finds a difference of 5 % in 8 of 10 cases. The last
    sentences are about the crowded runs and the runs without a step time.
    """
    runs = counted(page.runs, "run")
    yield (
        f"Computed from {runs}. ±: one standard deviation; rests on: the degrees of freedom of the "
        "estimate."
    )
    for source in page.sources:
        yield source.sentence[0].upper() + source.sentence[1:]
    within, anywhere = page.spread("runs"), page.spread("repeats")
    if anywhere:
        yield (
            f"To find a difference of {_WANTED:.0%} in 8 of 10 cases, you need "
            f"{counted(runs_to_find(_WANTED, anywhere), 'run')} of each configuration in "
            "separate allocations"
            + (
                f", or {counted(blocks_to_find(_WANTED, within), 'block')} A B B A."
                if within
                else "."
            )
        )
    yield from page.crowded
    yield from trouble_lines(page.troubled)


def noise_record(page: NoisePage) -> dict[str, Any]:
    """Return the page as a JSON object."""
    return {
        "runs": page.runs,
        "sources": [
            {
                "source": source.name,
                "percent": source.percent,
                "log_variance": source.component.variance,
                "degrees_of_freedom": source.component.degrees,
                "said": source.sentence,
            }
            for source in page.sources
        ],
        "not_measured": [
            {"run_id": run.run_id, "label": run.label, "why": run.trouble} for run in page.troubled
        ],
    }
