"""Reading what a campaign's runs have printed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.frameworks import FRAMEWORKS
from orchestrator.gpu_samples import read_gpu_samples
from orchestrator.log_starts import last_start
from orchestrator.metrics import Summary, summarise
from orchestrator.outcomes import run_outcome
from orchestrator.store import CampaignStore
from parsers.merge import merge_steps
from parsers.records import Outcome, Step
from parsers.scan import read_records


@dataclass(frozen=True, slots=True)
class Collected:
    """One run as its last attempt's log tells it.

    `steps` holds every iteration reported, warm-up included; `log` is None where nothing was
    started, and `told` is what the log of a failed run says of its end.
    """

    planned: PlannedRun
    state: str
    outcome: str | None
    told: Outcome | None
    steps: tuple[Step, ...]
    summary: Summary
    log: Path | None


def collect(campaign: Campaign, store: CampaignStore) -> list[Collected]:
    """Return every run of the campaign, in the campaign's order, with what its log says."""
    return [_collect_run(planned, campaign, store) for planned in campaign.runs]


def _collect_run(planned: PlannedRun, campaign: Campaign, store: CampaignStore) -> Collected:
    folder = store.run(planned.run_id)
    state, outcome, told = run_outcome(folder)
    attempts = folder.attempts()
    log = attempts[-1].log if attempts and attempts[-1].log.exists() else None
    formats = FRAMEWORKS[planned.run.framework].log_formats
    seen = attempts[-1].seen if attempts else None
    # What was trained before Slurm started the job again is no part of the run that is measured.
    start = last_start(log) if log and seen and seen.restarts else 0
    # A last line without its newline may be half of one as long as somebody writes.
    complete = outcome is not None
    samples = read_gpu_samples(attempts[-1].folder) if attempts else None
    records = list(read_records(log, formats, start=start, complete=complete)) if log else []
    return Collected(
        planned,
        state,
        outcome,
        told,
        tuple(merge_steps(records)),
        summarise(planned.run, records, campaign.warmup, samples),
        log,
    )


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
