"""Watch a campaign: read the states of its runs repeatedly, and show the changes."""

import io
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fixture_types import AttemptIn, CampaignOf
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.campaign.campaign import Campaign
from orchestrator.cli.main import main
from orchestrator.common import locks
from orchestrator.status import watch as watching
from orchestrator.status.progress import Progress
from orchestrator.status.watch import Look, Watch, WatchedRun
from orchestrator.status.watch_terminal import picture, show_plain
from orchestrator.status.watch_text import chosen, left_text, others_text, state_text
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.folders import write_ended, write_job_state
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Attempt, Ended, Intent

CAMPAIGN = """\
name: watched
defaults: {framework: gpt, model: s, train_iters: 20}
matrix: {strategy: [ddp]}
repeats: 4
warmup: 2
"""
STEP = (
    "[teralog] iteration {number}/20 | step_seconds {seconds} | samples_per_second 648.04"
    " | loss 6.5 | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402\n"
)


def steps(last: int, seconds: float = 0.2) -> str:
    """Return a log with step reports of the iterations 1 to `last`."""
    return "".join(STEP.format(number=number, seconds=seconds) for number in range(1, last + 1))


@pytest.fixture
def campaign(campaign_of: CampaignOf) -> Campaign:
    """Return a campaign of one configuration with four repeats."""
    return campaign_of(CAMPAIGN)


@pytest.fixture
def store(campaign: Campaign, tmp_path: Path) -> CampaignStore:
    """Return the store of the campaign's results."""
    return campaign_store(tmp_path / "results", campaign.name)


class Supervised:
    """The campaign's runs on this machine, and the locks that their supervisors would hold."""

    def __init__(self, campaign: Campaign, store: CampaignStore, attempt_in: AttemptIn) -> None:
        self.folders = [store.run(planned.run_id) for planned in campaign.runs]
        self._attempt_in = attempt_in
        self.locks: dict[int, int | None] = {}

    def begin(self, index: int, log: str) -> Attempt:
        """Start an attempt of a run whose log has this text."""
        attempt = self._attempt_in(self.folders[index], log=log)
        self.locks[index] = locks.acquire(self.folders[index].lock)
        return attempt

    def end(self, index: int, state: str = "COMPLETED") -> None:
        """Record the end of a run's last attempt, and release its lock."""
        last = self.folders[index].attempts()[-1]
        write_ended(last.folder, Ended(state, "2026-01-02T03:05:05+00:00", 60.0, 0))
        self.release(index)

    def release(self, index: int) -> None:
        """Release the lock of a run, as if its supervisor had ended."""
        if (lock := self.locks.pop(index, None)) is not None:
            os.close(lock)


@pytest.fixture
def runs(campaign: Campaign, store: CampaignStore, attempt_in: AttemptIn) -> Iterator[Supervised]:
    """Return the campaign's runs, which the test starts and ends."""
    supervised = Supervised(campaign, store, attempt_in)
    yield supervised
    for index in list(supervised.locks):
        supervised.release(index)


def test_an_update_shows_state_progress_and_time_left_of_every_run(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """Each update of `watch` shows the state, progress and time left of every run.

    If a log has grown, the next update shows more progress.
    """
    log = runs.begin(0, steps(5)).log
    watch = Watch(campaign, store)
    first, *others = watch.look().runs
    assert first.status.state == "RUNNING"
    assert (first.progress.iteration, first.progress.iterations) == (5, 20)
    assert first.progress.step_seconds == pytest.approx(0.2)
    assert left_text(first) == "0:00:03"
    assert first.node_list == "here"
    assert [other.status.state for other in others] == ["NOT_STARTED"] * 3
    with log.open("a") as file:
        file.write(STEP.format(number=6, seconds=0.2) + STEP.format(number=7, seconds=0.2)[:-1])
    assert watch.look().runs[0].progress.iteration == 6
    runs.end(0)
    last = watch.look().runs[0]
    # A run that has ended has no time left, and its last line is complete.
    assert (last.status.state, last.progress.iteration, left_text(last)) == ("COMPLETED", 7, None)


def test_the_slow_one_of_the_siblings_is_reported_while_it_runs(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """A slow run is reported as soon as it has three step reports after its warm-up."""
    log = runs.begin(3, steps(4, 0.4)).log
    for index in range(3):
        runs.begin(index, steps(20))
        runs.end(index)
    watch = Watch(campaign, store)
    assert watch.look().slow == []
    with log.open("a") as file:
        file.write(STEP.format(number=5, seconds=0.4))
    (slow,) = watch.look().slow
    assert str(slow).startswith("gpt r4 on here: slow: 0.40 s per step, 2.0 ")


def test_a_run_that_is_started_again_is_compared_with_itself(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """If a run is started again, `watch` shows the progress of the new attempt.

    The run is compared with its own earlier attempts.
    """
    runs.begin(0, steps(9))
    runs.end(0, "FAILED")
    watch = Watch(campaign, store)
    assert watch.look().runs[0].progress.iteration == 9
    runs.begin(0, steps(6, 0.5))
    watched = watch.look().runs[0]
    assert (len(watched.status.attempts), watched.progress.iteration) == (2, 6)
    assert watched.slow is not None
    assert watched.slow.others == "earlier attempts"


def test_a_run_is_compared_with_the_same_run_of_other_campaigns(
    campaign: Campaign, store: CampaignStore, runs: Supervised, attempt_in: AttemptIn
) -> None:
    """A run is compared with completed runs of the same configuration in other campaigns.

    In a rehearsal, runs are not compared, because they do not train.
    """
    before = replace(campaign, name="last-week")
    others = Supervised(before, campaign_store(store.path.parent, before.name), attempt_in)
    others.begin(0, steps(20, 0.01))
    others.end(0, "FAILED")
    others.begin(0, steps(20, 0.2))
    others.end(0)
    runs.begin(0, steps(6, 0.5))
    (slow,) = Watch(campaign, store).look().slow
    assert (slow.others, slow.count, slow.usual_seconds) == ("earlier runs", 1, pytest.approx(0.2))
    assert Watch(replace(campaign, rehearsal=True), store).look().slow == []


def test_of_many_other_campaigns_those_last_submitted_count(
    campaign: Campaign, store: CampaignStore, runs: Supervised, attempt_in: AttemptIn
) -> None:
    """Runs are compared with the five campaigns that were submitted last.

    Therefore `watch` stays fast even if there are many earlier measurements, e.g. weekly ones.
    """
    for week in range(8):
        before = replace(campaign, name=f"week-{week}")
        other = campaign_store(store.path.parent, before.name)
        others = Supervised(before, other, attempt_in)
        others.begin(0, steps(20, 0.1 if week < 3 else 0.2))
        others.end(0)
        other.save_submission(before)
        os.utime(other.path / "campaign.json", (week, week))
    runs.begin(0, steps(6, 0.5))
    (slow,) = Watch(campaign, store).look().slow
    assert (slow.count, slow.usual_seconds) == (5, pytest.approx(0.2))


def test_a_watch_goes_on_until_all_have_ended(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """`watch` goes on while a run is active.

    It also goes on while a `submit` is active that will start the next run.
    """
    watch = Watch(campaign, store)
    assert not watch.look().under_way
    runs.begin(0, "")
    assert watch.look().under_way
    store.path.mkdir(exist_ok=True)
    lock = locks.acquire(store.submit_lock)
    assert lock is not None
    runs.end(0)
    assert watch.look().under_way
    os.close(lock)
    assert not watch.look().under_way


def test_a_log_that_cannot_be_read_is_a_note(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """If a log cannot be read, a note reports it, and the other runs are still shown."""
    log = runs.begin(0, "").log
    log.unlink()
    log.mkdir()
    runs.begin(1, steps(7))
    look = Watch(campaign, store).look()
    assert look.notes == (f"{log}: cannot be read: Is a directory",)
    assert look.runs[1].progress.iteration == 7


class Clock:
    """A clock that the test sets, in place of the clock of `watch`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the time that the test has set."""
        return self.now


def test_slurm_is_asked_every_ten_seconds_and_its_logs_are_read_each_time(
    campaign_of: CampaignOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`watch` queries Slurm at most every ten seconds, but reads the logs at every update.

    In this test, Slurm's commands fail and record each call.
    """
    (tmp_path / "slurm.yaml").write_text("gpus_per_node: 1\n")
    campaign = campaign_of(CAMPAIGN + "cluster: slurm.yaml\n")
    store = campaign_store(tmp_path / "results", campaign.name)
    folder = store.run(campaign.runs[0].run_id)
    intent = Intent("batch", "elsewhere", "2026-01-02T03:04:05+00:00")
    assert folder.claim(1, intent)
    (attempt,) = folder.attempts()
    write_job_state(attempt.folder, JobState("7", "RUNNING", by="squeue", nodes="gpu[001-002]"))
    attempt.log.write_text(steps(3))
    asked = tmp_path / "asked"
    for program in ("sacct", "squeue", "scontrol"):
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho {program} >> "{asked}"\nexit 1\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    watch = Watch(campaign, store)
    first = watch.look()
    assert any("Slurm gave no answer" in note for note in first.notes)
    assert (first.runs[0].status.state, first.runs[0].node_list) == ("RUNNING", "gpu[001-002]")
    calls = len(asked.read_text().splitlines())
    assert calls
    clock.now = 9.9
    with attempt.log.open("a") as file:
        file.write(STEP.format(number=4, seconds=0.2))
    look = watch.look()
    assert look.runs[0].progress.iteration == 4
    # A missing answer is reported as long as it is missing.
    assert look.notes == first.notes
    assert len(asked.read_text().splitlines()) == calls
    clock.now = 10.0
    watch.look()
    assert len(asked.read_text().splitlines()) == 2 * calls


@pytest.fixture
def look(campaign: Campaign, store: CampaignStore, runs: Supervised) -> Look:
    """Return an update of `watch` with a slow run, a completed, a failed and an unstarted run."""
    runs.begin(0, steps(12, 0.5))
    runs.begin(1, steps(20))
    runs.end(1)
    runs.begin(2, steps(20))
    runs.end(2, "FAILED")
    return Watch(campaign, store).look()


def plain_output(looks: list[Look]) -> tuple[list[str], list[str]]:
    """Return what `watch` prints for these updates if its output is not a terminal.

    The two lists are the texts on stdout and the messages on stderr.
    """
    texts: list[str] = []
    complaints: list[str] = []
    show_plain(looks, texts.append, complaints.append)
    return texts, complaints


def labels(text: str) -> list[str]:
    """Return the labels of the runs in a printed table."""
    return re.findall(r"^[0-9a-f]{12}  gpt (r\d)", text, re.MULTILINE)


def test_a_pipe_gets_only_changes(look: Look) -> None:
    """To a pipe, `watch` prints all runs at first and at the end.

    In between it prints only the runs that have changed.
    """
    going = replace(look.runs[0], progress=Progress(iteration=13, iterations=20))
    later = replace(look, runs=(going, *look.runs[1:]))
    texts, _ = plain_output([look, look, later, replace(later, under_way=False)])
    assert [labels(text) for text in texts] == [["r1", "r2", "r3", "r4"], ["r1"]]
    ended = replace(going, progress=Progress(iteration=20, iterations=20))
    last = replace(later, runs=(ended, *look.runs[1:]), under_way=False)
    texts, _ = plain_output([look, later, last])
    assert [len(labels(text)) for text in texts] == [4, 1, 4]
    assert "4 runs: 1 running, 1 completed, 1 failed, 1 not started" in texts[0]
    assert "gpt r1 on here: slow: 0.50 s per step, 2.5" in texts[0]


def test_a_note_is_reported_once(look: Look) -> None:
    """A note is printed once, and again only if it has changed."""
    noted = [replace(look, notes=(note,)) for note in ("silent", "silent", "still silent")]
    assert plain_output(noted)[1] == ["silent", "still silent"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (40, 10), (80, 8), (300, 20)])
def test_the_picture_fits_the_terminal(look: Look, width: int, height: int) -> None:
    """What `watch` shows is never wider or higher than the terminal.

    A label that is too long is cut in its middle.
    """
    many = tuple(
        replace(
            run,
            status=replace(run.status, planned=replace(run.status.planned, label=f"{'x' * 70} r7")),
        )
        for run in look.runs * 25
    )
    for shown in (look, Look(many, ("a note " * 30,) * 9, under_way=True)):
        console = Console(width=width, height=height, file=io.StringIO())
        with console.capture() as capture:
            console.print(picture(shown, console))
        lines = capture.get().splitlines()
        assert len(lines) < height
        assert all(len(line) <= width for line in lines)
    # A label is cut in its middle, because its end has the number of the repeat.
    assert width < 80 or any("r7" in line for line in lines)


def test_text_from_a_file_does_not_control_the_terminal(look: Look) -> None:
    """Terminal codes and rich's markup in the text of a file have no effect."""
    first = look.runs[0]
    planned = replace(first.status.planned, label="[red]a\x1b[2J[/red]")
    evil = replace(first, status=replace(first.status, planned=planned), node_list="\x1b]0;x\x07")
    shown = replace(look, runs=(evil, *look.runs[1:]), notes=("\x1b[31m[bold]note",))
    console = Console(width=120, height=30)
    with console.capture() as capture:
        console.print(picture(shown, console))
    text = capture.get()
    assert "[red]a" in text
    assert "[bold]note" in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\x1b" not in plain_output([shown])[0][0]


def state(run: WatchedRun, word: str, outcome: str | None = None, **seen: Any) -> WatchedRun:
    """Return a copy of a run whose job has another state.

    word: the state. outcome: the run's outcome. seen: more fields of the job, e.g. `reason`.
    """
    attempts = tuple(
        replace(attempt, job=JobState("7", word, by="squeue", **seen))
        for attempt in run.status.attempts
    )
    status = replace(run.status, state=word.partition(" ")[0], outcome=outcome, attempts=attempts)
    return replace(run, status=status)


@pytest.mark.parametrize(
    ("word", "outcome", "seen", "text"),
    [
        ("RUNNING", None, {}, "RUNNING"),
        ("PENDING", None, {"reason": "Priority"}, "PENDING (Priority)"),
        ("RUNNING", None, {"restarts": 2}, "RUNNING (restart 2)"),
        ("CANCELLED by 1000", "cancelled", {}, "CANCELLED by 1000"),
        ("FAILED", "oom", {}, "FAILED (oom)"),
        ("COMPLETED", "completed", {"restarts": 1}, "COMPLETED"),
        ("UNKNOWN", "completed", {}, "UNKNOWN (completed)"),
        ("UNKNOWN", "unknown", {}, "UNKNOWN"),
    ],
)
def test_a_state_is_in_slurms_words(
    look: Look, word: str, outcome: str | None, seen: dict[str, Any], text: str
) -> None:
    """A run's state is shown in Slurm's words; parentheses may add one detail.

    The detail is why the run waits, the number of its restarts, or its outcome from the log.
    """
    assert state_text(state(look.runs[0], word, outcome, **seen).status) == text


def test_running_and_recently_ended_runs_are_shown_if_not_all_fit(look: Look) -> None:
    """If not all runs fit, `watch` shows running and recently ended runs, and counts the others.

    The shown runs are in the campaign's order.
    """
    going, ended, failed, waiting = look.runs
    runs = (waiting, ended, *([waiting] * 5), going, failed)
    assert chosen(runs, 99) == list(runs)
    assert chosen(runs, 2) == [ended, going]
    assert chosen(runs, 3) == [ended, going, failed]
    assert chosen(runs, 4) == [waiting, ended, going, failed]
    assert others_text(runs, chosen(runs, 3)) == "and 6 more: 6 not started"
    assert others_text(runs, runs) is None


@pytest.mark.parametrize("word", ["SUBMITTED", "PENDING", "REQUEUED", "CONFIGURING"])
def test_a_run_that_waits_is_of_less_interest_than_one_that_has_ended(
    look: Look, word: str
) -> None:
    """If only one run fits, an ended run is shown, and not a waiting one.

    This holds for each of Slurm's states of waiting jobs.
    """
    _, ended, *_ = look.runs
    waiting = state(look.runs[0], word, None)
    assert chosen((waiting, ended), 1) == [ended]


@given(seconds=st.floats(1e-90, 1e99))
def test_a_damaged_step_time_does_not_stop_a_watch(seconds: float) -> None:
    """A log may contain any number as step time.

    If the time left is too long for a `timedelta`, it is shown as unknown.
    """
    progress = Progress(iteration=1, iterations=20, step_seconds=seconds)
    run = WatchedRun(_Running(), None, progress, None)
    text = left_text(run)
    assert text is None or re.fullmatch(r"(\d+ days?, )?\d+:\d\d:\d\d", text)


class _Running:
    """A minimal status of a run: it has only the fields for state and outcome."""

    state = "RUNNING"
    outcome = None


def test_watch_exits_with_1_if_a_run_failed_and_prints_the_next_command(
    campaign: Campaign, store: CampaignStore, runs: Supervised
) -> None:
    """If all runs have ended and one of them failed, `watch` exits with code 1.

    It prints the command that starts the failed run again.
    """

    def watch(*arguments: str) -> Any:
        results = str(store.path.parent)
        return CliRunner().invoke(
            main, ["watch", str(campaign.path), "--results", results, *arguments]
        )

    unstarted = watch()
    assert unstarted.exit_code == 0
    assert "4 runs have not been started; `teralog submit" in unstarted.stderr
    runs.begin(0, steps(20))
    once = watch("--once")
    assert once.exit_code == 0
    assert len(labels(once.stdout)) == 4
    assert once.stderr == ""
    for index in range(1, 4):
        runs.begin(index, steps(20))
        runs.end(index)
    runs.end(0, "FAILED")
    ended = watch("--interval", "0.1")
    assert ended.exit_code == 1
    assert "gpt r1: FAILED" in ended.stderr
    assert "teralog retry" in ended.stderr
    assert watch("--interval", "0").exit_code == 2
