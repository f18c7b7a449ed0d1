"""Find hung runs: runs that are active, but have printed nothing for an unusually long time."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from fixture_types import AttemptIn, CampaignOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.cli.main import main
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.hardware.cluster import Cluster
from orchestrator.status import silent_logs
from orchestrator.status.hung_runs import is_hung
from orchestrator.status.on_hang import OnHang, refuse_on_hang
from orchestrator.status.silent_logs import FileClock, campaign_hung_runs, find_hung_runs
from orchestrator.status.table import RunStatus, run_statuses
from orchestrator.status.watch import Watch
from orchestrator.status.watch_text import watch_warnings, watched_state
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Attempt, Intent

CAMPAIGN = """\
name: hangs
defaults: {framework: gpt, model: s, train_iters: 20}
matrix: {seed: [1, 2]}
warmup: 2
"""
STEP = (
    "[teralog] iteration {number}/20 | step_seconds {seconds} | samples_per_second 648.04"
    " | loss 6.5 | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402\n"
)


def steps(seconds: float, every: int = 1, reports: int = 6) -> str:
    """Return a log with this many step reports.

    There is one report per `every` steps, and each step takes `seconds`.
    """
    numbers = range(every, every * reports + 1, every)
    return "".join(STEP.format(number=number, seconds=seconds) for number in numbers)


@pytest.fixture
def campaign(campaign_of: CampaignOf) -> Campaign:
    """Return a campaign of two runs."""
    return campaign_of(CAMPAIGN)


@pytest.fixture
def store(campaign: Campaign, tmp_path: Path) -> CampaignStore:
    """Return the store of the campaign's results."""
    return campaign_store(tmp_path / "results", campaign.name)


Begin = Callable[..., Attempt]


@pytest.fixture
def begin(campaign: Campaign, store: CampaignStore, attempt_in: AttemptIn) -> Iterator[Begin]:
    """Return a function that starts a run.

    index: the run's index in the campaign. log: the text of its log. age: how many seconds ago the
    log was last written.
    """
    held: list[int | None] = []

    def start(index: int, log: str, age: float) -> Attempt:
        folder = store.run(campaign.runs[index].run_id)
        attempt = attempt_in(folder, log=log)
        held.append(locks.acquire(folder.lock))
        written = time.time() - age
        os.utime(attempt.log, (written, written))
        return attempt

    yield start
    for lock in held:
        if lock is not None:
            os.close(lock)


@pytest.mark.parametrize(
    ("silent", "report", "expected"),
    [
        (61.0, 0.2, True),
        (59.0, 0.2, False),
        (61.0, 6.0, True),
        (61.0, 6.2, False),
        (1001.0, 100.0, True),
        (999.0, 100.0, False),
        (1e9, None, False),
        (0.0, 0.0, False),
    ],
)
def test_a_run_hangs_after_ten_times_its_own_report_time_and_a_minute(
    silent: float, report: float | None, expected: bool
) -> None:
    """A run hangs if it prints nothing for more than a minute and ten times its report time.

    The report time is the time between two step reports. A run without a known report time never
    counts as hung.
    """
    assert is_hung(silent, report) == expected


@pytest.mark.parametrize(
    ("log", "age", "hangs"),
    [
        (steps(0.2), 100, True),
        (steps(0.2), 0, False),
        (steps(0.2), -3600, False),
        (steps(20.0), 100, False),
        (steps(20.0), 300, True),
        # With a report every 50 steps, the log is silent for 50 steps each time.
        (steps(0.2, every=50), 70, False),
        (steps(0.2, every=50), 200, True),
        # The run is still in its warm-up.
        (steps(0.2, reports=1), 100, True),
        (steps(20.0, reports=2), 100, False),
        ("loading\n", 1e6, False),
        ("", 1e6, False),
    ],
)
def test_a_run_is_judged_by_its_own_steps(
    campaign: Campaign, store: CampaignStore, begin: Begin, log: str, age: float, hangs: bool
) -> None:
    """How long a run may print nothing depends on its own step times.

    `status` and `watch` use the same limit.
    """
    begin(0, log, age)
    identity = campaign.runs[0].run_id
    hung = campaign_hung_runs(campaign, store, run_statuses(campaign, store))
    assert list(hung) == [identity] * hangs
    look = Watch(campaign, store).look()
    assert [run.status.planned.run_id for run in look.hung] == [identity] * hangs


@pytest.mark.parametrize(
    ("log", "hangs"),
    [(steps(20.0) + steps(0.2), True), (steps(0.2) + steps(20.0), False)],
)
def test_of_several_trainings_in_a_log_status_judges_by_the_last_one(
    campaign: Campaign, store: CampaignStore, begin: Begin, log: str, hangs: bool
) -> None:
    """If a log has several launches, the report time is that of the last launch."""
    begin(0, log, 100)
    hung = campaign_hung_runs(campaign, store, run_statuses(campaign, store))
    assert bool(hung) == hangs


def test_a_hung_run_is_reported_with_its_last_line_and_the_time(
    campaign: Campaign, store: CampaignStore, begin: Begin
) -> None:
    """The message about a hung run has the last line of its log, and the time of its last output.

    The line has no terminal control codes, and no text that a progress bar overwrote.
    """
    attempt = begin(0, steps(0.2) + "10%\rsaving\x1b[31m a checkpoint\n\n", 100)
    [hung] = campaign_hung_runs(campaign, store, run_statuses(campaign, store)).values()
    assert hung.last_line == "saving a checkpoint"
    assert hung.silent_since.timestamp() == pytest.approx(attempt.log.stat().st_mtime)
    assert hung.silent_seconds >= 99
    assert hung.report_seconds == pytest.approx(0.2)
    text = str(hung)
    assert text.startswith("seed=1 on here: may hang: no output since 20")
    assert "but usually a step report every 0.20 s; last line: saving" in text
    look = Watch(campaign, store).look()
    assert watched_state(look.runs[0]) == "RUNNING, hung"
    assert watch_warnings(look)[0].startswith("seed=1 on here: may hang")


def test_a_run_that_has_ended_does_not_hang(
    campaign: Campaign, store: CampaignStore, attempt_in: AttemptIn
) -> None:
    """An ended run does not count as hung, however old its log is."""
    attempt = attempt_in(store.run(campaign.runs[0].run_id), log=steps(0.2), state="COMPLETED")
    os.utime(attempt.log, (1, 1))
    assert campaign_hung_runs(campaign, store, run_statuses(campaign, store)) == {}


def test_a_job_that_slurm_started_again_is_silent_since_that_start(
    campaign: Campaign, store: CampaignStore, begin: Begin
) -> None:
    """After a requeue, the time without output is counted from the job's new start.

    The log is older: until the job prints again, the log's last line is from the earlier start.
    """
    begin(0, steps(0.2), 3600)
    [status, _] = run_statuses(campaign, store)
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())

    def started(text: str) -> RunStatus:
        job = JobState("7", "RUNNING", by="squeue", started_at=text)
        attempt = replace(status.attempts[-1], started=None, job=job)
        attempt = replace(attempt, intent=Intent("b", "here", text))
        return replace(status, attempts=(attempt,))

    def find(status: RunStatus) -> bool:
        return bool(find_hung_runs([status], FileClock(store.path), lambda _: 0.2))

    assert find(started("2026-01-02T03:04:05+00:00"))
    assert not find(started(now))


def test_a_clock_of_this_machine_that_is_wrong_flags_no_run(
    campaign: Campaign, store: CampaignStore, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong clock of this machine makes no run look hung, even if it changes during `watch`."""
    real = time.time
    begin(0, steps(0.2), 0)
    clock = FileClock(store.path)
    for ahead in (3600, -3600):
        monkeypatch.setattr(silent_logs.time, "time", lambda ahead=ahead: real() + ahead)
        for file_clock in (clock, FileClock(store.path)):
            statuses = run_statuses(campaign, store)
            assert find_hung_runs(statuses, file_clock, lambda _: 0.2) == {}


def test_without_a_file_of_its_own_the_newest_log_is_the_clock(
    campaign: Campaign, store: CampaignStore, begin: Begin, tmp_path: Path
) -> None:
    """If teralog cannot create a file to read the file server's clock, the newest log is the clock.

    The time at which this log was last written counts as now. So a run with an old log hangs only
    if another run has a new log.
    """
    clock = FileClock(tmp_path / "no such folder")
    begin(0, steps(0.2), 3600)
    assert find_hung_runs(run_statuses(campaign, store), clock, lambda _: 0.2) == {}
    begin(1, steps(0.2), 0)
    hung_runs = find_hung_runs(run_statuses(campaign, store), clock, lambda _: 0.2)
    [hung_run] = hung_runs.values()
    assert hung_run.label == "seed=1"
    assert hung_run.silent_seconds == pytest.approx(3600, abs=60)


def test_the_clock_leaves_no_file_behind(tmp_path: Path) -> None:
    assert FileClock(tmp_path).now(0.0) == pytest.approx(tmp_path.stat().st_mtime, abs=600)
    assert list(tmp_path.iterdir()) == []


def test_status_shows_hung_runs_in_the_table_and_in_json(
    campaign: Campaign, store: CampaignStore, begin: Begin
) -> None:
    """`status` reports a hung run in its text and its JSON; `--state hung` selects the run."""
    begin(0, steps(0.2), 100)
    command = ["status", str(campaign.path), "--results", str(store.path.parent)]
    assert "seed=1 on here: may hang" in CliRunner().invoke(main, command).output
    chosen = CliRunner().invoke(main, [*command, "--state", "hung", "--json"]).output
    assert chosen.count('"run_id"') == 1
    assert '"report_seconds": 0.2' in chosen


@pytest.mark.parametrize(
    ("scheduler", "requeue", "what", "part"),
    [
        ("local", None, "requeue", "needs Slurm"),
        ("slurm", False, "requeue", "has `requeue: false`"),
        ("slurm", True, "requeue", None),
        ("slurm", None, "requeue", None),
        ("slurm", False, "cancel", None),
        ("local", None, "cancel", None),
    ],
)
def test_an_impossible_action_on_hung_runs_is_refused_first(
    campaign: Campaign, scheduler: str, requeue: bool | None, what: str, part: str | None
) -> None:
    """If hung runs cannot be requeued, `--on-hang requeue` is refused before `watch` starts.

    The message suggests `--on-hang cancel` instead.
    """
    cluster: Cluster = replace(campaign.cluster, scheduler=scheduler, requeue=requeue)
    other = replace(campaign, cluster=cluster)
    if part is None:
        refuse_on_hang(other, what)
        return
    with pytest.raises(UserError, match=part) as caught:
        refuse_on_hang(other, what)
    assert "--on-hang cancel" in str(caught.value)


def test_each_start_of_a_hung_run_is_handled_once(
    campaign: Campaign, store: CampaignStore, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`watch` acts once on each start of a hung run.

    If the action fails, `watch` reports that once and goes on.
    """
    begin(0, steps(0.2), 100)
    act = OnHang(campaign, store, "cancel")

    def refuse(status: RunStatus) -> str:
        raise UserError("no")

    monkeypatch.setattr(act, "_cancel", refuse)
    look = Watch(campaign, store).look()
    [sentence] = act(look)
    assert sentence.startswith("seed=1 on here: may hang")
    assert sentence.endswith(": could not be cancelled or requeued: no")
    assert list(act(look)) == []


@pytest.mark.parametrize(
    ("job", "part"),
    [
        (None, "the run is not a job of its own, but part of an allocation"),
        (JobState("7", "RUNNING", by="squeue", restarts=3), "the run hangs again after 3 restarts"),
    ],
)
def test_some_hung_runs_are_only_reported(
    campaign: Campaign, store: CampaignStore, begin: Begin, job: JobState | None, part: str
) -> None:
    """With `--on-hang requeue`, a hung run that is a step of an allocation is only reported.

    The same holds for a hung run whose job has had MOST_RESTARTS restarts.
    """
    begin(0, steps(0.2), 100)
    slurm = replace(campaign, cluster=replace(campaign.cluster, scheduler="slurm"))
    look = Watch(campaign, store).look()
    run = look.runs[0]
    attempts = tuple(replace(attempt, job=job, started=None) for attempt in run.status.attempts)
    run = replace(run, status=replace(run.status, attempts=attempts))
    [sentence] = OnHang(slurm, store, "requeue")(replace(look, runs=(run,)))
    assert f": not requeued, because {part}" in sentence
