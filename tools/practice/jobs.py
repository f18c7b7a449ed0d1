"""Jobs of a practice cluster for tests: submit, watch and remove them."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from practice.plan import PracticeError
from practice.running import Cluster


def submit(cluster: Cluster, body: str, *options: str, folder: Path) -> str:
    """Write a bash script into a folder, submit it there, and return the job's id.

    body: the lines of the script. options: options of sbatch. The job writes its output to `ID.out`
    in `folder`. Raises PracticeError, with sbatch's message, if Slurm refuses the job.
    """
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    done = cluster.run("sbatch", "--parsable", "--output=%j.out", *options, script.name, cwd=folder)
    if done.returncode != 0:
        raise PracticeError(done.stderr.strip())
    return done.stdout.strip()


def state(cluster: Cluster, job: str) -> str:
    """Return a job's state, e.g. PENDING.

    For an array, returns the different states of its tasks, sorted and separated by spaces.
    """
    listed = cluster.run(
        "squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T"
    )
    return " ".join(sorted(set(listed.stdout.split())))


def wait_for(cluster: Cluster, job: str, pattern: str, seconds: float = 120) -> str:
    """Wait until a job's state matches a regular expression, and return the state.

    Raises PracticeError if the state still does not match after `seconds`.
    """
    last_state = ""

    def reached() -> bool:
        nonlocal last_state
        last_state = state(cluster, job)
        return re.fullmatch(pattern, last_state) is not None

    def problem() -> str:
        why = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%r").stdout.strip()
        return f"job {job} is {last_state} ({why}), not {pattern}"

    wait_until(reached, problem, seconds)
    return last_state


def wait_until(
    condition: Callable[[], bool], problem: Callable[[], str], seconds: float = 120
) -> None:
    """Wait until `condition()` is true; raise PracticeError with `problem()` if it takes too long.

    The longer the function waits, the more rarely it checks, because a check may start processes.
    """
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        if waited > seconds:
            raise PracticeError(f"{problem()}, after {seconds:g} s")
        time.sleep(min(max(0.1 * waited, 0.1), 1.0))


def let_time_run_out(cluster: Cluster, job: str) -> None:
    """Set a job's time limit so that the job exceeds it in about two seconds.

    Slurm checks for exceeded limits every 30 s, so the job ends up to 30 s later. Raises
    PracticeError, with scontrol's message, if Slurm refuses the limit.
    """
    _update(cluster, f"jobid={job}", "EndTime=now+2")


def fail_node(cluster: Cluster, node: str) -> None:
    """Set a node to down, as if it had failed; the jobs on it are lost.

    The node stays down until `clear`, or until scontrol resumes it. It is drained before it is set
    to down. Otherwise Slurm would use the node again as soon as the node answers. Slurm might then
    start a lost job there before the node has cleaned up, and would hold this job permanently
    ("launch failed requeued held"). Raises PracticeError, with scontrol's message, if scontrol
    fails.
    """
    for word in ("drain", "down"):
        _update(cluster, f"nodename={node}", f"state={word}", "reason=test")


def _update(cluster: Cluster, *words: str) -> None:
    done = cluster.run("scontrol", "update", *words)
    if done.returncode != 0:
        raise PracticeError(done.stderr.strip())


def clear(cluster: Cluster) -> None:
    """End all jobs, and wait until all nodes are idle.

    Nodes that are down or drained are resumed.
    """
    if jobs := cluster.run("squeue", "--noheader", "--format=%A").stdout.split():
        cluster.run("scancel", *jobs)

    def idle() -> bool:
        states = cluster.run("sinfo", "--noheader", "--Node", "--partition=v100", "--format=%N %T")
        by_node = dict(line.split() for line in states.stdout.splitlines())
        for node in (
            node for node, node_state in by_node.items() if node_state.startswith(("down", "drain"))
        ):
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        return set(by_node.values()) == {"idle"}

    wait_until(idle, lambda: cluster.run("sinfo", "--Node").stdout)
