"""Check series on a real Slurm: a run starts only if the run before it has completed."""

import json

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'
TOO_LARGE = 'case "$*" in *"ddp"*"--micro-batch-size 2 "*) test -e "$LEDGER.go" || exit 3 ;; esac'


def sweep(play, body: str, profile: str = "") -> None:
    """Write a campaign of three series, one per strategy, of 3, 2 and 3 runs.

    The micro-batch size grows within a series. body: the bash lines that each run executes.
    """
    play.write_slurm_campaign(
        body, matrix="strategy: [ddp, zero1, zero2], micro_batch_size: [4, 1, 2]", profile=profile
    )
    path = play.path / "campaign.yaml"
    exclude = [{"strategy": "zero1", "micro_batch_size": 4}]
    path.write_text(
        f"{path.read_text()}give_up: micro_batch_size\nexclude: {json.dumps(exclude)}\n"
    )


def wait_until_ended(play, states: list[str]) -> None:
    """Wait until the three runs of strategy ddp have these states, and the other five completed."""
    play.wait_for([*states, *["COMPLETED"] * 5])


def test_a_series_goes_up_to_its_first_failure_as_an_array_for_each_rank(play) -> None:
    """The first array has the first run of each series, the second array has the second runs, etc.

    Each task depends on the task with the same index in the previous array. After a failed run, all
    later runs of its series are given up.
    """
    sweep(play, TOO_LARGE)
    submitted = play.teralog("submit", "campaign.yaml")
    assert submitted.returncode == 0, submitted.stderr
    assert [line.split(": ")[1] for line in submitted.stdout.splitlines()] == [
        "3 runs",
        "3 runs",
        "2 runs",
    ]
    wait_until_ended(play, ["GIVEN_UP", "COMPLETED", "FAILED"])
    run = play.status()[0]
    assert (run["outcome"], run["attempts"]) == ("given_up", 0)
    assert run["reason"] == "given up: micro_batch_size=2 failed"
    assert sorted(play.starts().values()) == [1] * 7
    labels = {run["run_id"]: run["label"] for run in play.status()}
    started = [labels[name] for name, what, *_ in play.events() if what == "start"]
    for strategy in ("ddp", "zero1", "zero2"):
        order = [label.rpartition(" mb")[2] for label in started if label.startswith(strategy)]
        assert order
        assert order == sorted(order)
    again = play.teralog("submit", "campaign.yaml")
    assert (again.returncode, again.stdout) == (1, "")


def test_after_the_failed_run_succeeds_a_submit_starts_the_others(play) -> None:
    """`retry` starts only the failed run of a series; then `submit` starts the runs after it."""
    sweep(play, TOO_LARGE)
    play.teralog("submit", "campaign.yaml")
    wait_until_ended(play, ["GIVEN_UP", "COMPLETED", "FAILED"])
    play.go()
    assert play.teralog("retry", "campaign.yaml").returncode == 0
    wait_until_ended(play, ["NOT_STARTED", "COMPLETED", "COMPLETED"])
    assert play.teralog("submit", "campaign.yaml").returncode == 0
    wait_until_ended(play, ["COMPLETED"] * 3)
    assert sorted(play.starts().values()) == [1] * 7 + [2]


def test_within_a_submission_limit_the_smallest_values_come_first(bare) -> None:
    """If a submission limit allows only some runs, runs with the smallest values come first."""
    sweep(bare, WAIT, "submission_limit: 4\n")
    bare.teralog("submit", "campaign.yaml")
    waiting = [run["label"] for run in bare.status() if run["state"] == "NOT_STARTED"]
    assert waiting == [
        *("ddp mb4", "zero1 mb2"),
        *("zero2 mb4", "zero2 mb2"),
    ]


def test_runs_submitted_later_start_after_those_in_the_queue(bare) -> None:
    """Runs beyond a submission limit are submitted later, and depend on the queued runs."""
    sweep(bare, f"{WAIT}; {TOO_LARGE.replace('test -e', 'false &&')}", "submission_limit: 4\n")
    first = bare.teralog("submit", "campaign.yaml")
    assert "4 runs left" in first.stdout
    (bare.path / "slurm.yaml").write_text(
        (bare.path / "slurm.yaml").read_text().replace("submission_limit: 4\n", "")
    )
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    running = [run["label"] for run in bare.status() if run["state"] == "RUNNING"]
    assert all(label.endswith(" mb1") for label in running)
    bare.go()
    wait_until_ended(bare, ["GIVEN_UP", "COMPLETED", "FAILED"])
    assert sorted(bare.starts().values()) == [1] * 7


def test_a_cancelled_campaign_stays_cancelled(play) -> None:
    """After `cancel --all`, all runs of each series are CANCELLED; a submit starts none."""
    sweep(play, WAIT)
    play.teralog("submit", "campaign.yaml")
    wait_until(lambda: bool(play.starts()), lambda: "no run has begun")
    assert play.teralog("cancel", "campaign.yaml", "--all").returncode == 0
    assert play.states() == ["CANCELLED"] * 8
    assert play.teralog("submit", "campaign.yaml").stdout == ""


def test_runs_cancelled_after_a_cancelled_run_can_be_submitted(bare) -> None:
    """If a user cancels a run, Slurm cancels the later runs of its series.

    The next submit starts these later runs, but not the run that the user cancelled.
    """
    sweep(bare, WAIT)
    bare.teralog("submit", "campaign.yaml")
    wait_until(lambda: bool(bare.starts()), lambda: "no run has begun")
    bare.teralog("cancel", "campaign.yaml", "ddp mb1")
    bare.go()
    wait_until_ended(bare, ["NOT_STARTED", "CANCELLED", "NOT_STARTED"])
    bare.teralog("submit", "campaign.yaml")
    wait_until_ended(bare, ["COMPLETED", "CANCELLED", "COMPLETED"])
    assert sorted(bare.starts().values()) == [1] * 8
