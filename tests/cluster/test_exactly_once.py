"""Check that each run starts exactly once on a real Slurm, with killed or parallel submits."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

# Moments per kind of killing; in CI a dozen scenarios together.
MOMENTS = int(os.environ.get("TERALOG_MOMENTS", "4"))

TERALOG = str(Path(sys.executable).parent / "teralog")

# Runs in place of sbatch: the real sbatch, with time before and after it to be killed.
SLOW_SBATCH = """\
#!/bin/bash
sleep {before}
{sbatch} "$@"
code=$?
sleep {after}
exit $code
"""
# Submits without a lock, as on a file system without locks, when the test gives a sign.
WITHOUT_LOCK = """\
import sys
from pathlib import Path
from orchestrator.submit.selection import missing_runs
from orchestrator.submit.backend import StartOptions
from orchestrator.campaign.campaign import load_campaign
from orchestrator.submit.slurm_session import SlurmSession
from orchestrator.store.campaign_store import campaign_store
campaign = load_campaign(Path("campaign.yaml"))
store = campaign_store(Path("results"), campaign.name)
session = SlurmSession(campaign, store, None)
print("ready", flush=True)
sys.stdin.readline()
session.settle(campaign.runs)
missing = missing_runs(campaign.runs, store)
print(*session.start(missing, StartOptions()), sep="\\n")
"""


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground (a folder with a small campaign) whose runs take a moment each."""
    playground.environment |= slurm.environment
    playground.write_slurm_campaign("sleep 0.2", matrix="seed: [1, 2, 3, 4, 5]")
    return playground


def slow_sbatch(play, before: float, after: float) -> None:
    """Put a wrapper of sbatch first on the PATH.

    The wrapper waits `before` seconds, calls sbatch, and waits `after` seconds.
    """
    folder = play.path / "bin"
    folder.mkdir(exist_ok=True)
    path = play.environment["PATH"].removeprefix(f"{folder}{os.pathsep}")
    real = shutil.which("sbatch", path=path)
    (folder / "sbatch").write_text(SLOW_SBATCH.format(before=before, after=after, sbatch=real))
    (folder / "sbatch").chmod(0o755)
    play.environment["PATH"] = f"{folder}{os.pathsep}{path}"


def submit_at_once(play, count: int) -> None:
    """Start `count` submits at the same time; none of them uses file locks."""
    submits = [
        subprocess.Popen(
            [sys.executable, "-c", WITHOUT_LOCK],
            cwd=play.path,
            env={**os.environ, **play.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    for process in submits:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in submits:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in submits:
        process.communicate(timeout=120)
        assert process.returncode == 0


def write_series(play) -> None:
    """Write a campaign of two series (runs that wait for each other), of three runs each.

    The second run of the first series fails.
    """
    play.write_slurm_campaign(
        'case "$*" in *"ddp"*"--seed 2"*) exit 3 ;; esac; sleep 0.2',
        matrix="strategy: [ddp, zero1], seed: [1, 2, 3]",
    )
    path = play.path / "campaign.yaml"
    path.write_text(path.read_text() + "give_up: seed\n")


def seeds_started(play) -> dict[str, list[str]]:
    """Return the seeds of the runs of each series, in the order in which the runs started.

    The series have the names ddp and zero1.
    """
    labels = {run["run_id"]: run["label"].split(" seed=") for run in play.status()}
    started: dict[str, list[str]] = {"ddp": [], "zero1": []}
    for run, what, *_ in play.events():
        if what == "start":
            strategy, seed = labels[run]
            started[strategy].append(seed)
    return started


def test_two_submits_at_once_start_each_run_once(play) -> None:
    """If two submits start at the same time, one waits for the other, and then starts no run."""
    slow_sbatch(play, 0.5, 0.5)
    both = [play.start("submit", "campaign.yaml") for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert sorted(bool(output) for output in outputs) == [False, True]
    play.wait_for(["COMPLETED"] * 5)
    assert set(play.starts().values()) == {1}


def test_many_submits_without_locks_start_each_run_once(play) -> None:
    """If many submits run at once without file locks, each run still starts once.

    Only one submit can create the folder of an attempt, and only this submit starts the run.
    """
    play.write_slurm_campaign("true", matrix="seed: [1, 2, 3, 4, 5, 6], gpus_per_node: [1, 2]")
    submit_at_once(play, 4)
    play.wait_for(["COMPLETED"] * 12)
    assert sorted(play.starts().values()) == [1] * 12


def submit_in_a_group(play) -> "subprocess.Popen[bytes]":
    """Start a submit as a process group of its own, so that the test can kill it with its children.

    Its errors are appended to the file submits.err.
    """
    with (play.path / "submits.err").open("ab") as errors:
        return subprocess.Popen(
            [TERALOG, "submit", "campaign.yaml"],
            cwd=play.path,
            env={**os.environ, **play.environment},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


@pytest.mark.parametrize("killed", ["submit alone", "sbatch too", "one of two"])
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_submit_killed_at_any_moment_loses_no_run_and_starts_none_twice(
    play, moment: int, killed: str
) -> None:
    """If a submit is killed before, during or after sbatch, each run still starts exactly once.

    The twenty runs need two calls of sbatch, so some submits are killed between these calls. In
    some cases a second submit runs at the same time.
    """
    rng = random.Random(f"{killed} {moment}")
    play.write_slurm_campaign("true", matrix=f"seed: {list(range(20))}")
    slow_sbatch(play, 0.2, 0.2)
    for _ in range(2):
        submit = submit_in_a_group(play)
        other = submit_in_a_group(play) if killed == "one of two" else None
        time.sleep(rng.uniform(0.3, 2.6))
        if killed == "sbatch too":
            os.killpg(submit.pid, signal.SIGKILL)
        else:
            submit.kill()
        submit.wait()
        if other is not None:
            assert other.wait(timeout=120) == 0, (play.path / "submits.err").read_text()
    last = play.teralog("submit", "campaign.yaml")
    assert last.returncode == 0, last.stderr
    play.wait_for(["COMPLETED"] * 20)
    assert sorted(play.starts().values()) == [1] * 20
    assert len(list(play.path.glob("results/play/*/attempt-*/output.log"))) == 20


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_series_keeps_its_order_whenever_its_submit_is_killed(play, moment: int) -> None:
    """If a submit is killed at any moment, the next submit keeps the order of each series.

    The next submit's job arrays depend on the job arrays that are already in Slurm's queue.
    """
    rng = random.Random(moment)
    write_series(play)
    slow_sbatch(play, 0.2, 0.2)
    for _ in range(2):
        submit = play.start("submit", "campaign.yaml")
        time.sleep(rng.uniform(0.3, 3.0))
        submit.kill()
        submit.communicate()
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["COMPLETED", "FAILED", "GIVEN_UP", *["COMPLETED"] * 3])
    assert seeds_started(play) == {"ddp": ["1", "2"], "zero1": ["1", "2", "3"]}


def test_many_submits_of_a_series_without_locks_keep_its_order(play) -> None:
    """A run waits for the previous run of its series, even if another submit starts that run."""
    write_series(play)
    submit_at_once(play, 4)
    ended = ["COMPLETED", "FAILED", "GIVEN_UP", *["COMPLETED"] * 3]
    deadline = time.monotonic() + 300
    while play.states() != ended and time.monotonic() < deadline:
        play.teralog("submit", "campaign.yaml")
        time.sleep(1)
    assert seeds_started(play) == {"ddp": ["1", "2"], "zero1": ["1", "2", "3"]}


def test_a_job_whose_submit_died_before_the_record_is_found_by_its_name(play, slurm) -> None:
    """If a submit died before it wrote the job id, later commands find the job by its name."""
    play.write_slurm_campaign("sleep 2", matrix="seed: [1, 2]")
    slow_sbatch(play, 0, 5)
    submit = play.start("submit", "campaign.yaml")
    queue = ("squeue", "-h", "-o", "%j")
    wait_until(lambda: "play-array-" in slurm.run(*queue).stdout, lambda: "no job is there")
    submit.kill()
    submit.communicate()
    assert not list(play.path.glob("results/play/submissions/*/receipt.json"))
    play.wait_for(["COMPLETED"] * 2)
    assert list(play.path.glob("results/play/submissions/*/receipt.json"))


def test_a_run_never_submitted_has_no_attempt(play) -> None:
    """If a submit is killed before its sbatch created a job, its runs have no attempt from it.

    The next submit withdraws the batch of runs of the killed submit, and starts the runs.
    """
    slow_sbatch(play, 30, 0)
    submit = play.start("submit", "campaign.yaml")
    # A folder that is being made has a name with a dot before it; a submit killed then leaves no
    # script to withdraw.
    scripts = "results/play/submissions/[!.]*/script.sh"
    wait_until(lambda: bool([*play.path.glob(scripts)]), lambda: "no script is written")
    os.kill(submit.pid, signal.SIGKILL)
    submit.communicate()
    assert play.states() == ["SUBMITTING"] * 5
    for process in play.processes():
        # A process may end by itself when another one is killed.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    slow_sbatch(play, 0, 0)
    assert play.teralog("submit", "campaign.yaml").returncode == 0
    runs = play.wait_for(["COMPLETED"] * 5)
    assert {run["attempts"] for run in runs} == {1}
    assert len(list(play.path.glob("results/play/submissions/*/withdrawn.sh"))) == 1


def test_sbatch_is_not_called_again_if_it_fails_after_it_created_the_job(play) -> None:
    """If sbatch creates a job, but fails with `Socket timed out`, no run is submitted again.

    teralog finds the job by its name.
    """
    folder = play.path / "bin"
    slow_sbatch(play, 0, 0)
    script = (folder / "sbatch").read_text()
    (folder / "sbatch").write_text(
        script.replace(
            "exit $code", "echo 'Socket timed out on send/recv operation' >&2; exit 1"
        ).replace('"$@"', '"$@" > /dev/null')
    )
    submitted = play.teralog("submit", "campaign.yaml")
    assert (submitted.returncode, submitted.stdout.endswith(": 5 runs\n")) == (0, True)
    play.wait_for(["COMPLETED"] * 5)
    assert set(play.starts().values()) == {1}


def test_runs_that_another_host_is_submitting_are_left_to_it(play) -> None:
    """A submit does not start runs that another host began to submit recently.

    If that submit began long ago, it must have ended, and the runs start.
    """
    campaign = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from orchestrator.store.records import Intent
        from orchestrator.campaign.campaign import load_campaign
        from orchestrator.store.campaign_store import campaign_store
        campaign = load_campaign(Path("campaign.yaml"))
        store = campaign_store(Path("results"), campaign.name)
        intent = Intent("play-array-elsewhere", "another-host", sys.argv[1])
        for planned in campaign.runs:
            store.run(planned.run_id).claim(1, intent, "#!/bin/bash\\n")
        """
    )

    def claim(at: str) -> None:
        shutil.rmtree(play.path / "results", ignore_errors=True)
        subprocess.run([sys.executable, "-c", campaign, at], cwd=play.path, check=True)

    claim(time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()))
    result = play.teralog("submit", "campaign.yaml")
    assert result.stdout == ""
    assert "5 runs are being submitted by a submit on another-host since" in result.stderr
    assert play.states() == ["SUBMITTING"] * 5
    claim("2020-01-01T00:00:00+00:00")
    assert play.teralog("submit", "campaign.yaml").returncode == 0
    play.wait_for(["COMPLETED"] * 5)
    assert set(play.starts().values()) == {1}
