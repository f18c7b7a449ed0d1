"""Check all ways in which a run on a real Slurm can end: its state, and what a retry does."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from practice import faults
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'
# Occupies the whole node until the test allows it; exceeds its memory on its first start.
TOO_MUCH = """\
test -e "$LEDGER.go" ||
  exec python3 -c 'import time; much = bytearray(1500 << 20); time.sleep(60)'"""


@dataclass(frozen=True)
class End:
    """An event that ends a run, with the resulting state (Slurm's word) and outcome (teralog's).

    befall: a function that causes the event, called with the cluster and the run's status.
    """

    befall: Callable[[Any, dict[str, Any]], object]
    states: tuple[str, ...]
    outcome: str
    by: str = "scheduler"
    profile: str = ""
    body: str = WAIT
    time_limit: int = 5
    exit_code: int | None = None


def preempt(cluster, run: dict[str, Any]) -> None:
    """Submit a job of one second that needs all nodes, in a partition with higher priority."""
    cluster.run(
        *("sbatch", "--nodes=6", "--exclusive", "--mem=0", "--output=/dev/null"),
        *("--wrap", "sleep 1"),
    )


ENDS = {
    "cancelled from outside": End(
        lambda cluster, run: cluster.run("scancel", run["job_id"]), ("CANCELLED",), "cancelled"
    ),
    "preempted": End(
        preempt,
        ("PREEMPTED",),
        "preempted",
        profile="partition: preemptible\nrequeue: false\n",
    ),
    "warned by a signal": End(
        lambda cluster, run: None,
        ("TIMEOUT",),
        "timeout",
        # Slurm may send the signal 30 s earlier. A job that has not begun would not receive it, and
        # on a busy machine a job begins late. So the signal comes 15 s after the start or later.
        profile="signal: USR1@15\n",
        time_limit=1,
        exit_code=128 + signal.SIGUSR1,
    ),
    "out of memory": End(
        lambda cluster, run: None,
        # Without cgroups Slurm kills the job, and reports FAILED.
        ("FAILED", "OUT_OF_MEMORY"),
        "oom",
        by="log",
        body=TOO_MUCH,
    ),
}


def ended(play, seconds: float = 90) -> dict[str, Any]:
    """Wait until the only run of a playground has ended, and return its status."""
    status: dict[str, Any] = {}

    def has_ended() -> bool:
        [run] = play.status()
        status.update(run)
        return run["outcome"] is not None

    wait_until(has_ended, lambda: str(status), seconds)
    return status


@pytest.mark.parametrize("name", ENDS)
def test_a_failed_run_shows_its_reason_and_a_retry_completes_it(play, cluster, name: str) -> None:
    """`status` shows how a run ended; `retry --only OUTCOME`, with this outcome, completes the run.

    `submit` does not start a failed run again, nor does `retry --only` with another outcome.
    """
    end = ENDS[name]
    play.write_slurm_campaign(
        end.body, matrix="seed: [1]", profile=end.profile, time_limit=end.time_limit
    )
    play.teralog("submit", "campaign.yaml")
    if end.body == WAIT:
        [run] = play.wait_for(["RUNNING"])
        wait_until(play.events, lambda: "it has not begun")
        end.befall(cluster, run)
    run = ended(play)
    assert run["state"] in end.states
    assert run["outcome"] == end.outcome
    if end.exit_code is not None:
        assert run["exit_code"] == end.exit_code
    assert run["outcome_by"] == ("scheduler" if run["state"] == "OUT_OF_MEMORY" else end.by)
    play.go()
    submitted = play.teralog("submit", "campaign.yaml")
    assert (submitted.returncode, submitted.stdout) == (1, "")
    other = "timeout" if end.outcome != "timeout" else "failed"
    assert play.teralog("retry", "campaign.yaml", "--only", other).stdout == ""
    assert play.teralog("retry", "campaign.yaml", "--only", end.outcome).returncode == 0
    [run] = play.wait_for(["COMPLETED"])
    assert run["attempts"] == 2
    assert list(play.starts().values()) == [2]


GOING_ON = {
    "requeued": (lambda cluster, run: cluster.run("scontrol", "requeue", run["job_id"]), ""),
    "preempted": (preempt, "partition: preemptible\nrequeue: true\n"),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_a_requeued_run_has_not_ended(play, cluster, name: str) -> None:
    """A requeued run is neither submitted nor retried: Slurm starts it again by itself."""
    befall, profile = GOING_ON[name]
    play.write_slurm_campaign(WAIT, matrix="seed: [1]", profile=profile)
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    wait_until(play.events, lambda: "it has not begun")
    befall(cluster, run)
    while (run["state"], run["restarts"]) != ("RUNNING", 1):
        assert run["outcome"] is None, run
        assert play.teralog("submit", "campaign.yaml").stdout == ""
        assert play.teralog("retry", "campaign.yaml").stdout == ""
        [run] = play.status()
    play.go()
    [run] = play.wait_for(["COMPLETED"])
    assert (run["restarts"], run["attempts"]) == (1, 1)
    assert list(play.starts().values()) == [2]


def test_a_run_whose_node_dies_is_reported_and_retried(playground, hasty_slurm) -> None:
    """If the slurmd of a run's node is killed, the run ends as NODE_FAIL.

    A retry completes the run.
    """
    play = playground
    play.environment |= hasty_slurm.environment
    play.write_slurm_campaign(WAIT, matrix="seed: [1]", profile="requeue: false\n")
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    wait_until(play.events, lambda: "it has not begun")
    faults.kill(hasty_slurm, run["node_list"])
    run = ended(play)
    assert (run["state"], run["outcome"]) == ("NODE_FAIL", "node_fail")
    play.go()
    assert play.teralog("retry", "campaign.yaml", "--only", "node_fail").returncode == 0
    play.wait_for(["COMPLETED"])
    faults.start_again(hasty_slurm)


def test_a_controller_that_is_killed_and_comes_back_loses_no_run(playground, hasty_slurm) -> None:
    """If slurmctld is down, `status` shows the last known states, and reports that squeue fails.

    After slurmctld has started again, each run completes and has started only once.
    """
    play = playground
    play.environment |= hasty_slurm.environment
    play.write_slurm_campaign(WAIT, matrix="seed: [1, 2, 3, 4, 5]")
    # Until the nodes have registered again, the new controller gives no GPUs to steps.
    profile = play.path / "slurm.yaml"
    profile.write_text(profile.read_text().replace("gpus_per_node: 4", "gpus_per_node: 0"))
    play.teralog("submit", "campaign.yaml", "--throttle", "3")
    before = ["RUNNING"] * 3 + ["PENDING"] * 2
    play.wait_for(before)
    # Slurm writes its state some seconds after each change, and forgets what it had not written.
    saved = hasty_slurm.plan.folder / "state" / "job_state"
    # Twice, because the first write may have begun before the change.
    for _ in range(2):
        written = saved.stat().st_mtime_ns
        hasty_slurm.run("sbatch", "--hold", "--output=/dev/null", "--wrap", "true")
        wait_until(lambda at=written: saved.stat().st_mtime_ns > at, lambda: "nothing is saved")
    faults.kill(hasty_slurm, "slurmctld")
    status = play.teralog("status", "campaign.yaml")
    assert status.stdout.count("RUNNING") == 3
    assert "Slurm gave no answer: squeue" in status.stderr
    faults.start_again(hasty_slurm)
    assert play.states() == before
    play.go()
    play.wait_for(["COMPLETED"] * 5)
    assert sorted(play.starts().values()) == [1] * 5


PURGED = """\
case "$SLURM_ARRAY_TASK_ID" in
  0) echo "[teralog] finished | iterations 20 | train_seconds 1.5 | final_loss 6.25" \
     "| max_memory_allocated_gib 0.402" ;;
  1) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"; exit 1 ;;
  2) test -e "$LEDGER.go" || exit 3 ;;
  3) echo "iteration 1"; exit 137 ;;
esac"""


def test_a_purged_job_is_read_from_its_own_record(playground, hasty_slurm) -> None:
    """If Slurm has forgotten an ended job, teralog reads its end from the file that the job wrote.

    If the job was killed before it wrote the file, its log may show the end.
    """
    play = playground
    play.environment |= hasty_slurm.environment
    play.write_slurm_campaign(PURGED)
    play.teralog("submit", "campaign.yaml")
    wait_until(lambda: len(play.starts()) == 4, lambda: str(play.events()))
    queue = ("squeue", "-h", "-t", "all")
    wait_until(
        lambda: not hasty_slurm.run(*queue).stdout,
        lambda: hasty_slurm.run(*queue).stdout,
        seconds=180,
    )
    runs = play.status()
    assert [run["state"] for run in runs] == ["COMPLETED", "FAILED", "FAILED", "UNKNOWN"]
    assert [run["outcome"] for run in runs] == ["completed", "oom", "failed", "failed"]
    assert [run["exit_code"] for run in runs] == [0, 1, 3, None]
    assert [run["scheduler_state_by"] for run in runs] == ["job.json"] * 3 + ["nobody"]
    for run in runs[:3]:
        assert run["seconds"] < 60
    play.go()
    assert play.teralog("submit", "campaign.yaml").stdout == ""
    retried = play.teralog("retry", "campaign.yaml", "--only", "failed")
    assert retried.stdout.endswith(": 2 runs\n")
    wait_until(lambda: sum(play.starts().values()) == 6, lambda: str(play.events()))
    assert [run["attempts"] for run in play.status()] == [1, 1, 2, 2]
