"""`give_up`: after a run of a series has failed, runs with larger values are not started."""

from pathlib import Path
from typing import Any

import pytest
from fixture_types import AttemptIn, CampaignOf, ProblemsOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.series import all_series
from orchestrator.collect.collected import collect_campaign
from orchestrator.collect.endings import endings
from orchestrator.common.tables import as_records
from orchestrator.report.report import make_report, report_markdown
from orchestrator.slurm.tracking import record_job_state
from orchestrator.status.table import run_statuses, status_records, status_table
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.folders import RunFolder, read_attempt
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Intent
from orchestrator.submit.selection import missing_runs

SWEEP = """\
name: sweep
defaults: {framework: gpt, model: s}
matrix: {strategy: [ddp, zero2], micro_batch_size: [4, 1, 2]}
give_up: micro_batch_size
"""
OOM_LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"

members = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 6)), unique=True, min_size=1, max_size=12
)


@given(members, st.data())
def test_a_run_is_given_up_exactly_if_a_smaller_run_of_its_series_failed(
    runs: list[tuple[str, int]], data: st.DataObject
):
    """A run is given up if a run of its series with a smaller value has failed, and only then.

    The reason names the failed run with the smallest value. The order of runs in the campaign file
    does not matter.
    """
    ids = {f"{rest}{value}": (rest, value) for rest, value in runs}
    failed = data.draw(st.sets(st.sampled_from(sorted(ids))))
    series = all_series("n", [(run_id, rest, value) for run_id, (rest, value) in ids.items()])
    for run_id, (rest, value) in ids.items():
        below = [
            ids[failed_id][1]
            for failed_id in failed
            if ids[failed_id][0] == rest and ids[failed_id][1] < value
        ]
        why = series[run_id].given_up(run_id, failed.__contains__)
        assert why == (f"given up: n={min(below)} failed" if below else None)


def test_a_parameter_in_which_no_two_runs_differ_is_reported(campaign_of: CampaignOf):
    """A `give_up` parameter in which no two runs differ is reported, because it has no effect."""
    sentence = (
        "give_up: no two runs differ only in {}; choose a parameter that has several values under "
        "`matrix`, or remove give_up"
    )
    assert campaign_of(SWEEP.replace("up: micro_batch_size", "up: gpus_per_node")).notes == (
        sentence.format("gpus_per_node"),
    )
    assert campaign_of(SWEEP).notes == ()


@given(members)
def test_the_runs_of_a_series_come_one_after_another(runs: list[tuple[str, int]]):
    """Each run starts after all runs of its series with smaller values."""
    series = all_series("n", [(f"{rest}{value}", rest, value) for rest, value in runs])
    for rest, value in runs:
        before = series[f"{rest}{value}"].before(f"{rest}{value}")
        assert before == tuple(
            f"{rest}{less}" for less in sorted(v for r, v in runs if r == rest and v < value)
        )


def test_a_series_is_of_runs_that_differ_in_the_parameter_alone(campaign_of: CampaignOf):
    """The runs of a series differ only in the `give_up` parameter and in sizes that follow from it.

    E.g. the global batch may differ. Runs that differ in another setting or in `repeat` are in
    separate series.
    """
    campaign = campaign_of(SWEEP + "repeats: 2\n")
    by_label = {run.label: run for run in campaign.runs}
    ids = {run.run_id: run.label for run in campaign.runs}
    run = by_label["zero2 mb4 r2"]
    assert run.series is not None
    assert [ids[run_id] for run_id in run.series.before(run.run_id)] == [
        "zero2 mb1 r2",
        "zero2 mb2 r2",
    ]


def test_a_missing_value_is_the_default_of_the_run_s_framework(campaign_of: CampaignOf):
    """If a run does not set a parameter, the default of the run's framework decides its series.

    So it is in the same series as runs that set the parameter to this default.
    """
    campaign = campaign_of(
        "name: sweep\ngive_up: micro_batch_size\n"
        "defaults: {framework: deepspeed, script: train.py}\n"
        "include:\n"
        "  - {micro_batch_size: 1}\n"
        "  - {micro_batch_size: 2, zero_stage: 3}\n"
        "  - {micro_batch_size: 4, zero_stage: 0}\n"
    )
    first, other, last = campaign.runs
    assert other.series is None or other.series.before(other.run_id) == ()
    assert last.series is not None
    assert last.series.before(last.run_id) == (first.run_id,)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("give_up: micro_batch", "give_up: there is no parameter 'micro_batch'; did you mean 'mic"),
        ("give_up: strategy", "give_up: strategy has values that are not numbers, so their order"),
        ("give_up: 3", "give_up: 3 is not text"),
    ],
)
def test_a_parameter_that_give_up_cannot_use_is_reported(
    problems_of: ProblemsOf, line: str, problem: str
):
    (problems,) = problems_of(SWEEP.replace("give_up: micro_batch_size", line))
    assert problems.startswith(problem) or "give_up" in problems


@pytest.mark.parametrize(
    ("first", "given_up"),
    [
        ({"state": "FAILED"}, True),
        ({"state": "FAILED", "log": OOM_LOG}, True),
        ({"state": "OUT_OF_MEMORY"}, True),
        ({"state": "TIMEOUT"}, True),
        ({"state": "COMPLETED"}, False),
        ({"state": "CANCELLED"}, False),
        ({"state": "INTERRUPTED"}, False),
        ({"state": "NODE_FAIL"}, False),
        ({"state": "PREEMPTED"}, False),
        (None, False),
    ],
)
def test_only_failures_that_a_larger_value_cannot_fix_give_up_runs(
    campaign_of: CampaignOf,
    attempt_in: AttemptIn,
    tmp_path: Path,
    first: dict[str, Any] | None,
    given_up: bool,
):
    """Runs are given up only after a failure that a larger value cannot fix, e.g. out of memory.

    Given-up runs have no records. They can start if a retry of the failed run completes.
    """
    campaign, store = campaign_of(SWEEP), CampaignStore(tmp_path / "results")
    smallest = next(run for run in campaign.runs if run.label == "ddp mb1")
    if first is not None:
        attempt_in(store.run(smallest.run_id), **first)
    labels = [run.label for run in campaign.runs]
    by_label = dict(zip(labels, endings(campaign.runs, store), strict=True))
    why = "given up: micro_batch_size=1 failed" if given_up else None
    for label in ("ddp mb2", "ddp mb4"):
        assert by_label[label].given_up == why
        assert by_label[label].state == ("GIVEN_UP" if given_up else "NOT_STARTED")
    assert by_label["zero2 mb4"].given_up is None
    missing = {run.label for run in missing_runs(campaign.runs, store)}
    assert ("ddp mb4" in missing) != given_up
    if given_up:
        attempt_in(store.run(smallest.run_id), state="COMPLETED")
        assert not any(end.given_up for end in endings(campaign.runs, store))


def test_a_run_that_ended_on_its_own_keeps_its_end(
    campaign_of: CampaignOf, attempt_in: AttemptIn, tmp_path: Path
):
    """A run that has completed or was cancelled is not given up, even if a smaller run failed."""
    campaign, store = campaign_of(SWEEP), CampaignStore(tmp_path / "results")
    for run in campaign.runs:
        size = run.run.batch.micro_batch_size
        state = {1: "FAILED", 2: "COMPLETED", 4: "CANCELLED"}[size]
        attempt_in(store.run(run.run_id), state=state)
    assert not any(end.given_up for end in endings(campaign.runs, store))


def test_status_and_report_show_given_up_runs_with_the_reason(
    campaign_of: CampaignOf, attempt_in: AttemptIn, tmp_path: Path
):
    """`status` and `report` show which run's failure is the reason that a run was given up.

    The list of failures has the failed run with its log, but not the given-up runs.
    """
    campaign, store = campaign_of(SWEEP), CampaignStore(tmp_path / "results")
    failed = next(run for run in campaign.runs if run.label == "ddp mb2")
    attempt_in(store.run(failed.run_id), state="FAILED", log=OOM_LOG)
    statuses = run_statuses(campaign, store)
    (record,) = [each for each in status_records(statuses, {}, {}) if each["state"] == "GIVEN_UP"]
    assert (record["label"], record["outcome"]) == ("ddp mb4", "given_up")
    assert record["reason"] == "given up: micro_batch_size=2 failed"
    assert [row["outcome"] for row in as_records(status_table(statuses))][:3] == [
        "given up: micro_batch_size=2 failed",
        None,
        "oom",
    ]
    runs = collect_campaign(campaign, store)
    report = make_report(campaign, runs, "2026-01-02")
    ended = [row["outcome"] for row in as_records(report.table)]
    assert ended[:3] == ["given up: micro_batch_size=2 failed", "not started", "OOM"]
    assert report_markdown(campaign, report, runs, []).count("micro_batch_size=4") == 0


@pytest.mark.parametrize(
    ("by", "state", "reason", "chained", "recorded"),
    [
        ("squeue", "CANCELLED", "DependencyNeverSatisfied", True, "GIVEN_UP"),
        ("scontrol", "CANCELLED", "DependencyNeverSatisfied", True, "GIVEN_UP"),
        ("sacct", "CANCELLED", "Dependency", True, "GIVEN_UP"),
        ("sacct", "CANCELLED", None, True, "GIVEN_UP"),
        ("sacct", "CANCELLED", None, False, "CANCELLED"),
        ("sacct", "CANCELLED by 1000", "Dependency", True, "CANCELLED"),
        ("sacct", "CANCELLED by 1000", None, True, "CANCELLED"),
        ("squeue", "CANCELLED", "Dependency", True, "CANCELLED"),
        ("squeue", "CANCELLED", None, True, "CANCELLED"),
        ("squeue", "CANCELLED", "DependencyNeverSatisfied", False, "CANCELLED"),
        ("squeue", "FAILED", "DependencyNeverSatisfied", True, "FAILED"),
    ],
)
def test_a_job_cancelled_by_a_dependency_differs_from_one_cancelled_by_a_user(
    tmp_path: Path, by: str, state: str, reason: str | None, chained: bool, recorded: str
):
    """A run is GIVEN_UP if Slurm cancelled its job because of a dependency on another job.

    If a user cancelled the job, the run is CANCELLED. In Slurm 22.05, a job that depends on a
    failed job never starts. If it was submitted after the failure, it never waited either, and
    sacct shows no reason.
    """
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.claim(1, Intent("batch", "here", "2026-01-02T03:04:05+00:00", chained=chained))
    (attempt,) = folder.attempts()
    record_job_state(attempt, JobState("7_1", state, by, "batch", reason=reason))
    ended = read_attempt(attempt.folder).ended
    assert ended is not None
    assert ended.state == recorded
    assert folder.state() == ("NOT_STARTED" if recorded == "GIVEN_UP" else recorded)
    assert folder.next_number == 2


def sweep(playground, body: str, **defaults: Any) -> None:
    """Write a campaign of two series, each of three runs with different micro-batch sizes."""
    playground.write_campaign(
        body, matrix="strategy: [ddp, zero1], micro_batch_size: [4, 1, 2]", **defaults
    )
    path = playground.path / "campaign.yaml"
    path.write_text(path.read_text() + "give_up: micro_batch_size\n")


def starts(playground) -> list[str]:
    """Return the label of each started run, in the order in which the runs started."""
    labels = {run["run_id"]: run["label"] for run in playground.status()}
    return [labels[run] for run, what, *_ in playground.events() if what == "start"]


def test_on_this_machine_a_series_goes_up_to_its_first_failure(playground):
    """On this machine, the runs of a series start in ascending order up to the first failure.

    Then `submit` continues with the other series.
    """
    sweep(playground, 'case "$*" in *"ddp"*"--micro-batch-size 2 "*) exit 3 ;; esac')
    submitted = playground.teralog("submit", "campaign.yaml")
    assert submitted.returncode == 1
    assert "ddp mb4: GIVEN_UP [" in submitted.stderr
    assert playground.states() == ["GIVEN_UP", "COMPLETED", "FAILED", *["COMPLETED"] * 3]
    for strategy, sizes in (("ddp", (1, 2)), ("zero1", (1, 2, 4))):
        order = [label for label in starts(playground) if label.startswith(strategy)]
        assert order == [f"{strategy} mb{size}" for size in sizes]
    again = playground.teralog("submit", "campaign.yaml")
    assert (again.returncode, "to start" in again.stderr) == (1, False)
    assert len(starts(playground)) == 5


def test_after_the_failed_run_succeeds_a_submit_starts_the_others(playground):
    """`retry` starts the failed run, and `submit` then starts the given-up runs."""
    sweep(playground, 'test -e "$LEDGER.go" || exit 3')
    assert playground.teralog("submit", "campaign.yaml").returncode == 1
    assert playground.states() == ["GIVEN_UP", "FAILED", "GIVEN_UP"] * 2
    playground.ledger.with_name("ledger.go").touch()
    assert playground.teralog("retry", "campaign.yaml").returncode == 0
    assert playground.states() == ["NOT_STARTED", "COMPLETED", "NOT_STARTED"] * 2
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.states() == ["COMPLETED"] * 6


def test_a_cancelled_run_gives_up_nothing(playground):
    """A cancelled run gives up no run, because it shows nothing about larger values."""
    sweep(playground, "true")
    playground.teralog("cancel", "campaign.yaml", "ddp mb1")
    assert playground.teralog("submit", "campaign.yaml").returncode == 1
    assert playground.states() == ["COMPLETED", "CANCELLED", *["COMPLETED"] * 4]
