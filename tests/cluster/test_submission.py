"""Submit to a real Slurm: each run starts once, and its recorded states equal Slurm's."""

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import fail_node, let_time_run_out, wait_until

from orchestrator.common import locks
from orchestrator.slurm.arrays import directives

TERALOG = str(Path(sys.executable).parent / "teralog")

pytestmark = pytest.mark.slurm

WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'


def scripts(play) -> list[Path]:
    """Return the job scripts that Slurm received."""
    return sorted(play.path.glob("results/play/submissions/*/script.sh"))


def test_runs_that_ask_for_the_same_go_as_one_array_and_complete(play) -> None:
    """Six runs with equal requests are submitted as one job array, and each run has a log.

    A second submit does nothing.
    """
    play.write_slurm_campaign('echo "$run says hello"', matrix="seed: [1, 2, 3, 4, 5, 6]")
    submitted = play.teralog("submit", "campaign.yaml")
    assert submitted.returncode == 0, submitted.stderr
    job_id, _, what = submitted.stdout.partition(": ")
    assert what == "6 runs\n"
    runs = play.wait_for(["COMPLETED"] * 6)
    assert [run["job_id"] for run in runs] == [f"{job_id}_{index}" for index in range(6)]
    assert {run["outcome"] for run in runs} == {"completed"}
    for run in runs:
        assert run["node_list"]
        assert run["exit_code"] == 0
        assert f"{run['run_id']} says hello" in Path(run["log"]).read_text()
    assert set(play.starts().values()) == {1}
    again = play.teralog("submit", "campaign.yaml")
    assert (again.returncode, again.stdout) == (0, "")


def test_an_array_has_its_runs_header_and_only_selects_their_scripts(bare) -> None:
    """An array's script has the #SBATCH lines of its runs, except names, comment and output.

    Each task of the array starts the script of its run, which is unchanged.
    """
    bare.write_slurm_campaign("true", matrix="seed: [1, 2]", profile="hint: nomultithread\n")
    bare.teralog("submit", "campaign.yaml", "--hold")
    [array] = scripts(bare)
    header = [line for line in array.read_text().splitlines() if line.startswith("#SBATCH")]
    for attempt in bare.path.glob("results/play/*/attempt-1"):
        rendered = attempt.parent / "job.sh"
        assert (attempt / "job.sh").read_bytes() == rendered.read_bytes()
        own = [line for line in rendered.read_text().splitlines() if line.startswith("#SBATCH")]
        assert [
            line
            for line in own
            if not line.startswith(("#SBATCH --job-n", "#SBATCH --c", "#SBATCH --out"))
        ] == [line for line in header if not line.startswith("#SBATCH --c")]
    bare.teralog("cancel", "campaign.yaml", "--all")


def test_a_single_run_uses_its_rendered_script(bare, slurm, tmp_path) -> None:
    """The job of a single run has the requests of the run's script, and starts this script."""
    bare.write_slurm_campaign("true", matrix="gpus_per_node: [1, 2]")
    submitted = bare.teralog("submit", "campaign.yaml", "--hold")
    assert len(submitted.stdout.splitlines()) == 2
    for run in bare.status():
        kept = tmp_path / "kept.sh"
        slurm.run("scontrol", "write", "batch_script", run["job_id"], str(kept))
        folder = bare.path / "results" / "play" / run["run_id"]
        rendered = (folder / "job.sh").read_text()
        assert directives(kept.read_text()) == directives(rendered)
        assert (folder / "attempt-1" / "job.sh").read_text() == rendered
    bare.teralog("cancel", "campaign.yaml", "--all")


@pytest.mark.parametrize("seeds", [[1], [1, 2]], ids=["a job", "an array"])
def test_squeue_shows_which_runs_are_running(bare, slurm, seeds: list[int]) -> None:
    """The comment of a job in squeue names its run."""
    bare.write_slurm_campaign(WAIT, matrix=f"seed: {seeds}")
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    expected = {f"{run['run_id']}: {run['label']}" for run in bare.status()}

    def shown() -> set[str]:
        return {*slurm.run("squeue", "-h", "-t", "RUNNING", "-o", "%k").stdout.splitlines()}

    wait_until(lambda: shown() == expected, lambda: f"{shown()} is not {expected}")
    bare.teralog("cancel", "campaign.yaml", "--all")


def test_an_array_is_split_where_it_is_too_large_and_bounded_where_asked(bare, slurm) -> None:
    """Five runs become three job arrays if max_array_size is 2; --throttle limits each of them."""
    bare.write_slurm_campaign("true", matrix="seed: [1, 2, 3, 4, 5]", profile="max_array_size: 2\n")
    submitted = bare.teralog("submit", "campaign.yaml", "--throttle", "1", "--hold")
    ids = [line.partition(":")[0] for line in submitted.stdout.splitlines()]
    assert len(ids) == 3
    job = slurm.run("scontrol", "--oneliner", "show", "job", ids[0]).stdout
    assert "ArrayTaskThrottle=1" in job
    bare.teralog("cancel", "campaign.yaml", "--all")


def wait_for_reasons(play: Any, reasons: list[str | None]) -> None:
    """Wait until Slurm reports these reasons for waiting; a new job has no reason at first."""

    def current_reasons() -> list[str | None]:
        return [run["reason"] for run in play.status()]

    wait_until(lambda: current_reasons() == reasons, lambda: str(current_reasons()))


def test_a_throttle_bounds_all_arrays_of_a_campaign_together(bare) -> None:
    """--throttle limits all arrays of a campaign together, also those of a later submit."""
    bare.write_slurm_campaign(WAIT, matrix="gpus_per_node: [1, 2], seed: [1, 2]")
    assert bare.teralog("submit", "campaign.yaml", "--throttle", "2").returncode == 0
    runs = bare.wait_for(["RUNNING", "RUNNING", "PENDING", "PENDING"])
    wait_for_reasons(bare, [None, None, "Dependency", "Dependency"])
    bare.teralog("cancel", "campaign.yaml", *(run["run_id"] for run in runs[:2]))
    bare.wait_for(["CANCELLED", "CANCELLED", "RUNNING", "RUNNING"])
    assert bare.teralog("retry", "campaign.yaml", "--throttle", "2").returncode == 0
    bare.wait_for(["PENDING", "PENDING", "RUNNING", "RUNNING"])
    wait_for_reasons(bare, ["Dependency", "Dependency", None, None])
    bare.teralog("cancel", "campaign.yaml", "--all")


def test_submit_wait_keeps_to_the_profile_s_submission_limit(bare) -> None:
    """`submit --wait` submits more runs only after earlier ones have ended."""
    bare.write_slurm_campaign("true", matrix="seed: [1, 2, 3, 4]", profile="submission_limit: 3\n")
    submitted = bare.teralog("submit", "campaign.yaml", "--wait")
    assert submitted.returncode == 0
    assert "1 run left: the profile's submission_limit is 3" in submitted.stdout
    bare.wait_for(["COMPLETED"] * 4)
    assert set(bare.starts().values()) == {1}


def test_a_submit_waits_for_another_active_one_with_a_message(bare) -> None:
    """A submit waits with a message while another submit is active, e.g. in an allocation."""
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    folder = bare.path / "results" / "play"
    folder.mkdir(parents=True)
    lock = locks.acquire(folder / "submit.lock")
    assert lock is not None
    submit = bare.start("submit", "campaign.yaml")
    assert submit.stderr is not None
    line = next(line for line in submit.stderr if not line.startswith("results: "))
    assert line == (
        f"{folder}: another submit is working on this campaign; waiting for that submit to "
        "end, at most 120 s\n"
    )
    assert submit.poll() is None
    os.close(lock)
    assert "waiting" not in submit.communicate(timeout=60)[1]
    assert submit.returncode == 0
    bare.wait_for(["COMPLETED"])


def test_runs_over_the_submission_limit_are_left_to_the_next_submit(bare) -> None:
    """`submit` starts no more runs than the submission limit, and prints how many runs are left.

    The next submit starts these runs, once earlier runs have ended.
    """
    bare.write_slurm_campaign(WAIT, profile="submission_limit: 3\n")
    first = bare.teralog("submit", "campaign.yaml")
    assert (
        "1 run left: the profile's submission_limit is 3, and 0 runs were in the queue"
        in first.stdout
    )
    assert bare.states().count("NOT_STARTED") == 1
    assert "1 run left" in bare.teralog("submit", "campaign.yaml").stdout
    bare.go()
    bare.wait_for(["COMPLETED"] * 3 + ["NOT_STARTED"])
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"] * 4)
    assert set(bare.starts().values()) == {1}


def test_a_test_only_submit_asks_slurm_and_leaves_nothing(bare, slurm) -> None:
    """`submit --test-only` prints Slurm's answer for each run, but submits and writes nothing."""
    bare.write_slurm_campaign("true", matrix="seed: [1, 2, 3]")
    before = slurm.run("squeue", "-h", "-t", "all", "-r").stdout.splitlines()
    result = bare.teralog("submit", "campaign.yaml", "--test-only")
    assert result.returncode == 0
    assert [" to start at " in line for line in result.stdout.splitlines()] == [True] * 3
    assert len(slurm.run("squeue", "-h", "-t", "all", "-r").stdout.splitlines()) == len(before)
    assert not (bare.path / "results").exists()
    bare.teralog("submit", "campaign.yaml")
    nothing = bare.teralog("submit", "campaign.yaml", "--test-only")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "nothing to start: no run is missing\n"


def test_a_refusal_is_shown_in_slurm_s_words_and_nothing_counts_as_started(bare) -> None:
    """If Slurm refuses a campaign, its message is shown; a corrected campaign can be submitted."""
    bare.write_slurm_campaign("true", matrix="seed: [1]", profile="partition: no-such\n")
    refused = bare.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "invalid partition specified" in refused.stderr
    assert [(run["state"], run["attempts"]) for run in bare.status()] == [("NOT_STARTED", 0)]
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"])
    assert list(bare.starts().values()) == [1]


def test_jobs_wait_for_their_dependency(bare, slurm) -> None:
    """`submit --dependency` passes the value to Slurm."""
    first = slurm.run(
        "sbatch", "--parsable", "--hold", "--mem=100M", "--output=/dev/null", "--wrap", "true"
    ).stdout.strip()
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml", "--dependency", f"afterok:{first}")
    [run] = bare.wait_for(["PENDING"])
    assert run["reason"] == "Dependency"
    slurm.run("scontrol", "release", first)
    bare.wait_for(["COMPLETED"])


def test_runs_are_cancelled_one_by_one_by_state_and_all(play) -> None:
    """`cancel` ends one run, runs in a state, or all; no later submit starts a cancelled run."""
    play.write_slurm_campaign(WAIT)
    play.teralog("submit", "campaign.yaml", "--throttle", "2")
    play.wait_for(["RUNNING", "RUNNING", "PENDING", "PENDING"])
    play.teralog("cancel", "campaign.yaml", "seed=3")
    assert play.states() == ["RUNNING", "RUNNING", "CANCELLED", "PENDING"]
    play.teralog("cancel", "campaign.yaml", "--state", "pending")
    assert play.states() == ["RUNNING", "RUNNING", "CANCELLED", "CANCELLED"]
    cancelled = play.teralog("cancel", "campaign.yaml", "--all")
    assert cancelled.returncode == 0
    assert [line.partition(" ")[2] for line in cancelled.stderr.splitlines()] == [
        "seed=1: CANCELLED",
        "seed=2: CANCELLED",
    ]
    assert play.states() == ["CANCELLED"] * 4
    assert {run["outcome"] for run in play.status()} == {"cancelled"}
    assert play.teralog("cancel", "campaign.yaml", "--all").stderr == "nothing to cancel\n"
    assert play.teralog("submit", "campaign.yaml").stdout == ""
    play.go()
    assert play.teralog("retry", "campaign.yaml", "--only", "cancelled").returncode == 0
    play.wait_for(["COMPLETED"] * 4)


def test_a_cancelled_run_that_was_never_submitted_is_not_submitted(bare) -> None:
    """If a user cancels a run that has no job, the next submit does not start this run."""
    bare.write_slurm_campaign("true", matrix="seed: [1, 2]")
    bare.teralog("cancel", "campaign.yaml", "seed=1")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["CANCELLED", "COMPLETED"])


def test_the_user_who_cancelled_is_shown_if_slurm_reports_it(
    playground, slurm_with_accounting
) -> None:
    """If accounting reports `CANCELLED by UID`, `status` shows the user and state CANCELLED."""
    playground.environment |= slurm_with_accounting.environment
    playground.write_slurm_campaign(WAIT, matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    [run] = playground.wait_for(["RUNNING"])
    named = ("sacct", "--noheader", "--allocations", "--format=JobName", "--jobs", run["job_id"])
    wait_until(
        lambda: "play" in slurm_with_accounting.run(*named).stdout,
        lambda: "accounting does not know the job",
    )
    slurm_with_accounting.run("scancel", run["job_id"])
    [run] = playground.wait_for(["CANCELLED"])
    assert run["scheduler_state"] == f"CANCELLED by {os.getuid()}"


def test_a_failed_run_is_reported_with_exit_code_and_log(play) -> None:
    """`status` shows the exit code that Slurm reports, and the log shows the reason."""
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
    play.write_slurm_campaign(
        f"test $gpus = 1 && exit 3; echo '{message}'; exit 1", matrix="gpus_per_node: [1, 2]"
    )
    stand_in = play.path / "stand-in"
    stand_in.write_text(
        stand_in.read_text().replace("test $gpus = 1", 'test "$SLURM_GPUS_ON_NODE" = 1')
    )
    play.teralog("submit", "campaign.yaml")
    first, second = play.wait_for(["FAILED", "FAILED"])
    assert (first["outcome"], first["outcome_by"]) == ("failed", "scheduler")
    assert (second["outcome"], second["outcome_by"]) == ("oom", "log")
    assert first["exit_code"] not in (None, 0)
    again = play.teralog("submit", "campaign.yaml")
    assert again.returncode == 1
    assert f": OOM: {message}" in again.stderr


def test_a_run_that_takes_too_long_ends_as_timeout(play, cluster) -> None:
    """A run that exceeds its time limit ends as TIMEOUT; a retry can request more time."""
    play.write_slurm_campaign(WAIT, matrix="seed: [1]")
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    wait_until(lambda: bool(play.starts()), lambda: "it has not begun")
    let_time_run_out(cluster, run["job_id"])
    [run] = play.wait_for(["TIMEOUT"])
    assert run["outcome"] == "timeout"
    play.go()
    assert (
        play.teralog("retry", "campaign.yaml", "--only", "timeout", "--time", "1:30:00").returncode
        == 0
    )
    [run] = play.wait_for(["COMPLETED"])
    assert run["attempts"] == 2
    job = cluster.run("scontrol", "--oneliner", "show", "job", run["job_id"]).stdout
    assert "TimeLimit=01:30:00" in job


def test_a_failed_node_is_reported_and_retry_can_exclude_it(play, cluster) -> None:
    """If a node fails and the profile forbids requeue, the run ends as NODE_FAIL.

    `retry --exclude NODE` starts the run on another node.
    """
    play.write_slurm_campaign(WAIT, matrix="seed: [1]", profile="requeue: false\n")
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    node = run["node_list"]
    fail_node(cluster, node)
    [run] = play.wait_for(["NODE_FAIL"])
    assert run["outcome"] == "node_fail"
    play.go()
    retried = play.teralog("retry", "campaign.yaml", "--only", "node_fail", "--exclude", node)
    assert retried.returncode == 0
    [run] = play.wait_for(["COMPLETED"])
    assert run["node_list"] != node


def test_a_run_that_slurm_starts_again_keeps_its_log_and_counts_its_restarts(play, cluster) -> None:
    """If Slurm requeues a run, its log has the output of both starts; `status` counts restarts.

    Until the run ends, it has no outcome. teralog ignores that accounting reports an end for some
    seconds.
    """
    play.write_slurm_campaign(f"echo life ${{SLURM_RESTART_COUNT:-0}}; {WAIT}", matrix="seed: [1]")
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    wait_until(lambda: bool(play.starts()), lambda: "it has not begun")
    fail_node(cluster, run["node_list"])
    seen: list[dict[str, Any]] = []

    def runs_again() -> bool:
        seen.extend(play.status())
        return seen[-1]["restarts"] == 1 and seen[-1]["state"] == "RUNNING"

    wait_until(runs_again, lambda: str(seen[-1]))
    assert {run["outcome"] for run in seen} == {None}
    going_on = {"RUNNING", "PENDING", "REQUEUED", "COMPLETING", "CONFIGURING"}
    assert {run["state"] for run in seen} <= going_on
    play.go()
    [run] = play.wait_for(["COMPLETED"])
    assert run["restarts"] == 1
    words = [line for line in Path(run["log"]).read_text().splitlines() if line.startswith("life")]
    assert words == ["life 0", "life 1"]
    assert len(list(play.path.glob("results/play/*/attempt-*"))) == 1


def test_held_runs_are_reported_with_the_command_that_releases_them(play, cluster) -> None:
    """`submit --hold` holds runs; `status` and `watch` print the command that releases them."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2, 3]")
    with (play.path / "campaign.yaml").open("a") as file:
        file.write("include: [{seed: 4, gpus_per_node: 2}]\n")
    play.teralog("submit", "campaign.yaml", "--hold")
    result = play.teralog("status", "campaign.yaml").stdout.splitlines()[-1]
    match = re.fullmatch(r"Slurm holds 4 runs until you type: (scontrol release .*)", result)
    assert match, result
    assert result in play.teralog("watch", "campaign.yaml", "--once").stdout.splitlines()
    cluster.run("bash", "-c", match[1])
    play.wait_for(["COMPLETED"] * 4)
    assert "held" not in play.teralog("status", "campaign.yaml").stdout


def test_logs_are_printed_and_followed_to_the_end(bare) -> None:
    """`logs -f` follows a log, and ends when the run ends."""
    bare.write_slurm_campaign(f"echo one; {WAIT}; echo two", matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING"])
    follower = bare.start("logs", "campaign.yaml", "gpt", "--follow")
    bare.go()
    out, _ = follower.communicate(timeout=60)
    assert [line for line in out.splitlines() if line in ("one", "two")] == ["one", "two"]
    assert bare.teralog("logs", "campaign.yaml", "gpt").stdout == out


@pytest.mark.parametrize("written", ["elsewhere", "{folder}/elsewhere"])
def test_logs_may_be_in_another_folder(bare, written: str) -> None:
    """If the profile has `log_folder`, logs are in this folder, relative to the profile.

    The run's folder has a link to the log.
    """
    folder = bare.path / "elsewhere"
    profile = json.dumps(written.format(folder=bare.path))
    bare.write_slurm_campaign(
        "echo hello", matrix="seed: [1, 2]", profile=f"log_folder: {profile}\n"
    )
    bare.teralog("submit", "campaign.yaml")
    runs = bare.wait_for(["COMPLETED"] * 2)
    for run in runs:
        assert Path(run["log"]).is_symlink()
        [log] = (folder / "play" / run["run_id"]).glob("attempt-1-*.log")
        assert "hello" in log.read_text()


def test_a_log_in_another_folder_is_of_one_attempt_only(bare) -> None:
    """If `log_folder` is set, each attempt has its own log file, which no other attempt writes to.

    The test has two runs of the same name in two results folders, and a rehearsal.
    """
    profile = f"log_folder: {json.dumps(str(bare.path / 'elsewhere'))}\n"
    bare.write_slurm_campaign("echo hello", matrix="seed: [1]", profile=profile)
    for results, how in (("results", ()), ("results", ("--rehearse",)), ("others", ())):
        bare.environment["TERALOG_RESULTS"] = str(bare.path / results)
        assert bare.teralog("submit", "campaign.yaml", *how).returncode == 0

    def ended() -> int:
        # Three jobs of one run may overlap here, and the ledger records all of them.
        return sum(event[1] == "end" for event in bare.events())

    wait_until(lambda: ended() == 3, lambda: str(bare.events()))
    logs = list(bare.path.glob("*/play/**/attempt-1/output.log"))
    assert len(logs) == 3
    for log in logs:
        wait_until(lambda log=log: "hello" in log.read_text(), lambda: "nothing was printed")
        assert log.read_text().count("hello") == 1


@pytest.mark.parametrize("folder", ["two words", "100%a", "back\\slash", "quo'te\"s"])
def test_the_results_folder_may_have_any_name(bare, folder: str) -> None:
    """Neither sbatch nor the shell interprets special characters in the results folder's name."""
    bare.write_slurm_campaign('echo "$run says hello"', matrix="seed: [1, 2]")
    bare.environment["TERALOG_RESULTS"] = str(bare.path / folder)
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    for run in bare.wait_for(["COMPLETED"] * 2):
        assert f"{run['run_id']} says hello" in Path(run["log"]).read_text()


def test_an_option_of_the_other_kind_of_cluster_is_refused(playground, bare) -> None:
    """On Slurm, --slots is refused; for runs on this machine, --throttle and --wait are refused."""
    bare.write_slurm_campaign("true")
    assert (
        "--slots: works only on this machine"
        in bare.teralog("submit", "campaign.yaml", "--slots", "2").stderr
    )
    playground.write_campaign("true")
    for option in (["--throttle", "2"], ["--wait"]):
        refused = playground.teralog("submit", "campaign.yaml", *option)
        assert refused.returncode == 1
        assert f"{option[0]}: works only on a Slurm cluster" in refused.stderr


@pytest.mark.parametrize("place", ["jobs", "allocation"])
def test_slurm_gets_options_that_no_key_is_for(bare, slurm, place: str) -> None:
    """Slurm gets the options in the keys `sbatch` and `srun` of the profile and of the runs."""
    epilog = bare.path / "epilog of mine"
    epilog.write_text('#!/bin/sh\necho called >> "$LEDGER.epilog"\n')
    epilog.chmod(0o755)
    bare.write_slurm_campaign(
        'echo "${CUDA_VISIBLE_DEVICES:-none}" >> "$LEDGER.seen"',
        matrix='sbatch: [["--contiguous"], []]',
        profile=f"""\
        gpus_per_task: 1
        sbatch: [--threads-per-core=1]
        srun: ["--epilog={epilog}", --unbuffered]
        """,
        launcher="srun",
        gpus_per_node=2,
    )
    allocate = shlex.split(bare.teralog("salloc", "campaign.yaml").stdout)
    assert {"--contiguous", "--threads-per-core=1", "--gres=gpu:2"} < {*allocate}
    if place == "jobs":
        submitted = bare.teralog("submit", "campaign.yaml")
        bare.wait_for(["COMPLETED"] * 2)
        ids = [line.partition(":")[0] for line in submitted.stdout.splitlines()]
        jobs = [slurm.run("scontrol", "--oneliner", "show", "job", job_id).stdout for job_id in ids]
        assert ["Contiguous=1" in job for job in jobs] == [True, False]
        assert all("ReqB:S:C:T=0:0:*:1" in job for job in jobs), jobs
    else:
        line = [*allocate, TERALOG, "submit", "campaign.yaml", "--here"]
        environment = {**os.environ, **bare.environment}
        subprocess.run(line, cwd=bare.path, env=environment, check=True, timeout=120)
    assert bare.states() == ["COMPLETED"] * 2
    assert bare.ledger.with_name("ledger.epilog").read_text() == "called\n" * 2
    seen = bare.ledger.with_name("ledger.seen").read_text().splitlines()
    assert len(seen) == 4
    assert not [devices for devices in seen if not devices.isdigit()]


def test_an_allocation_needs_runs_that_agree(bare) -> None:
    """`teralog salloc` refuses a campaign whose runs have different values of an sbatch option.

    All runs use one allocation, which can have only one value of each option.
    """
    bare.write_slurm_campaign("true", matrix='sbatch: [["--core-spec=1"], ["--core-spec=2"]]')
    refused = bare.teralog("salloc", "campaign.yaml")
    assert refused.returncode == 1
    assert (
        "has --core-spec=1, another --core-spec=2; in an allocation, all runs must"
        in refused.stderr
    )


PROFILE = """\
gpu_type: v100
reservation: ours
nodelist: {node}
exclude: {other}
begin: now+1hour
nice: 7
mail_user: me
mail_type: END,FAIL
exclusive: user
"""


def test_slurm_gets_the_profile_s_settings(bare, slurm) -> None:
    """Settings of the profile, e.g. a reservation, reach the job in Slurm.

    `submit --exclude` adds a node to the profile's list of excluded nodes.
    """
    node, other, *_ = slurm.plan.names_32g
    reservation = ("ReservationName=ours", f"Nodes={node}", "StartTime=now", "Duration=60")
    slurm.run("scontrol", "create", "reservation", *reservation, "Users=root")
    try:
        bare.write_slurm_campaign(
            "true", matrix="seed: [1]", profile=PROFILE.format(node=node, other=other)
        )
        submitted = bare.teralog("submit", "campaign.yaml", "--exclude", slurm.plan.names_16g[0])
        assert submitted.returncode == 0, submitted.stderr
        job_id = submitted.stdout.partition(":")[0]
        job = slurm.run("scontrol", "--oneliner", "show", "job", job_id).stdout
        for field in (
            "Reservation=ours",
            f"ReqNodeList={node}",
            "ExcNodeList=gpu[002,005]",
            "Nice=7",
            "MailUser=me MailType=END,FAIL",
            "OverSubscribe=USER",
            "gres:gpu:v100:",
            "Reason=BeginTime",
        ):
            assert field in job, job
        bare.teralog("cancel", "campaign.yaml", "--all")
        bare.wait_for(["CANCELLED"])
    finally:
        slurm.run("scontrol", "delete", "ReservationName=ours")


def test_a_retry_asks_slurm_for_other_resources(bare, slurm) -> None:
    """`retry` with --partition, --memory, --constraint and --time changes the job's requests."""
    bare.write_slurm_campaign('test -e "$LEDGER.go" || exit 3', matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["FAILED"])
    bare.go()
    other = ("--partition", "dev", "--memory", "2G", "--constraint", "v100-16g", "--time", "7")
    again = bare.teralog("retry", "campaign.yaml", *other)
    assert again.returncode == 0, again.stderr
    job = slurm.run("scontrol", "--oneliner", "show", "job", again.stdout.partition(":")[0]).stdout
    for sentence in ("Partition=dev", "mem=2G", "Features=v100-16g", "TimeLimit=00:07:00"):
        assert sentence in job
    bare.wait_for(["COMPLETED"])


def test_a_retry_suggests_settings_that_fit_the_gpu(bare) -> None:
    """If a run ended as oom, `retry` suggests settings whose forecast memory fits the GPU.

    It prints one suggestion for all repeats of a configuration. The campaign file is unchanged.
    """
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
    bare.write_slurm_campaign(
        f'test -e "$LEDGER.go" || {{ echo "{message}"; exit 1; }}',
        matrix="micro_batch_size: [1, 64]",
        profile="gpu: V100-SXM2-32GB\n",
    )
    with (bare.path / "campaign.yaml").open("a") as file:
        file.write("repeats: 2\n")
    bare.teralog("submit", "campaign.yaml", "--force")
    bare.wait_for(["FAILED"] * 4)
    bare.go()
    before = (bare.path / "campaign.yaml").read_text()
    again = bare.teralog("retry", "campaign.yaml", "--only", "oom")
    assert again.returncode == 0, again.stderr
    assert "mb1 r1 (and 1 repeat): forecast " in again.stderr
    assert ": the run should fit; check" in again.stderr
    assert "mb64 r1 (and 1 repeat): forecast 75.1 to 108 GiB" in again.stderr
    assert "\n  micro_batch_size: 16, num_microbatches: 4  (20.9 to 30.8 GiB)\n" in again.stderr
    assert (bare.path / "campaign.yaml").read_text() == before
    bare.wait_for(["COMPLETED"] * 4)


def test_a_retry_suggests_how_much_host_memory_to_request(
    playground, slurm_with_accounting
) -> None:
    """If a run needed too much host memory, `retry` suggests a value for --memory from accounting.

    With --memory, `retry` prints no suggestion, and the run completes.
    """
    playground.environment |= slurm_with_accounting.environment
    too_much = "import time; much = bytearray(1500 << 20); time.sleep(60)"
    body = f"test -e \"$LEDGER.go\" || exec python3 -c '{too_much}'"
    playground.write_slurm_campaign(body, matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    collected: list[dict[str, Any]] = []

    def has_ended() -> bool:
        collected[:] = playground.status()
        return collected[0]["outcome"] == "oom"

    wait_until(has_ended, lambda: str(collected))
    fields = ("sacct", "-P", "-n", "-o", "JobID,MaxRSS", "-j", collected[0]["job_id"])
    wait_until(
        lambda: re.search(r"\|[1-9]\d*K", slurm_with_accounting.run(*fields).stdout) is not None,
        lambda: slurm_with_accounting.run(*fields).stdout,
    )
    again = playground.teralog("retry", "campaign.yaml", "--only", "oom", "--hold")
    advice = re.search(
        r"ran out of the host's memory; asked for 1G and used .*: (.*)", again.stderr
    )
    assert advice is not None, again.stderr
    # The last sample may be from before the job used all its memory.
    assert re.fullmatch(r"try `retry --memory [23]G`", advice[1])
    playground.go()
    playground.teralog("cancel", "campaign.yaml", "--all")
    playground.wait_for(["CANCELLED"])
    again = playground.teralog("retry", "campaign.yaml", "--memory", "3G")
    assert "host's memory" not in again.stderr
    playground.wait_for(["COMPLETED"])


def test_a_retry_with_other_nodes_is_refused(bare) -> None:
    """`retry --nodes` is refused, because a different number of nodes makes a different run.

    The message names the key in the campaign file to change instead.
    """
    for place, matrix, defaults in (
        ("matrix.nodes", "nodes: [1, 2]", {}),
        ("defaults.nodes", "seed: [1]", {"nodes": 1}),
        ("under defaults", "seed: [1]", {}),
    ):
        bare.write_slurm_campaign("true", matrix=matrix, **defaults)
        refused = bare.teralog("retry", "campaign.yaml", "--nodes", "4")
        assert refused.returncode == 1
        assert (
            "--nodes: cannot be changed by `retry`, because a run with another number of nodes"
            in refused.stderr
        )
        assert f"Set `nodes: 4` in campaign.yaml ({place})" in refused.stderr


def test_reasons_of_waiting_jobs_are_shown(bare, slurm) -> None:
    """`status` explains in words why a job waits.

    If an administrator holds a job, `status` does not advise the user to release it.
    """
    bare.write_slurm_campaign(WAIT, matrix="seed: [1, 2, 3, 4]", profile="exclusive: true\n")
    bare.teralog("submit", "campaign.yaml", "--throttle", "1")
    runs = bare.wait_for(["RUNNING", "PENDING", "PENDING", "PENDING"])
    job_id = runs[0]["job_id"].partition("_")[0]
    # A hold by root is an administrator's hold, which the user cannot release.
    slurm.run("scontrol", "hold", f"{job_id}_2")
    slurm.run("scontrol", "uhold", f"{job_id}_3")
    collected: list[dict[str, Any]] = []

    def are_held() -> bool:
        collected[:] = bare.status()
        reasons = [run["reason"] for run in collected]
        return reasons == [None, "JobArrayTaskLimit", "JobHeldAdmin", "JobHeldUser"]

    wait_until(are_held, lambda: str(collected))
    printed = bare.teralog("status", "campaign.yaml").stdout
    assert "\nJobArrayTaskLimit (1 run): --throttle allows no more runs at once" in printed
    assert "\nJobHeldAdmin (1 run): an administrator holds the job" in printed
    assert f"Slurm holds 1 run until you type: scontrol release '{job_id}_[3]'" in printed
    bare.go()
    bare.teralog("cancel", "campaign.yaml", "--all")


def test_the_expected_start_of_a_waiting_job_is_shown(bare, slurm) -> None:
    """`status` shows the same expected start as squeue, and none for a running job."""
    bare.write_slurm_campaign(WAIT, matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml", "--hold")
    [run] = bare.status()
    assert run["expected_start"] is None
    update = ("scontrol", "update", f"jobid={run['job_id']}", "starttime=2036-01-02T03:04:05")
    slurm.run(*update)
    slurm.run("scontrol", "release", run["job_id"])
    collected: list[dict[str, Any]] = []

    def is_expected() -> bool:
        collected[:] = bare.status()
        return collected[0]["expected_start"] is not None and collected[0]["reason"] == "BeginTime"

    wait_until(is_expected, lambda: str(collected))
    assert collected[0]["expected_start"].startswith("2036-01-0")
    assert collected[0]["started_at"] is None
    printed = bare.teralog("status", "campaign.yaml").stdout
    assert re.search(r"BeginTime +01-0\d \d\d:\d\d", printed)
    assert "\nBeginTime (1 run): " in printed
    slurm.run("scontrol", "update", f"jobid={run['job_id']}", "starttime=now")
    [run] = bare.wait_for(["RUNNING"])
    assert run["expected_start"] is None
    bare.go()
    bare.wait_for(["COMPLETED"])


def test_the_expected_start_of_a_job_without_a_node_is_shown(bare) -> None:
    """If all nodes are busy, `status` shows when Slurm expects to start a waiting job.

    For this time, Slurm assumes that the running jobs end only at their time limits.
    """
    bare.write_slurm_campaign(
        WAIT, matrix="seed: [1, 2, 3, 4, 5]", profile="exclusive: true\n", time_limit=5
    )
    bare.teralog("submit", "campaign.yaml")
    collected: list[dict[str, Any]] = []

    def is_expected() -> bool:
        collected[:] = bare.status()
        return collected[-1]["expected_start"] is not None and collected[0]["state"] == "RUNNING"

    wait_until(is_expected, lambda: str(collected))
    assert collected[-1]["state"] == "PENDING"
    started, expected = (
        datetime.fromisoformat(text)
        for text in (collected[0]["started_at"], collected[-1]["expected_start"])
    )
    assert 240 <= (expected - started).total_seconds() <= 900
    assert [run["expected_start"] for run in collected[:4]] == [None] * 4
    bare.go()
    bare.wait_for(["COMPLETED"] * 5)
