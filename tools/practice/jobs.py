"""Jobs of a practice cluster, as a test wants them: submitted, watched, cleared away."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from practice.plan import PracticeError
from practice.running import Cluster


def submit(cluster: Cluster, body: str, *options: str, folder: Path) -> str:
    """Submit a bash script of these lines from a folder, and return the job's id.

    Its output is `ID.out` there. Raises PracticeError, with sbatch's words, where it is refused.
    """
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    done = cluster.run("sbatch", "--parsable", "--output=%j.out", *options, script.name, cwd=folder)
    if done.returncode != 0:
        raise PracticeError(done.stderr.strip())
    return done.stdout.strip()


def state(cluster: Cluster, job: str) -> str:
    """Return a job's state, as PENDING; of an array, its tasks' states as a sorted set's words."""
    listed = cluster.run(
        "squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T"
    )
    return " ".join(sorted(set(listed.stdout.split())))


def wait_for(cluster: Cluster, job: str, pattern: str, seconds: float = 120) -> str:
    """Wait until a job's state is as a pattern says, and return the state.

    Raises PracticeError where it ends otherwise, or not in time.
    """
    found = ""

    def reached() -> bool:
        nonlocal found
        found = state(cluster, job)
        return re.fullmatch(pattern, found) is not None

    def problem() -> str:
        why = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%r").stdout.strip()
        return f"job {job} is {found} ({why}), not {pattern}"

    wait_until(reached, problem, seconds)
    return found


def wait_until(
    condition: Callable[[], bool], problem: Callable[[], str], seconds: float = 120
) -> None:
    """Wait until something holds; PracticeError with the problem where it does not in time.

    The longer it waits, the less often it asks, for asking may start processes.
    """
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        if waited > seconds:
            raise PracticeError(f"{problem()}, after {seconds:g} s")
        time.sleep(min(max(0.1 * waited, 0.1), 1.0))


def let_time_run_out(cluster: Cluster, job: str) -> None:
    """Move the end of a job's time to now; Slurm looks every 30 s whose is over.

    Not to this second, which is over where Slurm comes to it in the next, and then refuses it.
    Raises PracticeError, with scontrol's words, where it is refused.
    """
    _update(cluster, f"jobid={job}", "EndTime=now+2")


def fail_node(cluster: Cluster, node: str) -> None:
    """Take a node down with what runs on it; it stays away until `clear`, or `state=resume`.

    A node that is down alone serves again as soon as it answers, and may be given the job that it
    lost before it is rid of it: Slurm then holds the job for good ("launch failed requeued held").
    Raises PracticeError, with scontrol's words, where it is refused.
    """
    for word in ("drain", "down"):
        _update(cluster, f"nodename={node}", f"state={word}", "reason=test")


def _update(cluster: Cluster, *words: str) -> None:
    done = cluster.run("scontrol", "update", *words)
    if done.returncode != 0:
        raise PracticeError(done.stderr.strip())


def clear(cluster: Cluster) -> None:
    """End all jobs and bring all nodes back, so that the cluster is as it was."""
    if jobs := cluster.run("squeue", "--noheader", "--format=%A").stdout.split():
        cluster.run("scancel", *jobs)

    def idle() -> bool:
        states = cluster.run("sinfo", "--noheader", "--Node", "--partition=v100", "--format=%N %T")
        by_node = dict(line.split() for line in states.stdout.splitlines())
        for node in (node for node, said in by_node.items() if said.startswith(("down", "drain"))):
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        return set(by_node.values()) == {"idle"}

    wait_until(idle, lambda: cluster.run("sinfo", "--Node").stdout)
