"""Check that runs not started when an allocation ends do not fail, and start in the next one."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
SALLOC = "salloc --nodes=1 --gres=gpu:4 --cpus-per-task=8 --mem=2G --constraint=v100-32g"
# The first two runs end; the others last until the test releases them.
TWO_END = """\
grep start "$LEDGER" | head -2 | grep -q "$run" || while ! test -e "$LEDGER.go"; do sleep 0.1; done
"""


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground with eight runs of one GPU, four of which run side by side."""
    playground.environment |= slurm.environment
    playground.write_slurm_campaign(
        TWO_END, matrix=f"seed: {list(range(8))}", gpus_per_node=1, time_limit=10
    )
    return playground


def start(play, line: str) -> "subprocess.Popen[str]":
    """Start a command in the campaign's folder."""
    return subprocess.Popen(
        shlex.split(line),
        cwd=play.path,
        env={**os.environ, **play.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def the_job(slurm) -> str:
    """Return the id of the only job in the queue."""
    [job] = slurm.run("squeue", "-h", "-o", "%A", "-t", "running").stdout.split()
    return str(job)


def finish(play) -> None:
    """Run `submit --here` in another allocation, and assert that all eight runs are COMPLETED.

    First it lets the runs end that wait for `play.go`.
    """
    play.go()
    last = start(play, f"{SALLOC} {TERALOG} submit campaign.yaml --here")
    printed = last.communicate(timeout=300)[0]
    assert last.returncode == 0, printed
    assert play.states() == ["COMPLETED"] * 8


def assert_none_failed_that_never_began(play) -> None:
    """Assert that two runs are COMPLETED, and every other run is INTERRUPTED or NOT_STARTED."""
    states = play.states()
    assert {*states} == {"COMPLETED", "INTERRUPTED", "NOT_STARTED"}, states
    assert states.count("COMPLETED") == 2
    begun = {run for run, count in play.starts().items() if count}
    for run in play.status():
        assert (run["run_id"] in begun) or run["state"] in {"NOT_STARTED", "INTERRUPTED"}


def wait_until_four_run(play) -> None:
    """Wait until two runs have ended and four are running."""
    wait_until(lambda: len(play.starts()) == 6, lambda: str(play.starts()))
    wait_until(lambda: play.states().count("COMPLETED") == 2, lambda: str(play.status()))


@pytest.mark.parametrize("how", ["scancel", "time limit"])
def test_runs_that_have_not_started_stay_missing_when_an_allocation_ends(
    play, slurm, how: str
) -> None:
    """If an allocation ends, `submit --here` reports the runs that it has not started.

    Another `submit --here` starts them in another allocation.
    """
    submit = start(play, f"{SALLOC} {TERALOG} submit campaign.yaml --here")
    wait_until_four_run(play)
    if how == "scancel":
        slurm.run("scancel", the_job(slurm))
    else:
        slurm.run("scontrol", "update", f"JobId={the_job(slurm)}", "TimeLimit=1")
    printed = submit.communicate(timeout=200)[0]
    assert submit.returncode != 0
    assert "Traceback" not in printed
    assert_none_failed_that_never_began(play)
    if "left:" in printed:
        assert re.search(
            "2 runs left: the "
            "(allocation has (ended|reached its)|time limit of the run is 0:10:00)",
            printed,
        )
        assert "--here` continues in another allocation" in printed
    finish(play)


def test_the_next_batch_job_runs_the_missing_runs(play, slurm) -> None:
    """If a job of `salloc --batch` is cancelled, a second such job runs the remaining runs."""
    line = play.teralog("salloc", "campaign.yaml", "--batch").stdout
    larger = line.replace("--gres=gpu:1", "--gres=gpu:4").replace("--mem=1G", "--mem=2G")
    assert start(play, larger.replace("--cpus-per-task=1", "--cpus-per-task=8")).wait(60) == 0
    wait_until_four_run(play)
    slurm.run("scancel", the_job(slurm))
    wait_until(lambda: "RUNNING" not in play.states(), lambda: str(play.status()))
    assert_none_failed_that_never_began(play)
    play.go()
    assert start(play, larger.replace("--cpus-per-task=1", "--cpus-per-task=8")).wait(60) == 0
    play.wait_for(["COMPLETED"] * 8)


def test_a_run_that_does_not_fit_into_the_time_left_is_not_started(play) -> None:
    """A run does not start if its time limit exceeds the allocation's time left.

    With --overrun, it starts nevertheless.
    """
    play.go()
    short = start(play, f"{SALLOC} --time=5 {TERALOG} submit campaign.yaml --here")
    printed = short.communicate(timeout=120)[0]
    assert short.returncode == 0, printed
    assert (
        "8 runs left: the time limit of the run is 0:10:00, and the allocation ends sooner"
        in printed
    )
    assert play.states() == ["NOT_STARTED"] * 8
    line = f"{SALLOC} --time=5 {TERALOG} submit campaign.yaml --here --overrun"
    asked = start(play, line)
    printed = asked.communicate(timeout=120)[0]
    assert asked.returncode == 0, printed
    assert play.states() == ["COMPLETED"] * 8


def test_ctrl_c_prints_the_command_that_continues_in_the_allocation(play) -> None:
    """After Ctrl-C, `submit --here` prints the command that continues in the same allocation."""
    submit = start(play, f"{SALLOC} {TERALOG} submit campaign.yaml --here")
    wait_until_four_run(play)
    # The command line of salloc contains these words too.
    [process] = [
        process_id
        for process_id, words in play.command_lines()
        if {"submit", "--here"} < {*words} and words[0] != "salloc"
    ]
    process.send_signal(signal.SIGINT)
    printed = submit.communicate(timeout=120)[0]
    assert "submit campaign.yaml --here` continues with the missing runs" in printed
    assert "FAILED" not in play.states()


def test_overrun_is_accepted_only_in_an_allocation(play) -> None:
    """Outside an allocation, `submit --overrun` is refused."""
    refused = play.teralog("submit", "campaign.yaml", "--overrun")
    assert (refused.returncode, "add --here" in refused.stderr) == (1, True)
