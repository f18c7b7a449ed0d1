"""Build the data of one run for the HTML page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.report.html.page import nodes_of
from orchestrator.report.html.series import Curve, series
from orchestrator.run.model import sizes
from orchestrator.status.log_text import Tail
from orchestrator.store.records import Attempt

_STEPS, _LINES = 400, 100
# With more runs than the first number, the page contains less data per run. With more runs than the
# second number, it contains no job scripts and configuration files. Then a page with up to about
# 200 runs is smaller than 1 MB, without plotly.
_RUNS_IN_FULL, _RUNS_WITH_TEXTS = 60, 150
_LEAST = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How much data per run a page contains.

    steps: the number of curve points. lines: the number of log lines. texts: whether the page
    contains job scripts and configuration files.
    """

    steps: int
    lines: int
    texts: bool


def limits(runs: int) -> Limits:
    """Return how much data of each run a page with `runs` runs contains.

    The more runs, the less data per run, so that the page stays small enough for a browser.
    """
    share = min(1.0, _RUNS_IN_FULL / max(runs, 1))
    return Limits(
        max(int(_STEPS * share), _LEAST),
        max(int(_LINES * share), _LEAST),
        texts=runs <= _RUNS_WITH_TEXTS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAttempt:
    """One start of a run; times are UTC, ISO 8601."""

    number: int
    state: str
    started_at: str | None
    seconds: float | None
    nodes: tuple[str, ...]
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """The data of one run: its settings, its curves and its end.

    ended: whether the run was started and has ended, so that a log is expected.
    log_line: the line of the log that reports the run's end.
    warmup: the last warm-up iteration of the run's first launch.
    step_seconds: the step times of reports without a skipped update.
    skipped_seconds: the step times of reports with a skipped update.
    sizes: every parameter and size.
    texts: job script and configuration files, by name; None if the page has too many runs to
        include them.
    """

    run_id: str
    state: str
    ended: bool
    log_line: str | None
    warmup: int
    loss: Curve
    step_seconds: Curve
    skipped_seconds: Curve
    attempts: tuple[PageAttempt, ...]
    sizes: Mapping[str, Any]
    texts: Mapping[str, str] | None
    log: Tail | None


def make_detail(
    campaign: Campaign,
    run: Collected,
    texts: Mapping[str, str] | None,
    log: Tail | None,
    points: int,
) -> Detail:
    """Return the data of a run for the page, with curves of about `points` points at most.

    texts: the job script and configuration files, by name; None to leave them out. log: the last
    lines of the run's log; None without a log.
    """
    reports, outcome = run.reports, run.log_outcome
    iterations = [*reports.every("iteration")]
    seconds = [time for launch in reports.launches for time in launch.step_seconds]
    skips = [skip for launch in reports.launches for skip in launch.skips]

    def curve(values: Iterable[float | None], shown: Iterable[bool] | None = None) -> Curve:
        points_of = zip(iterations, values, strict=True)
        return series(points_of if shown is None else compress(points_of, shown), points)

    return Detail(
        run_id=run.planned.run_id,
        state=run.state,
        ended=run.outcome not in (None, RunOutcome.GIVEN_UP),
        log_line=outcome.text if outcome else None,
        warmup=max([0, *(launch.last_warmup for launch in reports.launches[:1])]),
        loss=curve(reports.every("loss")),
        step_seconds=curve(seconds, map(not_, skips)),
        skipped_seconds=curve(seconds, skips),
        attempts=tuple(_attempt(attempt, campaign) for attempt in run.attempts),
        sizes=sizes(run.planned.run),
        texts=texts,
        log=log,
    )


def _attempt(attempt: Attempt, campaign: Campaign) -> PageAttempt:
    ended, job, started = attempt.ended, attempt.job, attempt.started
    begun = started.started_at if started else job.started_at if job else None
    return PageAttempt(
        number=attempt.number,
        state=ended.state if ended else attempt.slurm_state if attempt.intent else "not ended",
        started_at=begun,
        seconds=ended.seconds if ended else None,
        nodes=nodes_of(attempt),
        job_id=job.job_id if job else None,
    )
