"""Fixtures for a real Slurm, with and without accounting; each test process starts its own."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from practice import jobs
from practice.packages import how_to_install, missing_packages
from practice.plan import Plan
from practice.running import Cluster, running

# Small enough for tests to exceed it: indices 0 to 10.
MAX_ARRAY_SIZE = 11


def _session_cluster(**values: Any) -> Iterator[Cluster]:
    if packages := missing_packages(with_accounting=values.get("with_accounting", False)):
        sentence = f"there is no Slurm here to test with; type: {how_to_install(packages)}"
        if os.environ.get("CI"):
            pytest.fail(sentence)
        pytest.skip(sentence)
    # Not in pytest's folder: its path is too long for the name of a socket.
    folder = Path("/tmp") / f"teralog-test-{next(tempfile._get_candidate_names())}"
    with running(Plan(folder=folder, max_array_size=MAX_ARRAY_SIZE, **values)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _slurm() -> Iterator[Cluster]:
    yield from _session_cluster()


@pytest.fixture(scope="session")
def _slurm_with_accounting() -> Iterator[Cluster]:
    yield from _session_cluster(with_accounting=True)


@pytest.fixture(scope="session")
def _hasty_slurm() -> Iterator[Cluster]:
    yield from _session_cluster(
        nodes_32g=2, nodes_16g=0, min_job_age_seconds=20, timeout_seconds=10
    )


@pytest.fixture(scope="session")
def _slow_to_accept() -> Iterator[Cluster]:
    yield from _session_cluster(nodes_32g=2, nodes_16g=0, timeout_seconds=10, slow_to_accept=True)


@pytest.fixture(scope="session")
def _sixteen_nodes() -> Iterator[Cluster]:
    yield from _session_cluster(nodes_32g=16, nodes_16g=0)


@pytest.fixture
def sixteen_nodes(_sixteen_nodes: Cluster) -> Iterator[Cluster]:
    """Yield an idle cluster of sixteen v100-32g nodes, without accounting."""
    yield _sixteen_nodes
    jobs.clear(_sixteen_nodes)


@pytest.fixture
def slow_to_accept(_slow_to_accept: Cluster) -> Iterator[Cluster]:
    """Yield a cluster that can take longer to check a new job than sbatch waits (10 s)."""
    yield _slow_to_accept
    _slow_to_accept.plan.submit_seconds.write_text("0\n")
    jobs.clear(_slow_to_accept)


@pytest.fixture
def hasty_slurm(_hasty_slurm: Cluster) -> Iterator[Cluster]:
    """Yield a cluster with short times: it soon forgets ended jobs, and soon gives up silent nodes.

    It forgets a job within a minute after the job's end. It marks a silent node as failed.
    """
    yield _hasty_slurm
    jobs.clear(_hasty_slurm)


@pytest.fixture
def slurm(_slurm: Cluster) -> Iterator[Cluster]:
    """Yield an idle cluster of four v100-32g and two v100-16g nodes, without accounting."""
    yield _slurm
    jobs.clear(_slurm)


@pytest.fixture
def slurm_with_accounting(_slurm_with_accounting: Cluster) -> Iterator[Cluster]:
    """Yield a cluster with slurmdbd: sacct answers, and Slurm enforces accounts and QOS."""
    yield _slurm_with_accounting
    jobs.clear(_slurm_with_accounting)


@pytest.fixture(params=["slurm", "slurm_with_accounting"])
def cluster(request: pytest.FixtureRequest) -> Any:
    """Yield a cluster, first without and then with accounting: teralog must work on both."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def play(playground, cluster) -> Any:
    """Return a playground (a folder with a small campaign) that uses the Slurm of `cluster`."""
    playground.environment |= cluster.environment
    return playground


@pytest.fixture
def bare(playground, slurm) -> Any:
    """Return a playground (a folder with a small campaign) on a cluster without accounting."""
    playground.environment |= slurm.environment
    return playground
