"""Find completed attempts of one configuration in all campaigns of a results folder."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.collect.attempt_log import read_attempt_log
from orchestrator.collect.outcomes import RunOutcome, attempt_outcome
from orchestrator.measure.summary import configured, summarise_records
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run
from orchestrator.store.recorded_runs import campaign_stores, readable_records, recorded_run
from orchestrator.store.records import Attempt
from parsers.formats.environment import VERSIONS
from parsers.records import Record, RunTotals, Setting
from parsers.scan.reader import read_records
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A completed attempt. Unknown values are None.

    started_at: the time of the start, in ISO 8601; the time of the end if the start is not known.
    allocation: the allocation in which the run was started. step_seconds: the median after the
    warm-up, or the mean of all steps if the log has no times of single steps. crowded: a text on
    how many ranks and other runs shared this machine's cores; None if the run was not crowded.
    versions: the version of each software package in the log, by name.
    """

    campaign: str
    run_id: str
    label: str
    attempt: int
    started_at: str | None = None
    allocation: str | None = None
    nodes: str | None = None
    crowded: str | None = None
    step_seconds: float | None = None
    tflops_per_gpu: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The completed runs of a configuration, oldest first, and the runs that could not be read.

    unknown: the runs whose run.json this version of teralog cannot interpret, each as the text
    `CAMPAIGN/RUN_ID`. damaged: a sentence for each run with an unreadable file.
    """

    runs: tuple[PastRun, ...]
    unknown: tuple[str, ...]
    damaged: tuple[str, ...]


def configuration(run: Run) -> str:
    """Return the identity that a run would have as the first repeat, with seed 0.

    So the function returns the same identity for all runs that differ only in repeat and seed.
    """
    return run_id(replace(run, repeat=1, training=replace(run.training, seed=0)))


def past_runs(results: Path, wanted: Run, warmup: Warmup) -> PastRuns:
    """Find the completed runs of a configuration in all campaigns of a results folder.

    results: the folder. wanted: a run of the configuration. warmup: the warm-up to leave out of
    every run; the warm-ups in the campaign files are ignored. Rehearsals are not returned.
    """
    same = configuration(wanted)
    completed_runs: list[PastRun] = []
    unknown: list[str] = []
    damaged: list[str] = []
    for store in campaign_stores(results):
        records, problems = readable_records(store)
        damaged += problems
        for record in records:
            run = recorded_run(record)
            if run is None:
                unknown.append(f"{store.path.name}/{record.get('run_id')}")
            elif configuration(run) == same and not record.get("rehearsal"):
                starts = store.run(record["run_id"]).attempts()
                completed_runs += _completed(store.path.name, record, run, starts, warmup)
    return PastRuns(tuple(sorted(completed_runs, key=_when)), tuple(unknown), tuple(damaged))


def _completed(
    campaign: str, record: Mapping[str, Any], run: Run, starts: Iterable[Attempt], warmup: Warmup
) -> Iterator[PastRun]:
    for attempt in starts:
        if attempt_outcome(attempt) != RunOutcome.COMPLETED:
            continue
        read = read_attempt_log(attempt, run.framework, configured(run), warmup, complete=True)
        summary = summarise_records(run, read.records, read.reports)
        median = summary.step_seconds_median
        yield PastRun(
            campaign=campaign,
            run_id=record["run_id"],
            label=record["label"],
            attempt=attempt.number,
            started_at=attempt.started_at or (attempt.ended.ended_at if attempt.ended else None),
            allocation=attempt.allocation,
            nodes=attempt.nodes,
            crowded=attempt.crowded,
            step_seconds=summary.step_seconds_mean if median is None else median,
            tflops_per_gpu=summary.tflops_per_gpu,
            versions=_versions(attempt, read.records),
        )


def _versions(attempt: Attempt, records: Iterable[Record]) -> dict[str, str]:
    """Return the version of each software package in an attempt's log, by the package's name.

    If the log contains several versions of a package, the last of them is returned.
    """
    reports = read_records(attempt.log, (VERSIONS,)) if attempt.log.exists() else ()
    return dict(_logged_versions((*records, *reports)))


def _logged_versions(records: Iterable[Record]) -> Iterator[tuple[str, str]]:
    for record in records:
        if isinstance(record, RunTotals):
            yield from record.versions
        elif isinstance(record, Setting) and record.name.endswith("_version"):
            yield record.name.removesuffix("_version"), record.value


def _when(run: PastRun) -> tuple[float, str, str, int]:
    """Return a sort key by time; a time without a zone counts as this machine's local time."""
    return (_timestamp(run.started_at), run.campaign, run.run_id, run.attempt)


def _timestamp(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return float("inf")
