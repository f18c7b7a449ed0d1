"""Read the logs of a campaign's runs into summaries."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.collect.attempt_log import read_attempt_log
from orchestrator.collect.endings import Ending, endings
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.tables import Cell
from orchestrator.frameworks.base import Logged
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.measure.gpu_samples import read_gpu_samples
from orchestrator.measure.summary import Summary, configured, summarise_records
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from parsers.records import Outcome, Step
from parsers.summary.launches import RunReports
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True)
class Collected:
    """One run of a campaign, with the content of its last attempt's log.

    log_outcome: how the run ended according to its log, with the failure message; None if the
    scheduler's state alone decides the outcome. reports: all reported iterations, warm-up included.
    summary: the numbers after the warm-up. log: the path of the log; None without a log. given_up:
    why the run is given up; None if it is not. measures: the values of the report's columns that
    only this framework has, by name. attempts: the run's attempts, oldest first.
    """

    planned: PlannedRun
    state: str
    outcome: RunOutcome | None
    log_outcome: Outcome | None
    reports: RunReports
    summary: Summary
    log: Path | None
    given_up: str | None = None
    measures: Mapping[str, Cell] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def crowded(self) -> str | None:
        """How many ranks and other runs shared the cores of the last attempt, as text.

        None if the last attempt was not crowded, or if the run was never started.
        """
        return self.attempts[-1].crowded if self.attempts else None

    @property
    def steps(self) -> list[Step]:
        """All reported iterations, warm-up included."""
        return self.reports.steps


def collect_campaign(campaign: Campaign, store: CampaignStore) -> list[Collected]:
    """Return each run of a campaign with the content of its log, in the campaign's order."""
    return collect_runs(campaign.runs, campaign.warmup, store)


def collect_runs(
    runs: Sequence[PlannedRun], warmup: Warmup, store: CampaignStore
) -> list[Collected]:
    """Return each of these runs of a campaign with the content of its log, in the given order.

    warmup: the warm-up to leave out of the summaries.
    """
    return [
        _collect_run(planned, ending, warmup)
        for planned, ending in zip(runs, endings(runs, store), strict=True)
    ]


def _collect_run(planned: PlannedRun, ending: Ending, warmup: Warmup) -> Collected:
    attempts = ending.attempts
    last = attempts[-1] if attempts else None
    log = last.log if last and last.log.exists() else None
    framework = FRAMEWORKS[planned.run.framework]
    read = read_attempt_log(
        last,
        framework.name,
        configured(planned.run),
        warmup,
        complete=ending.outcome is not None,
    )
    samples = read_gpu_samples(last.folder) if last else None
    summary = summarise_records(planned.run, read.records, read.reports, samples)
    logged = Logged(planned.run, read.records, summary)
    return Collected(
        planned,
        ending.state,
        ending.outcome,
        ending.log_outcome,
        read.reports,
        summary,
        log,
        ending.given_up,
        {column.name: column.value(logged) for column in framework.report.measures},
        attempts,
    )


def logs_checksum(runs: Sequence[Collected]) -> str | None:
    """Return a checksum of the logs of `runs`; None if no run has a log.

    The checksum is the first 12 hexadecimal digits of a SHA-256. It depends on the order of the
    runs.
    """
    logs = [run.log for run in runs if run.log is not None]
    if not logs:
        return None
    total = hashlib.sha256()
    for log in logs:
        with log.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:12]
