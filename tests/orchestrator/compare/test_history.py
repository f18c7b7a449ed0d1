"""`teralog history` on simulated runs of several campaigns."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.campaign.campaign import load_campaign
from orchestrator.cli.main import main
from orchestrator.common.tables import as_text
from orchestrator.compare.history import (
    history_record,
    history_sentences,
    history_table,
    run_history,
)
from orchestrator.compare.past_runs import PastRun, configuration
from orchestrator.store.campaign_store import campaign_store
from orchestrator.store.folders import write_ended, write_job_state, write_started
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Ended, Intent, Started
from orchestrator.submit.render import render_runs

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CAMPAIGN = """\
name: {name}
defaults:
  framework: gpt
  model: {{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}}
  train_iters: 10
{lines}"""
START = (
    "[teralog] start | strategy ddp | world_size 1 | backend gloo | device cpu | precision fp32 "
    "| parameters 136960 | torch {torch}\n"
)
LINE = (
    "[teralog] iteration {step}/10 | step_seconds {seconds:.9f} | samples_per_second 1 | loss 6 | "
    "memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2\n"
)


def past(seconds: float | None, day: int, **values: Any) -> PastRun:
    """Return a simulated run.

    seconds: its step time; None if it has none. day: the number of the day on which it started.
    values: further fields of `PastRun`.
    """
    started_at = (BEGIN + timedelta(days=day)).isoformat()
    given = {"campaign": "c", "run_id": f"{day:012x}", "label": "ddp", "attempt": 1}
    return PastRun(started_at=started_at, step_seconds=seconds, **(given | values))


def noisy(*levels: float) -> list[float]:
    """Return one step time in seconds for each of these mean values, with random noise of 1 %."""
    chance = random.Random(1)
    return [level * math.exp(chance.gauss(0, 0.01)) for level in levels]


def test_the_point_where_steps_began_to_take_longer_is_named() -> None:
    """The history names the last run before a change and the first one after it.

    It also lists what else changed, e.g. the version of torch, or the nodes.
    """
    before = [
        past(step_seconds, day, versions={"torch": "2.1"})
        for day, step_seconds in enumerate(noisy(*[1.0] * 6))
    ]
    after = [
        past(step_seconds, 6 + day, versions={"torch": "2.2"}, nodes="n7")
        for day, step_seconds in enumerate(noisy(*[1.2] * 5))
    ]
    past_runs = run_history([*before, *after])
    assert past_runs.shown is not None
    assert past_runs.shown.first is after[0]
    assert past_runs.shown.last is before[-1]
    assert past_runs.shown.ratio == pytest.approx(1.2, rel=0.02)
    sentence = " ".join(history_sentences(past_runs))
    assert "longer since 2026-01-07T00:00:00+00:00 (c 000000000006)" in sentence
    assert "torch 2.1 → 2.2, nodes — → n7" in sentence
    assert history_record(past_runs)["largest"]["since"] == 6


def test_steps_that_take_less_are_a_change_too() -> None:
    """Steps that take less time, e.g. since a repair, are reported as a change too."""
    past_runs = run_history(
        [past(step_seconds, day) for day, step_seconds in enumerate(noisy(*[1.2] * 5, *[1.0] * 5))]
    )
    assert "shorter since 2026-01-06" in history_sentences(past_runs)[0]


def test_runs_of_one_allocation_count_once() -> None:
    """All runs of one allocation count as one run.

    Six slow runs after six fast ones show a change if each run is in a separate allocation. They
    show no change if they are in only two allocations.
    """
    times = noisy(*[1.0] * 6, *[1.2] * 6)
    alone = run_history([past(step_seconds, day) for day, step_seconds in enumerate(times)])
    together = run_history(
        [
            past(step_seconds, day, allocation=str(day // 6))
            for day, step_seconds in enumerate(times)
        ]
    )
    assert alone.shown is not None
    assert (together.timed, together.units, together.shown) == (12, 2, None)
    assert history_sentences(together)[0].endswith(
        "No change is visible in these 12 runs in 2 allocations (each allocation counts "
        "once): at least 8 separate runs are needed."
    )


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        ([], "No change is visible in these 0 runs"),
        ([1.0], "No change is visible in this 1 run"),
        (
            [1.0, 9.0],
            "No change is visible in these 2 runs: at least 8 separate runs are needed",
        ),
        (noisy(*[1.0] * 9), "No change is visible in these 9 runs: the clearest change, "),
        ([None, 1.0], "No change is visible in this 1 run"),
    ],
)
def test_what_the_runs_cannot_show_is_reported(
    seconds: Sequence[float | None], sentence: str
) -> None:
    """If no change is visible, a sentence reports that, with the number of runs."""
    past_runs = run_history([past(step_seconds, day) for day, step_seconds in enumerate(seconds)])
    assert past_runs.shown is None
    assert history_sentences(past_runs)[0].startswith(sentence)


def test_text_from_files_cannot_control_the_terminal() -> None:
    """Control codes in a node's name or in a version never reach the terminal."""
    bad = {"nodes": "n\x1b[2J", "versions": {"torch": "\x1b]0;x\x07"}}
    runs = [past(step_seconds, day) for day, step_seconds in enumerate(noisy(*[1.0] * 4))]
    runs += [
        past(step_seconds, 4 + day, **bad) for day, step_seconds in enumerate(noisy(*[1.2] * 4))
    ]
    past_runs = run_history(runs)
    sentences = history_sentences(past_runs)
    assert "nodes" in sentences[1]
    for text in (*sentences, as_text(history_table(past_runs))):
        assert "\x1b" not in text


def test_runs_without_a_step_time_are_counted() -> None:
    """The table shows runs without a step time, but the computation leaves them out."""
    past_runs = run_history([past(None, 0), past(1.0, 1)])
    assert history_sentences(past_runs)[-1] == "1 run completed without a step time."
    assert past_runs.timed == 1


class Folder:
    """A folder with campaigns whose runs started one per day."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results = path / "results"
        self.day = 0

    def campaign(self, name: str, lines: str, *seconds: float, **made: Any) -> Path:
        """Write a campaign with one attempt per run, started one per day; return the campaign file.

        lines: further lines of the file. seconds: the step time of each run. made: further
        arguments of `attempt`; or `rehearsal=True`, if the attempts are rehearsals.
        """
        file = self.path / f"{name}.yaml"
        file.write_text(CAMPAIGN.format(name=name, lines=lines))
        campaign = replace(load_campaign(file), rehearsal=made.pop("rehearsal", False))
        store = campaign_store(self.results, name, rehearsal=campaign.rehearsal)
        render_runs(campaign, campaign.runs, store)
        store.save_submission(campaign)
        for planned, step_seconds in zip(campaign.runs, seconds, strict=True):
            self.attempt(store.run(planned.run_id), step_seconds, **made)
        return file

    def attempt(
        self, folder: Any, seconds: float, state: str = "COMPLETED", torch: str = "2.1"
    ) -> None:
        """Write an attempt that started one day after the previous one.

        folder: the folder of its run. seconds: the step time. state: the state at the end. torch:
        the version of torch in the log.
        """
        attempt = folder.new_attempt()
        started_at = (BEGIN + timedelta(days=self.day)).isoformat()
        self.day += 1
        write_started(attempt.folder, Started(1, "here", "t", started_at, 60, ("0",)))
        steps = [LINE.format(step=step, seconds=seconds) for step in range(1, 11)]
        attempt.log.write_text(START.format(torch=torch) + "".join(steps))
        write_ended(attempt.folder, Ended(state, started_at, 1.0))

    def history(self, *arguments: str | Path) -> Result:
        """Run `teralog history` in the folder."""
        given = ["history", *map(str, arguments), "--results", str(self.results)]
        return CliRunner().invoke(main, given)

    def runs(self, *arguments: str | Path) -> Any:
        """Return the runs in the JSON of `teralog history`."""
        done = self.history(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["runs"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return an empty folder for simulated campaigns."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return Folder(tmp_path)


def test_campaigns_of_other_names_count_and_repeats_and_seeds(folder: Folder) -> None:
    """`history` shows the runs of one configuration in the order of time, from all campaigns.

    It includes runs with other seeds, repeats or time limits. It leaves out runs with any other
    difference.
    """
    june = folder.campaign("june", "repeats: 2\n", 0.1, 0.2)
    folder.campaign("may", "matrix: {seed: [5, 6]}\n", 0.3, 0.4)
    folder.campaign("other", "matrix: {micro_batch_size: [2, 1], precision: [bf16]}\n", 0.5, 0.6)
    folder.campaign("later", "  time_limit: 5\n", 0.7)
    runs = folder.runs(june, "gpt r1")
    assert [run["campaign"] for run in runs] == ["june", "june", "may", "may", "later"]
    assert [run["step_seconds"] for run in runs] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.7])
    assert runs[0]["started_at"] == "2026-01-01T00:00:00+00:00"
    assert runs[0]["versions"] == {"torch": "2.1"}
    assert runs[0]["tflops_per_gpu"] == pytest.approx(2 * runs[1]["tflops_per_gpu"])


def test_every_attempt_that_completed_counts_and_no_other(folder: Folder) -> None:
    """`history` shows each completed attempt, even if a later attempt of the run failed.

    It shows no rehearsals.
    """
    file = folder.campaign("one", "", 0.1)
    run = campaign_store(folder.results, "one").run(load_campaign(file).runs[0].run_id)
    folder.attempt(run, 0.2, state="FAILED")
    folder.attempt(run, 0.3)
    folder.attempt(run, 0.4, state="TIMEOUT")
    folder.campaign("two", "", 0.5, rehearsal=True)
    runs = folder.runs(file, "gpt")
    assert [run["attempt"] for run in runs] == [1, 3]


def test_jobs_of_slurm_count_and_are_ordered_by_its_clock(folder: Folder) -> None:
    """`history` also shows runs on Slurm, in the order of the start times that Slurm reports.

    These times have no time zone; they are in the time zone of this machine.
    """
    file = folder.campaign("one", "repeats: 2\n", 0.1, 0.2)
    first, second = load_campaign(file).runs
    store = campaign_store(folder.results, "one")
    for planned, node, day in ((first, "n[1-2]", 7), (second, "n3", 6)):
        run = store.run(planned.run_id)
        (local,) = run.attempts()
        assert run.claim(2, Intent("batch", "login", "2026-01-01T00:00:00+00:00"))
        attempt = run.attempts()[-1]
        attempt.log.write_text(local.log.read_text())
        start = f"2026-01-0{day}T03:00:00"
        job = JobState(f"7_{day}", "COMPLETED", "sacct", nodes=node, started_at=start)
        write_job_state(attempt.folder, job)
        write_ended(attempt.folder, Ended("COMPLETED", "2026-01-09T00:00:00+00:00", 1.0))
    runs = folder.runs(file, "gpt r1")
    assert [run["nodes"] for run in runs] == ["here", "here", "n3", "n[1-2]"]
    assert [run["allocation"] for run in runs[2:]] == ["7_6", "7_7"]


def test_a_campaign_whose_file_is_gone_is_given_by_its_folder(folder: Folder) -> None:
    """If a campaign's file was deleted, the user can give its results folder instead.

    A run can be given by the first digits of its id.
    """
    file = folder.campaign("old", "matrix: {strategy: [ddp, zero1]}\n", 0.1, 0.2)
    ddp, zero1 = load_campaign(file).runs
    assert configuration(ddp.run) != configuration(zero1.run)
    file.unlink()
    (run,) = folder.runs(folder.results / "old", zero1.run_id[:6])
    assert (run["run_id"], run["label"]) == (zero1.run_id, "zero1")


def test_the_warmup_of_the_campaign_asked_for_holds_for_all(folder: Folder) -> None:
    """The warm-up of the requested campaign is used for the runs of all campaigns."""
    for name, warmup in (("a", 0), ("b", 9)):
        file = folder.campaign(name, f"warmup: {warmup}\n", 0.1)
        run = load_campaign(file).runs[0]
        (attempt,) = campaign_store(folder.results, name).run(run.run_id).attempts()
        log = attempt.log.read_text().splitlines(keepends=True)
        log[-1] = LINE.format(step=10, seconds=0.5)
        attempt.log.write_text("".join(log))
    for name, median in (("a", 0.1), ("b", 0.5)):
        runs = folder.runs(folder.path / f"{name}.yaml", "gpt")
        assert [run["step_seconds"] for run in runs] == pytest.approx([median, median])


def test_the_table_marks_the_run_since_which_steps_take_longer(folder: Folder) -> None:
    """The table marks the first run after a change; sentences below the table explain it."""
    folder.campaign("old", "repeats: 5\n", *noisy(*[0.1] * 5))
    file = folder.campaign("new", "repeats: 4\n", *noisy(*[0.13] * 4), torch="2.2")
    done = folder.history(file, "gpt r1")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("2026-")]
    assert len(rows) == 9
    assert [row[7] for row in rows] == ["—"] * 5 + [rows[5][7]] + ["—"] * 3
    assert rows[5][7].startswith("+3")
    assert "Steps take 3" in done.stdout
    assert "torch 2.1 → 2.2" in done.stdout


def test_a_run_that_this_version_does_not_know_is_named(folder: Folder) -> None:
    """A run of a framework that this version does not know is named on stderr.

    The other runs are shown.
    """
    file = folder.campaign("new", "", 0.1)
    folder.campaign("old", "", 0.2)
    path = next((folder.results / "old").glob("*/run.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "framework": "gone"}))
    done = folder.history(file, "gpt")
    assert done.exit_code == 0
    assert (
        done.stderr == "not read, because this version of teralog does not know their parameters: "
        f"old/{record['run_id']}\n"
    )


@pytest.mark.parametrize("name", ["run.json", "attempt-1/attempt.json", "attempt-1/ended.json"])
@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
@pytest.mark.parametrize("place", ["other", "own"])
def test_a_damaged_file_leaves_its_run_out_and_no_other(
    folder: Folder, name: str, text: str, place: str
) -> None:
    """If a file of a run is damaged, only this run is left out, whichever campaign it belongs to.

    A line on stderr names the file.
    """
    file = folder.campaign("own", "matrix: {seed: [1, 2]}\n", 0.1, 0.2)
    folder.campaign("other", "matrix: {seed: [3, 4]}\n", 0.3, 0.4)
    damaged = next(
        path
        for path in (folder.results / place).glob(f"*/{name}")
        if json.loads((path.parents[name.count("/")] / "run.json").read_text())["seed"] in (2, 4)
    )
    damaged.write_text(text)
    left = [0.1, 0.2, 0.3] if place == "other" else [0.1, 0.3, 0.4]
    wanted = load_campaign(file).runs[0].run_id
    for given in (file, folder.results / "own"):
        done = folder.history(given, wanted, "--json")
        assert done.exit_code == 0, done.output
        seconds = [run["step_seconds"] for run in json.loads(done.stdout)["runs"]]
        assert seconds == pytest.approx(left)
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"not read: {damaged}: is damaged (")


def test_a_damaged_file_is_reported_once_if_slurm_is_asked_too(
    folder: Folder,
) -> None:
    """A damaged file of a campaign on Slurm is reported only once."""
    cluster = Path(__file__).parents[3] / "examples" / "clusters" / "a100.yaml"
    file = folder.campaign("own", f"matrix: {{seed: [1, 2]}}\ncluster: {cluster}\n", 0.1, 0.2)
    first, second = load_campaign(file).runs
    damaged = campaign_store(folder.results, "own").run(second.run_id).path / "attempt-1/ended.json"
    damaged.write_text("{")
    done = folder.history(file, first.run_id, "--json")
    assert done.exit_code == 0, done.output
    assert [row["run_id"] for row in json.loads(done.stdout)["runs"]] == [first.run_id]
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"not read: {damaged}: is damaged (")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("zero3", "there is no run 'zero3'"),
        ("gpt", "is the label of several runs; give the id of one of them: "),
    ],
)
def test_a_name_of_no_run_or_of_several_is_refused(folder: Folder, run: str, message: str) -> None:
    """A name that no run has, or that several runs share, is refused with exit code 1."""
    first = folder.campaign("a", "", 0.1)
    file = folder.campaign("b", "", 0.1)
    store = campaign_store(folder.results, "b")
    other = folder.campaign("c", "  micro_batch_size: 2\n", 0.1)
    assert first.exists()
    (made,) = load_campaign(other).runs
    (campaign_store(folder.results, "c").path / made.run_id).rename(store.path / made.run_id)
    done = folder.history(store.path if run == "gpt" else file, run)
    assert done.exit_code == 1
    assert message in done.stderr
