"""Check that an impossible practice cluster is refused, and that its ports are reserved."""

import itertools
import socket
from pathlib import Path

import pytest
from practice.plan import Host, Plan, PracticeError, files
from practice.ports import reserved_ports


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(folder=Path("relative")), "absolute path"),
        (Plan(folder=Path("/tmp/a b")), "letters, digits"),
        (Plan(folder=Path("/tmp") / ("x" * 60)), "at most 60 characters"),
        (Plan(folder=Path("/tmp/x"), nodes_32g=0, nodes_16g=0), "0 nodes"),
        (Plan(folder=Path("/tmp/x"), nodes_32g=-1), "between 1 and 999"),
        (Plan(folder=Path("/tmp/x"), nodes_32g=1000), "between 1 and 999"),
    ],
)
def test_an_impossible_cluster_is_refused(plan: Plan, message: str) -> None:
    """An impossible practice cluster is refused before any file is written."""
    with pytest.raises(PracticeError, match=message):
        plan.check()


def test_reserved_ports_are_exclusive_until_a_daemon_listens() -> None:
    """Two clusters that start at once get different ports.

    A daemon that sets SO_REUSEADDR, as Slurm's daemons do, can listen on a reserved port.
    """
    with reserved_ports(20) as ours, reserved_ports(20) as theirs:
        assert len({*ours, *theirs}) == 40
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", ours[0]))
        with socket.socket() as daemon:
            daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            daemon.bind(("0.0.0.0", ours[0]))
            daemon.listen()


@pytest.mark.parametrize("with_accounting", [False, True])
def test_every_path_of_the_configuration_is_below_the_folder(with_accounting: bool) -> None:
    """All paths in the configuration are in the cluster's folder, so no other Slurm is changed."""
    plan = Plan(folder=Path("/tmp/here"), nodes_32g=2, with_accounting=with_accounting)
    host = Host(name="vm", user="me", ports=tuple(range(6)), slurm_version=(22, 5))
    texts = files(plan, host)
    assert ("etc/slurmdbd.conf" in texts) == with_accounting
    values = itertools.chain.from_iterable(
        line.split("=")[1:] for text in texts.values() for line in text.splitlines()
    )
    paths = {value for value in values if value.startswith("/")} - {"/bin/true"}
    assert paths
    assert all(path.startswith("/tmp/here/") for path in paths)
