"""Break a practice cluster for tests: kill its daemons, and start them again."""

import os
import signal

from practice.jobs import wait_until
from practice.running import Cluster


def kill(cluster: Cluster, daemon: str) -> None:
    """Kill a daemon of a cluster; jobs keep running.

    daemon: `slurmctld`, or the name of a node, whose slurmd is killed.
    """
    pid = int((cluster.plan.folder / "run" / f"{daemon}.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _lives(pid), lambda: f"{daemon} does not end")


def start_again(cluster: Cluster) -> None:
    """Start all daemons that were killed, and wait until the cluster answers."""
    os.kill(int((cluster.plan.folder / "holder.pid").read_text()), signal.SIGUSR1)
    wait_until(
        lambda: "is UP" in cluster.run("scontrol", "ping").stdout,
        lambda: cluster.run("scontrol", "ping").stdout,
    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
