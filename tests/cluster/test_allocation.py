"""Run campaigns within an allocation of a real Slurm: each run is a job step on its nodes."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import wait_until

from orchestrator.common import locks

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
# A run starts this on its nodes instead of a training.
BODY = 'echo "$run on $SLURMD_NODENAME gpus $CUDA_VISIBLE_DEVICES step $SLURM_STEP_ID"'
# Records its node, GPUs and port when it starts, and again when it ends.
HOLD = """\
echo "$run holds $SLURMD_NODENAME ${CUDA_VISIBLE_DEVICES:-none} $MASTER_PORT" >> "$LEDGER"
echo "$run cpus $SLURM_CPUS_ON_NODE"
{wait}
echo "$run leaves $SLURMD_NODENAME ${CUDA_VISIBLE_DEVICES:-none} $MASTER_PORT" >> "$LEDGER"
"""
GO = 'until test -e "$LEDGER.go"; do sleep 0.1; done'
# Continues when this many tasks have begun.
TOGETHER = 'until test $(grep -c holds "$LEDGER") -ge {count}; do sleep 0.1; done'
# Continues when this many other runs have begun, however many tasks each has.
RUNS_TOGETHER = (
    """until test $(awk '$2 == "holds" {{print $1}}' "$LEDGER" | sort -u | wc -l) -ge {count};"""
    " do sleep 0.1; done"
)
# Lines of a profile that show when a job script is active, also while its step waits.
AT_WORK = """\
setup:
  - run=$(basename "$(dirname "$PWD")")
  - echo "$run begins $SLURM_NNODES" >> "$LEDGER"
  - trap 'echo "$run ends $SLURM_NNODES" >> "$LEDGER"' EXIT
"""


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground (a folder with a small campaign) on the cluster."""
    playground.environment |= slurm.environment
    return playground


ONE_GPU = "salloc --nodes=1 --gres=gpu:1 --mem=1G --constraint=v100-32g"


def run_line(
    play, line: str, command: str, seconds: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Execute `command` with bash in the allocation that a `salloc` line requests.

    line: the `salloc` command line, without a command of its own.
    """
    return subprocess.run(
        [*shlex.split(line), "bash", "-c", command],
        cwd=play.path,
        env={**os.environ, **play.environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def holding(wait: str) -> str:
    """Return bash lines that record that a run uses its GPUs, and later that it has left them.

    wait: bash code that the lines execute between the two records.
    """
    return HOLD.replace("{wait}", wait)


def here(play, options: str) -> "subprocess.CompletedProcess[str]":
    """Run `submit --here` in an allocation of 2 GB per node.

    options: further options of salloc.
    """
    line = f"salloc --mem=2G --constraint=v100-32g {options}"
    return run_line(play, line, f"{TERALOG} submit campaign.yaml --here")


def held(play) -> list[tuple[str, str, str, str]]:
    """Return (run, node, GPUs, port) of each task; assert that no two active tasks share a GPU."""
    now: dict[tuple[str, str], str] = {}
    collected = []
    for run, what, *rest in play.events():
        if what not in {"holds", "leaves"}:
            continue
        node, gpus, port = rest
        for gpu in gpus.split(",") if gpus != "none" else ():
            if what == "holds":
                assert (node, gpu) not in now
                now[node, gpu] = run
            else:
                assert now.pop((node, gpu)) == run
        if what == "holds":
            collected.append((run, node, gpus, port))
    assert not now
    return collected


def count_holds(play) -> int:
    """Return how many tasks have recorded so far that they use their GPUs."""
    return sum(what == "holds" for _, what, *_ in play.events())


def most_at_once(play) -> int:
    """Return the largest number of nodes that were in use at once.

    A node that several runs share counts once for each of these runs.
    """
    count = most = 0
    for _, what, *rest in play.events():
        if what in {"begins", "ends"}:
            count += int(rest[0]) if what == "begins" else -int(rest[0])
        most = max(most, count)
    return most


def test_salloc_line_fits_the_largest_run_and_the_time_of_all_runs(play) -> None:
    """`teralog salloc` requests nodes for the largest run, and time for all runs."""
    play.write_slurm_campaign(
        "true",
        matrix="nodes: [1, 2], gpus_per_node: [2, 4]",
        profile="cores_per_rank: 5\nrequeue: false\n",
    )
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    assert line == (
        "salloc --job-name=play --nodes=2 --ntasks-per-node=1 --cpus-per-task=20 --gres=gpu:4 "
        "--constraint=v100-32g --mem=1G --time=0:21:00"
    )
    job = run_line(play, line, "scontrol --oneliner show job $SLURM_JOB_ID").stdout
    assert "NumNodes=2" in job
    assert "TimeLimit=00:21:00" in job
    other = play.teralog("salloc", "campaign.yaml", "--time", "45").stdout
    assert "--time=0:45:00" in other


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_runs_are_steps_side_by_side_on_nodes_of_their_own(play, launcher: str) -> None:
    """Two one-node runs run at the same time on different nodes; the two-node runs run later.

    Each run sees only its own GPUs.
    """
    # The first two runs end only after both have begun, on the node of each.
    wait = RUNS_TOGETHER.format(count=2)
    play.write_slurm_campaign(
        f"{BODY}\n{holding(wait)}",
        matrix="nodes: [1, 2], seed: [1, 2]",
        gpus_per_node=2,
        launcher=launcher,
    )
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    done = run_line(play, line, f"{TERALOG} submit campaign.yaml --here")
    assert done.returncode == 0, done.stderr
    assert "4 runs to start on 2 nodes of the allocation" in done.stderr
    runs = play.status()
    assert [run["state"] for run in runs] == ["COMPLETED"] * 4
    ranks = 2 if launcher == "srun" else 1
    nodes = []
    for run in runs:
        words = [
            line.split()
            for line in Path(run["log"]).read_text().splitlines()
            if line.startswith(f"{run['run_id']} on ")
        ]
        count = 1 if run in runs[:2] else 2
        assert len(words) == count * ranks
        assert {len(word[4].split(",")) for word in words} == {2}
        nodes.append({word[2] for word in words})
        assert len(nodes[-1]) == count
    assert nodes[0] != nodes[1]


def test_a_run_that_slurm_has_is_left_to_it(play) -> None:
    """`submit --here` starts only runs that are not in Slurm's queue."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2]")
    play.teralog("submit", "campaign.yaml", "--hold")
    done = run_line(play, ONE_GPU, f"{TERALOG} submit campaign.yaml --here")
    assert done.returncode == 0, done.stderr
    assert play.states() == ["PENDING"] * 2
    play.teralog("cancel", "campaign.yaml", "--all")


def test_queued_runs_can_be_cancelled_and_retried_in_an_allocation(play) -> None:
    """After `cancel --state PENDING`, `retry --here` starts the runs in an allocation."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2]")
    play.teralog("submit", "campaign.yaml", "--hold")
    play.teralog("cancel", "campaign.yaml", "--state", "PENDING")
    done = run_line(play, ONE_GPU, f"{TERALOG} retry campaign.yaml --here")
    assert done.returncode == 0, done.stderr
    assert "2 runs to start on 1 node of the allocation" in done.stderr
    assert play.states() == ["COMPLETED"] * 2


def test_a_retry_in_an_allocation_refuses_options_that_request_resources(play) -> None:
    """`retry --here` has the nodes and memory of its allocation, so it cannot request others."""
    play.write_slurm_campaign("true", matrix="seed: [1]")
    options = ["--memory", "2G", "--partition", "dev", "--qos", "long"]
    done = play.teralog("retry", "campaign.yaml", "--here", *options)
    assert done.returncode == 1
    assert done.stderr == (
        "teralog: --memory, --partition, --qos: the allocation already has its nodes and memory; "
        "remove these options, or remove --here\n"
    )


def test_a_run_that_slurm_has_forgotten_does_not_block_its_series(play) -> None:
    """If Slurm no longer knows a run's job, the next run of the series still starts.

    The run whose job is not known has the state UNKNOWN.
    """
    play.write_slurm_campaign(
        "true", matrix="micro_batch_size: [1, 2]", profile="submission_limit: 1\n"
    )
    with (play.path / "campaign.yaml").open("a") as file:
        file.write("give_up: micro_batch_size\n")
    play.teralog("submit", "campaign.yaml", "--hold")
    [receipt] = play.path.glob("results/play/submissions/*/receipt.json")
    record = json.loads(receipt.read_text())
    receipt.write_text(json.dumps({**record, "job_id": "999999"}))
    assert play.states() == ["UNKNOWN", "NOT_STARTED"]
    run_line(play, ONE_GPU, f"{TERALOG} submit campaign.yaml --here")
    assert play.states() == ["UNKNOWN", "COMPLETED"]


def test_a_run_that_cannot_be_cancelled_does_not_protect_others(play) -> None:
    """If another host started a run, `cancel --all` reports this and cancels the other runs."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2]", profile="submission_limit: 1\n")
    play.teralog("submit", "campaign.yaml", "--hold")
    assert run_line(play, ONE_GPU, f"{TERALOG} submit campaign.yaml --here").returncode == 0
    assert play.states() == ["PENDING", "COMPLETED"]
    folder = play.path / "results" / "play" / play.status()[1]["run_id"]
    attempt = folder / "attempt-1"
    started = json.loads((attempt / "attempt.json").read_text())
    (attempt / "attempt.json").write_text(json.dumps({**started, "host": "elsewhere"}))
    (attempt / "ended.json").unlink()
    lock = locks.acquire(folder / "run.lock")
    assert lock is not None
    try:
        cancelled = play.teralog("cancel", "campaign.yaml", "--all")
        assert cancelled.returncode == 1
        assert "was started on elsewhere" in cancelled.stderr
        assert play.states() == ["CANCELLED", "RUNNING"]
    finally:
        os.close(lock)


def test_a_missing_or_too_small_allocation_is_reported(play) -> None:
    """`submit --here` reports a missing or too small allocation before it starts any run."""
    play.write_slurm_campaign("true", matrix="nodes: [3]")
    none = play.teralog("submit", "campaign.yaml", "--here")
    assert none.returncode == 1
    assert "--here: this is not an allocation" in none.stderr
    small = run_line(
        play,
        "salloc --nodes=1 --gres=gpu:1 --mem=1G",
        f"{TERALOG} submit campaign.yaml --here",
    )
    assert small.returncode == 1
    assert "nodes=3, but this allocation has 1" in small.stderr
    assert play.states() == ["NOT_STARTED"]


def test_a_run_in_an_allocation_is_ended_by_cancel(play) -> None:
    """`teralog cancel` ends a run in an allocation, and the run's steps."""
    play.write_slurm_campaign("sleep 600", matrix="seed: [1]")
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    process = subprocess.Popen(
        [*shlex.split(line), TERALOG, "submit", "campaign.yaml", "--here"],
        cwd=play.path,
        env={**os.environ, **play.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    play.wait_for(["RUNNING"])
    wait_until(lambda: "sleep" in play.process_names(), lambda: "the run has not begun")
    assert play.teralog("cancel", "campaign.yaml", "--all").returncode == 0
    process.wait(timeout=60)
    assert play.states() == ["CANCELLED"]
    assert "sleep" not in play.process_names()


def test_runs_of_few_gpus_share_a_node_each_with_its_own(play) -> None:
    """Four runs of one GPU each share a node of four GPUs; each has its own GPU and port."""
    wait = TOGETHER.format(count=4)
    play.write_slurm_campaign(holding(wait), gpus_per_node=1, profile="cores_per_rank: 2")
    done = here(play, "--nodes=1 --gres=gpu:4 --cpus-per-task=8")
    assert done.returncode == 0, done.stderr
    assert "4 runs to start on 1 node of the allocation, with 4 GPUs" in done.stderr
    tasks = held(play)
    assert len({run for run, *_ in tasks}) == 4
    assert {gpus for _, _, gpus, _ in tasks} == {"0", "1", "2", "3"}
    assert len({port for *_, port in tasks}) == 4
    for run in play.status():
        assert f"{run['run_id']} cpus 2" in Path(run["log"]).read_text()


def test_runs_of_several_nodes_and_small_ones_mix(play) -> None:
    """Three runs on two nodes and three runs on one node share an allocation of two nodes.

    Each run uses two of the four GPUs of a node. At each moment as many runs are active as fit.
    """
    play.write_slurm_campaign(
        holding("sleep 1"),
        matrix="nodes: [1, 2], seed: [1, 2, 3]",
        gpus_per_node=2,
        profile=AT_WORK,
    )
    done = here(play, "--nodes=2 --ntasks-per-node=1 --gres=gpu:4 --cpus-per-task=8")
    assert done.returncode == 0, done.stderr
    assert play.states() == ["COMPLETED"] * 6
    tasks = held(play)
    assert len(tasks) == 3 + 3 * 2
    assert {len(gpus.split(",")) for _, _, gpus, _ in tasks} == {2}
    large = [run["run_id"] for run in play.status()[3:]]
    for run_id in large:
        assert {node for run, node, *_ in tasks if run == run_id} == {node for _, node, *_ in tasks}
        assert len({port for run, _, _, port in tasks if run == run_id}) == 1
    assert most_at_once(play) == 4


def test_devices_of_a_killed_run_are_free_again(play) -> None:
    """If a run's supervisor is killed, a waiting run takes its devices. The other runs go on."""
    play.write_slurm_campaign(holding(GO), matrix="seed: [1, 2, 3, 4, 5]", gpus_per_node=1)
    line = "salloc --nodes=1 --gres=gpu:4 --cpus-per-task=8 --mem=2G"
    process = subprocess.Popen(
        [*shlex.split(line), TERALOG, "submit", "campaign.yaml", "--here"],
        cwd=play.path,
        env={**os.environ, **play.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    play.wait_for(["RUNNING"] * 4 + ["NOT_STARTED"])
    wait_until(lambda: count_holds(play) == 4, lambda: str(play.events()))
    second = play.status()[1]["run_id"]
    [record] = play.path.glob(f"results/play/{second}/attempt-1/attempt.json")
    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    play.wait_for(["RUNNING", "INTERRUPTED"] + ["RUNNING"] * 3)
    # Slurm takes a while to end the step; until then its GPU is not free.
    wait_until(lambda: count_holds(play) == 5, lambda: str(play.events()))
    play.go()
    assert process.wait(timeout=120) == 1
    assert play.states() == ["COMPLETED", "INTERRUPTED"] + ["COMPLETED"] * 3
    taken = [gpus for _, what, *rest in play.events() if what == "holds" for gpus in rest[1:2]]
    assert sorted(taken[:4]) == ["0", "1", "2", "3"]
    [killed] = [rest[1] for run, what, *rest in play.events() if (run, what) == (second, "holds")]
    assert taken[4] == killed


@pytest.mark.parametrize(
    ("profile", "options", "most"),
    [
        ("exclusive: true", "--nodes=1 --gres=gpu:4 --cpus-per-task=8", 1),
        # The node has cores for only two of the runs.
        ("cores_per_rank: 4", "--nodes=1 --gres=gpu:4 --cpus-per-task=8", 2),
        # With nomultithread a CPU is a core.
        ("cores_per_rank: 2", "--nodes=1 --gres=gpu:4 --cpus-per-task=8 --hint=nomultithread", 4),
        # With --exclusive the job gets the whole node, whatever else it requests.
        ("", "--nodes=1 --gres=gpu:1 --exclusive", 4),
        ("", "--nodes=1 --gpus-per-node=4 --cpus-per-task=8", 4),
        ("", "--nodes=2 --ntasks=2 --gpus=4 --cpus-per-task=8", 4),
    ],
)
def test_gpus_and_cores_limit_how_many_runs_start_at_once(
    play, profile: str, options: str, most: int
) -> None:
    """The number of runs at the same time is limited by free GPUs and cores of the nodes.

    With `exclusive: true` in the profile, each node has one run at a time.
    """
    wait = f"timeout 60 bash -c '{TOGETHER.format(count=most)}'; sleep 0.5"
    play.write_slurm_campaign(holding(wait), gpus_per_node=1, profile=f"{AT_WORK}{profile}")
    done = here(play, options)
    assert done.returncode == 0, done.stderr
    assert len(held(play)) == 4
    assert most_at_once(play) == most


@pytest.mark.parametrize(
    ("cores_per_rank", "most"),
    [(1, 4), (2, 2), (4, 1), (16, 1)],
)
def test_nodes_without_gpus_are_shared_by_cores(play, cores_per_rank: int, most: int) -> None:
    """On nodes without GPUs, several runs share a node if it has enough cores for all of them.

    A run that needs more cores than a share gets a whole node.
    """
    wait = f"timeout 60 bash -c '{TOGETHER.format(count=most)}'; sleep 0.5"
    profile = f"cores_per_rank: {cores_per_rank}\n{AT_WORK}"
    play.write_slurm_campaign(holding(wait), gpus_per_node=2, profile=profile)
    file = play.path / "slurm.yaml"
    file.write_text(file.read_text().replace("gpus_per_node: 4", "gpus_per_node: 0"))
    done = here(play, "--nodes=1 --cpus-per-task=8")
    if cores_per_rank > 4:
        # Slurm refuses these steps, because waiting would not help.
        assert done.returncode == 1
        assert play.states() == ["FAILED"] * 4
        assert most_at_once(play) == most
        return
    assert done.returncode == 0, done.stderr
    assert len(held(play)) == 4
    assert most_at_once(play) == most


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_gpu_sampler_sees_only_the_gpus_of_its_run(play, exclusive: bool) -> None:
    """On a shared node, the GPU sampler of a run samples only the GPUs of this run."""
    look = (
        "{ sleep 1; srun --overlap --mem=0 --cpus-per-task=1 --nodes=1 --ntasks=1 bash -c "
        '\'echo "$SLURM_STEP_ID beside $CUDA_VISIBLE_DEVICES" >> "$LEDGER"\'; } &'
    )
    profile = f"exclusive: {str(exclusive).lower()}\nsetup: [{json.dumps(look)}]\n"
    wait = "for _ in $(seq 80); do grep -q beside $LEDGER && break; sleep 0.1; done"
    play.write_slurm_campaign(
        holding(wait), matrix="seed: [1, 2]", gpus_per_node=2, profile=profile
    )
    done = here(play, "--nodes=1 --gres=gpu:4 --cpus-per-task=8")
    assert done.returncode == 0, done.stderr
    beside = [rest[0] for _, what, *rest in play.events() if what == "beside"]
    assert set(beside) == ({"0,1"} if exclusive else set())
    assert len(held(play)) == 2


@pytest.mark.train
@pytest.mark.timeout(900)
def test_all_launchers_train_on_one_node_at_the_same_time(play) -> None:
    """Runs of all launchers train side by side on one node, each with a different port."""
    pytest.importorskip("deepspeed")
    play.write_slurm_campaign(
        "true",
        matrix="launcher: [torchrun, srun, deepspeed]",
        model={
            "num_layers": 2,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "vocab_size": 512,
            "seq_length": 64,
        },
        gpus_per_node=2,
        train_iters=4,
    )
    python = play.path / "python"
    # A preloaded library resolves the cluster's node names; it breaks DeepSpeed's 127.0.0.1.
    python.write_text(
        '#!/bin/bash\n[[ "$*" == *deepspeed.launcher* ]] && unset LD_PRELOAD\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    profile = f"gpus_per_node: 0\nmemory: 8G\npython: {json.dumps(str(python))}\n"
    (play.path / "slurm.yaml").write_text(profile)
    line, command = "salloc --mem=8G --nodes=1 --cpus-per-task=8", "submit campaign.yaml --here"
    run_line(play, line, f"{TERALOG} {command}", seconds=600)
    logs = [Path(run["log"]).read_text() for run in play.status()]
    assert play.states() == ["COMPLETED"] * 3, "\n".join(logs)
    assert len({log.rpartition("final_loss ")[2].split()[0] for log in logs}) == 1
