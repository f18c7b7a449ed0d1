"""Check that the practice cluster is a real Slurm and behaves like a large one."""

import functools
from pathlib import Path

import pytest
from practice.jobs import clear, fail_node, let_time_run_out, state, submit, wait_for, wait_until
from practice.plan import ACCOUNT, PracticeError
from practice.running import Cluster

pytestmark = pytest.mark.slurm


def test_the_nodes_are_idle_with_the_features_and_gpus_they_promise(slurm: Cluster) -> None:
    """Six nodes are idle; Slurm reports 40 cores, 80 threads and 4 V100s for each."""
    listed = slurm.run("sinfo", "-h", "-N", "-p", "v100", "-o", "%N %T %f %G %z").stdout
    common = "gpu:v100:4 2:20:2"
    assert listed.splitlines() == [
        *(f"gpu00{number} idle v100,v100-32g {common}" for number in (1, 2, 3, 4)),
        *(f"gpu00{number} idle v100,v100-16g {common}" for number in (5, 6)),
    ]


def test_a_job_runs_and_its_output_is_there(slurm: Cluster, tmp_path: Path) -> None:
    """A job sees the GPUs that it requested, and its host name is the name of its node."""
    body = 'echo "$(hostname) $CUDA_VISIBLE_DEVICES"'
    job = submit(slurm, body, "--gres=gpu:2", "--nodelist=gpu003", folder=tmp_path)
    assert wait_for(slurm, job, "COMPLETED|FAILED") == "COMPLETED"
    assert (tmp_path / f"{job}.out").read_text() == "gpu003 0,1\n"


def test_a_step_spans_nodes_that_find_each_other_by_name(slurm: Cluster, tmp_path: Path) -> None:
    """In a job of two nodes, both nodes can resolve the name of the first node."""
    body = 'srun bash -c "getent ahostsv4 gpu005 | sed -n 1p; hostname"'
    job = submit(slurm, body, "--nodes=2", "--constraint=v100-16g", folder=tmp_path)
    assert wait_for(slurm, job, "COMPLETED|FAILED") == "COMPLETED"
    lines = (tmp_path / f"{job}.out").read_text().split("\n")
    assert {"gpu005", "gpu006"} < set(lines)
    assert sum(line.startswith("127.0.1.5 ") for line in lines) == 2


def test_the_gpt2_page_s_allocation_is_granted(slurm: Cluster) -> None:
    """Slurm grants the request of the `salloc` line in docs/how-to/practice-cluster.md.

    The test requests 4 nodes instead of 16.
    """
    done = slurm.run(
        *("salloc", "--constraint=v100-32g", "--nodes=4", "--ntasks=4", "--cpus-per-task=40"),
        *("--gres=gpu:4", "--hint=nomultithread", "--time=6:00:00", "srun", "hostname"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["gpu001", "gpu002", "gpu003", "gpu004"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--constraint=a100", "Invalid feature specification"),
        ("--gres=gpu:5", "Requested node configuration is not available"),
        ("--partition=gpu_p13", "invalid partition specified"),
        ("--array=0-11", "Invalid job array specification"),
    ],
)
def test_resources_that_no_node_has_are_refused(
    slurm: Cluster, tmp_path: Path, option: str, message: str
) -> None:
    """Slurm refuses resources that no node has, with the same message as on a real site."""
    with pytest.raises(PracticeError, match=message):
        submit(slurm, "true", option, folder=tmp_path)


def test_an_array_runs_its_tasks_within_its_throttle(slurm: Cluster, tmp_path: Path) -> None:
    """In an array of the largest allowed size, with a limit of four at once, each task runs."""
    body = "touch began-$SLURM_ARRAY_TASK_ID; [[ $SLURM_ARRAY_TASK_ID != 7 ]]"
    job = submit(slurm, body, "--array=0-10%4", folder=tmp_path)
    assert wait_for(slurm, job, "COMPLETED FAILED") == "COMPLETED FAILED"
    assert len(list(tmp_path.glob("began-*"))) == 11
    assert state(slurm, f"{job}_7") == "FAILED"


def test_a_cancelled_job_gets_a_signal_and_ends(slurm: Cluster, tmp_path: Path) -> None:
    """If a job is cancelled, the trap in its script runs before Slurm kills the job."""
    body = 'trap "echo told" TERM; touch began; sleep 60 & wait'
    job = submit(slurm, body, folder=tmp_path)
    wait_until((tmp_path / "began").exists, lambda: "the job has not begun")
    slurm.run("scancel", "--full", job)
    assert wait_for(slurm, job, "CANCELLED") == "CANCELLED"
    assert "told" in (tmp_path / f"{job}.out").read_text()


def test_a_node_that_fails_takes_its_job_and_comes_back(slurm: Cluster, tmp_path: Path) -> None:
    """If a node fails, a job that may not be requeued ends as NODE_FAIL.

    Later the node is usable again.
    """
    options = ("--nodelist=gpu002", "--no-requeue")
    job = submit(slurm, "sleep 60", *options, folder=tmp_path)
    wait_for(slurm, job, "RUNNING")
    slurm.run("scontrol", "update", "nodename=gpu002", "state=down", "reason=test")
    assert wait_for(slurm, job, "NODE_FAIL") == "NODE_FAIL"
    slurm.run("scontrol", "update", "nodename=gpu002", "state=resume")
    again = submit(slurm, "true", "--nodelist=gpu002", folder=tmp_path)
    assert wait_for(slurm, again, "COMPLETED") == "COMPLETED"


def printed_by(job: str, folder: Path) -> Path:
    """Wait until the script of `job` has printed a line; return its output file.

    The state RUNNING is not enough, because Slurm reports it before the script has begun.
    """
    printed = folder / f"{job}.out"
    wait_until(
        lambda: printed.exists() and printed.read_text() != "", lambda: "the job has not begun"
    )
    return printed


def test_a_node_that_fails_stays_away_from_the_job_it_lost(slurm: Cluster, tmp_path: Path) -> None:
    """If a node fails, its job starts again on another node; the failed node stays drained.

    If the failed node got this job again too early, Slurm would hold the job.
    """
    body = """trap "" TERM; echo "$SLURMD_NODENAME"; [[ -v SLURM_RESTART_COUNT ]] || sleep 600"""
    options = ("--requeue", "--open-mode=append", "--partition=v100")
    job = submit(slurm, body, *options, folder=tmp_path)
    printed = printed_by(job, tmp_path)
    node = printed.read_text().strip()
    fail_node(slurm, node)
    assert wait_for(slurm, job, "COMPLETED") == "COMPLETED"
    assert printed.read_text().splitlines()[-1] != node
    state_of_node = ("sinfo", "--noheader", "--nodes", node, "--partition=v100", "--format=%T")
    assert slurm.run(*state_of_node).stdout == "drained\n"
    clear(slurm)
    assert slurm.run(*state_of_node).stdout == "idle\n"


def test_a_preempted_job_runs_again(slurm: Cluster, tmp_path: Path) -> None:
    """A job in the partition `preemptible` is stopped for other jobs, and starts again later."""
    body = 'echo "start ${SLURM_RESTART_COUNT:-0}"; [[ -v SLURM_RESTART_COUNT ]] || sleep 60'
    everything = ("--nodes=6", "--exclusive")
    options = ("--partition=preemptible", "--requeue", "--open-mode=append", *everything)
    job = submit(slurm, body, *options, folder=tmp_path)
    printed = printed_by(job, tmp_path)
    stronger = submit(slurm, "true", *everything, folder=tmp_path)
    assert wait_for(slurm, stronger, "COMPLETED") == "COMPLETED"
    assert wait_for(slurm, job, "COMPLETED") == "COMPLETED"
    assert printed.read_text().split("\n")[0] == "start 0"
    assert "start 1\n" in printed.read_text()


def test_a_job_over_its_memory_is_killed(slurm: Cluster, tmp_path: Path) -> None:
    """If a job uses more memory than it requested, Slurm kills it and reports FAILED.

    Without cgroups, Slurm checks the memory once a second.
    """
    body = "exec python3 -c 'import time; x = bytearray(300 << 20); time.sleep(60); print(len(x))'"
    job = submit(slurm, body, "--mem=50", folder=tmp_path)
    assert wait_for(slurm, job, "FAILED|OUT_OF_MEMORY|COMPLETED") != "COMPLETED"
    assert "exceeded memory limit" in (tmp_path / f"{job}.out").read_text()


def test_a_job_over_its_time_ends_as_timeout(slurm: Cluster, tmp_path: Path) -> None:
    """A job that exceeds its time limit ends as TIMEOUT.

    To save time, the test sets the job's time limit to a few seconds from now. Slurm checks the
    limits only every 30 s.
    """
    job = submit(slurm, "sleep 300", "--time=10", folder=tmp_path)
    wait_for(slurm, job, "RUNNING")
    let_time_run_out(slurm, job)
    assert wait_for(slurm, job, "TIMEOUT", seconds=90) == "TIMEOUT"


def test_without_accounting_sacct_prints_nothing(slurm: Cluster) -> None:
    """On a cluster without slurmdbd, sacct reports on stderr that accounting is disabled."""
    assert "disabled" in slurm.run("sacct").stderr


def test_sacct_reports_how_jobs_ended(slurm_with_accounting: Cluster, tmp_path: Path) -> None:
    """The output of sacct has states and exit codes, also for the tasks of an array."""
    slurm = slurm_with_accounting
    job = submit(slurm, "exit $SLURM_ARRAY_TASK_ID", "--array=0,3", folder=tmp_path)
    fields = "--format=JobID,State,ExitCode,Account,AllocTRES%60"
    sacct = functools.partial(slurm.run, "sacct", "-X", "-n", "-P", "-j", job, fields)
    wait_until(lambda: sacct().stdout.count("D|") == 2, lambda: sacct().stdout)
    rows = [line.split("|")[:4] for line in sorted(sacct().stdout.splitlines())]
    assert rows == [
        [f"{job}_0", "COMPLETED", "0:0", ACCOUNT],
        [f"{job}_3", "FAILED", "3:0", ACCOUNT],
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--account=nobody-s", "Invalid account"),
        ("--qos=gold", "Invalid qos"),
        ("--qos=dev --time=3:00:00", "QOSMaxWallDurationPerJobLimit"),
    ],
)
def test_with_accounting_accounts_and_limits_are_enforced(
    slurm_with_accounting: Cluster, tmp_path: Path, option: str, message: str
) -> None:
    """Slurm refuses a job with a wrong account or QOS, or beyond the QOS's number of jobs."""
    with pytest.raises(PracticeError, match=message):
        submit(slurm_with_accounting, "true", *option.split(), folder=tmp_path)
