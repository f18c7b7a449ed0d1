"""Build the data of a campaign's HTML page: its columns and its runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import Cell, shown_rows
from orchestrator.report.configurations import configurations
from orchestrator.report.html.facts import Facts, campaign_facts, samples_per_second
from orchestrator.report.html.size_plots import TFLOPS, Plot, micro_batch_plot, size_plots
from orchestrator.report.report import Report, json_number
from orchestrator.run.model import sizes
from orchestrator.slurm.lists import expand_nodes
from orchestrator.store.records import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class PageColumn:
    """A column of the table.

    filter: whether the user can choose rows by the values of the column. minor: whether the column
    is among the first that are hidden on a narrow screen.
    """

    name: str
    title: str
    numeric: bool
    filter: bool
    minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRun:
    """A row of the page: the run's cells, and additional data of the run for plots.

    run_id: letters and digits, unique to this run.
    ended: how the run ended, as the table shows it, e.g. `completed`; empty if it is not known.
    values: the cells as values. shown: the cells as texts.
    memory: three numbers in GiB: the low end of the forecast, the high end of the forecast, and the
        peak memory in the log; None if one of the three is not known.
    """

    run_id: str
    label: str
    ended: str
    values: tuple[Cell, ...]
    shown: tuple[str, ...]
    nodes: tuple[str, ...]
    memory: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The data of an HTML page, without the details of single runs.

    The points of the plots and the rows of the table are in the order of the runs.

    noun: the word for a row of the table, e.g. `run`.
    identity: the word before a row's id in links: `run` in `#run-0a1b2c3d4e5f`, or `line`
        in `#line-12`.
    about: the text after the number of rows, e.g. `on cluster jz`.
    beside: the name of a file in the folder of the page, e.g. report.md. It contains the same
        tables, and can be read without JavaScript.
    best: the index of the best run. It is the median run of the configuration with the most
        TFLOPs per GPU. In a page of published tables, it is the row with the most TFLOPs.
    curves: whether runs have step times and losses for each iteration.
    memory_of: a text that explains which memory the forecasts and peaks contain, e.g. the memory
        of a whole process.
    gone: labels of runs that were measured and are no longer in the campaign file.
    """

    title: str
    noun: str
    identity: str
    about: str
    beside: str
    provenance: str
    columns: tuple[PageColumn, ...]
    runs: tuple[PageRun, ...]
    ended: tuple[tuple[str, int], ...]
    best: int | None
    plots: tuple[Plot, ...]
    facts: Facts
    curves: bool
    memory_of: str
    gone: tuple[str, ...]


def make_page(
    campaign: Campaign, report: Report, runs: Sequence[Collected], gone: Sequence[str]
) -> Page:
    """Return the page of a campaign's runs, with the numbers of their report."""
    table = report.table
    ended = _column(report, "outcome")
    run_sizes = [sizes(run.planned.run) for run in runs]
    tflops = _column(report, TFLOPS) if TFLOPS in table.names else (None,) * len(runs)
    return Page(
        title=campaign.name,
        noun="run",
        identity="run",
        about=f"on cluster {campaign.cluster.name}",
        beside="report.md",
        provenance=report.provenance,
        columns=tuple(
            PageColumn(
                name=name,
                title=title,
                numeric=any(isinstance(row[place], int | float) for row in table.rows),
                filter=name in (*report.describing, "outcome"),
                minor=bool(table.minor) and table.minor[place],
            )
            for place, (name, title) in enumerate(zip(table.names, table.titles, strict=True))
        ),
        runs=tuple(
            PageRun(
                run_id=run.planned.run_id,
                label=run.planned.label,
                ended=str(word),
                values=tuple(map(json_number, row)),
                shown=tuple(texts),
                nodes=nodes_of(run.attempts[-1]) if run.attempts else (),
                memory=_memory(campaign, run),
            )
            for run, word, row, texts in zip(
                runs, ended, table.rows, shown_rows(table), strict=True
            )
        ),
        ended=tuple(Counter(map(str, ended)).most_common()),
        best=_best(report, runs),
        plots=(
            *size_plots(
                run_sizes, _reached(report), "runs", [run.crowded is not None for run in runs]
            ),
            *micro_batch_plot(
                run_sizes,
                samples_per_second(runs),
                [run.outcome == RunOutcome.OOM for run in runs],
            ),
        ),
        facts=campaign_facts(campaign, runs, tflops),
        curves=True,
        memory_of=_memory_of(campaign),
        gone=tuple(gone),
    )


def nodes_of(attempt: Attempt) -> tuple[str, ...]:
    """Return the names of the nodes on which an attempt ran; empty if they are not known."""
    return expand_nodes(attempt.nodes or "")


def _column(report: Report, name: str) -> tuple[Any, ...]:
    place = report.table.names.index(name)
    return tuple(row[place] for row in report.table.rows)


def _best(report: Report, runs: Sequence[Collected]) -> int | None:
    if TFLOPS not in report.table.names:
        return None
    reached = {
        run.planned.run_id: (tflops, place)
        for place, (run, tflops) in enumerate(zip(runs, _column(report, TFLOPS), strict=True))
        # A crowded run shows its speed next to other runs, so it cannot be the best one.
        if run.outcome == RunOutcome.COMPLETED and tflops is not None and run.crowded is None
    }
    groups = [
        sorted(reached[run_id] for run_id in group.run_ids if run_id in reached)
        for group in configurations(runs)
    ]
    # The middle run, or the lower of two: a single lucky run does not count as the best.
    middle = [group[(len(group) - 1) // 2] for group in groups if group]
    return max(middle)[1] if middle else None


def _memory(campaign: Campaign, run: Collected) -> tuple[float, float, float] | None:
    forecast, peak = run.planned.memory, run.summary.max_memory_allocated_gib
    if forecast is None or peak is None:
        return None
    # On a GPU, programs log the memory that torch's allocator has handed out.
    expected = forecast.tensors if campaign.cluster.has_gpus else forecast
    return expected.low_gib, expected.high_gib, peak


def _memory_of(campaign: Campaign) -> str:
    if campaign.cluster.has_gpus:
        return "the memory of torch's allocator, on the rank that needs the most memory"
    return "the memory of the whole process, on the rank that needs the most memory"


def _reached(report: Report) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Return the columns with TFLOPs or MFU, which the page shows as plots.

    The result maps the name of each column to a pair: its title and its cells.
    """
    table = report.table
    # A framework may have its own columns with TFLOPs, e.g. with those of one phase.
    return {
        name: (title, _column(report, name))
        for name, title in zip(table.names, table.titles, strict=True)
        if name.endswith(TFLOPS) or name == "mfu_percent"
    }
