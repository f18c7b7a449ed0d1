"""Reading what a campaign's runs have printed."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.collect.endings import Ending, endings
from orchestrator.collect.restarts import last_start
from orchestrator.common.tables import Cell
from orchestrator.frameworks.base import Logged
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.measure.gpu_samples import read_gpu_samples
from orchestrator.measure.summary import Summary, summary_of
from orchestrator.measure.warmup import Warmup
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from parsers.records import Outcome, Record, Step
from parsers.scan.reader import read_records
from parsers.steps.merge import merge_steps


@dataclass(frozen=True, slots=True)
class Collected:
    """One run as its last attempt's log tells it.

    `steps` holds every iteration reported, warm-up included; `log` is None where nothing was
    started, `told` is what the log of a failed run says of its end, and `given_up` why a run is not
    to be started. `measures` are the framework's own, by name; `attempts` are the run's starts,
    oldest first.
    """

    planned: PlannedRun
    state: str
    outcome: str | None
    told: Outcome | None
    steps: tuple[Step, ...]
    summary: Summary
    log: Path | None
    given_up: str | None = None
    measures: Mapping[str, Cell] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()


def collect(campaign: Campaign, store: CampaignStore) -> list[Collected]:
    """Return every run of the campaign, in the campaign's order, with what its log says."""
    return collect_runs(campaign.runs, campaign.warmup, store)


def collect_runs(
    runs: Sequence[PlannedRun], warmup: Warmup, store: CampaignStore
) -> list[Collected]:
    """Return these runs of a campaign, in their order, with what their logs say."""
    return [
        _collect_run(planned, ending, warmup)
        for planned, ending in zip(runs, endings(runs, store), strict=True)
    ]


def _collect_run(planned: PlannedRun, ending: Ending, warmup: Warmup) -> Collected:
    attempts = ending.attempts
    log = attempts[-1].log if attempts and attempts[-1].log.exists() else None
    framework = FRAMEWORKS[planned.run.framework]
    complete = ending.outcome is not None
    records = read_attempt(attempts[-1], framework.name, complete=complete) if attempts else []
    samples = read_gpu_samples(attempts[-1].folder) if attempts else None
    steps = merge_steps(records)
    summary = summary_of(planned.run, steps, records, warmup, samples)
    logged = Logged(planned.run, records, summary)
    return Collected(
        planned,
        ending.state,
        ending.outcome,
        ending.told,
        tuple(steps),
        summary,
        log,
        ending.given_up,
        {column.name: column.value(logged) for column in framework.report.measures},
        attempts,
    )


def read_attempt(attempt: Attempt, framework: str, *, complete: bool) -> list[Record]:
    """Return what the log of an attempt says; `complete` says that nobody writes to it any more."""
    if not attempt.log.exists():
        return []
    # What was trained before Slurm started the job again is no part of the run that is measured.
    start = last_start(attempt.log) if attempt.seen and attempt.seen.restarts else 0
    formats = FRAMEWORKS[framework].log.formats
    # A last line without its newline may be half of one as long as somebody writes.
    return list(read_records(attempt.log, formats, start=start, complete=complete))


def logs_checksum(runs: Sequence[Collected]) -> str | None:
    """Return 12 hexadecimal digits over the bytes of all logs, in order; None without a log."""
    logs = [run.log for run in runs if run.log is not None]
    if not logs:
        return None
    total = hashlib.sha256()
    for log in logs:
        with log.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:12]
