"""Breaking a practice cluster, as a test wants it: its daemons killed, and started again."""

import os
import signal

from practice.jobs import wait_until
from practice.running import Cluster


def kill(cluster: Cluster, daemon: str) -> None:
    """Kill `slurmctld`, or the slurmd of a node, which is called as the node is; jobs live on."""
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
