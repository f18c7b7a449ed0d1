"""Bind a rank to the NUMA node of its GPU, or start it with the user's own command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.workloads import bind_rank

# Two sockets; GPUs 0 and 1 are attached to the second one, as on many machines with AMD processors.
SMI = """\
0, GPU-aaaa, 00000000:07:00.0
1, GPU-bbbb, 00000000:0F:00.0
2, GPU-cccc, 00000000:47:00.0
3, GPU-dddd, 00010000:4E:00.0
"""
NUMA = {
    "0000:07:00.0": "1",
    "0000:0f:00.0": "1",
    "0000:47:00.0": "0",
    "10000:4e:00.0": "0",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files of a machine that has four GPUs on two NUMA nodes.

    A stand-in for nvidia-smi is put on the PATH.
    """
    cores = sorted(os.sched_getaffinity(0))
    for number, listed in enumerate([f"{cores[0]}", f"{cores[-1]},4000-4003"]):
        folder = tmp_path / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{listed}\n")
    for address, node in NUMA.items():
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/bash\ncat << END\n{SMI}END\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "local_rank", "node"),
    [
        (None, 0, 1),
        (None, 2, 0),
        ("2,1", 0, 0),
        ("2,1", 1, 1),
        ("GPU-dddd,GPU-aa", 0, 0),
        ("GPU-dddd,GPU-aa", 1, 1),
        ("1", 3, 1),
        ("2,1", 2, None),
        ("MIG-1234", 0, None),
        (None, 7, None),
    ],
)
def test_rank_has_the_numa_node_of_the_gpu_that_cuda_gives_it(
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    local_rank: int,
    node: int | None,
) -> None:
    """A rank is bound to the NUMA node of its GPU.

    GPUs are counted in the order of CUDA_VISIBLE_DEVICES. A rank that sees only one GPU uses that
    GPU.
    """
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert bind_rank.gpu_numa_node(local_rank, machine) == node


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-3,8\n", {0, 1, 2, 3, 8}), ("5\n", {5}), ("\n", set()), ("0,2-3", {0, 2, 3})],
)
def test_lists_of_cores_are_read_as_the_kernel_writes_them(text: str, cores: set[int]) -> None:
    assert bind_rank.listed_cores(text) == cores


def bound(machine: Path, local_rank: int, ranks: int = 0) -> tuple[str | None, set[int]]:
    """Bind a new process to the NUMA node of its GPU; return the problem and the allowed cores.

    local_rank: the rank of the process on its node. problem: why the process is not bound, or None
    if it is bound.
    """
    code = (
        "import os, pathlib, sys; from orchestrator.workloads.bind_rank import bind_to_numa_node; "
        "print(bind_to_numa_node(int(sys.argv[1]), pathlib.Path(sys.argv[2]))); "
        "print(*os.sched_getaffinity(0))"
    )
    done = subprocess.check_output(
        [sys.executable, "-c", code, str(ranks), machine],
        env={**os.environ, "LOCAL_RANK": str(local_rank)},
        text=True,
    )
    problem, cores = done.splitlines()
    return None if problem == "None" else problem, set(map(int, cores.split()))


def test_rank_is_bound_to_those_cores_of_its_node_that_the_job_has(machine: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert bound(machine, 0) == (None, {allowed[-1]})
    assert bound(machine, 2) == (None, {allowed[0]})


def test_ranks_without_gpus_are_spread_over_the_nodes(machine: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    expected = [{allowed[0]}, {allowed[0]}, {allowed[-1]}, {allowed[-1]}]
    assert [bound(machine, rank, ranks=4)[1] for rank in range(4)] == expected


def test_rank_keeps_its_cores_if_the_job_has_none_of_the_node(machine: Path) -> None:
    (machine / "sys/devices/system/node/node1/cpulist").write_text("4000\n")
    problem, cores = bound(machine, 0)
    assert problem == "rank 0: not bound, because the job has no core of NUMA node 1"
    assert cores == os.sched_getaffinity(0)


def test_rank_without_a_known_numa_node_reports_it(machine: Path) -> None:
    """If the NUMA node of its GPU is unknown, a rank is not bound, and reports that.

    E.g. the kernel of a virtual machine may have -1 as the NUMA node of a GPU.
    """
    (machine / "sys/bus/pci/devices/0000:07:00.0/numa_node").write_text("-1\n")
    problem, cores = bound(machine, 0)
    assert problem == "rank 0: not bound, because the NUMA node of its GPU is not known"
    assert cores == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["numa", "0", "{program}", "a b"], "- ['a b']"),
        (["--local_rank=1", "numa", "0", "{program}", "x"], "- ['--local_rank=1', 'x']"),
        (["custom", "2", "env", "BY=me", "{program}", "x"], "me ['x']"),
        (["custom", "2", "env", "BY=me", "-m", "program", "x"], "me ['x']"),
        (
            ["--local-rank=1", "custom", "1", "env", "--module", "program", "-m"],
            "- ['--local-rank=1', '-m']",
        ),
    ],
)
def test_rank_becomes_its_program(tmp_path: Path, arguments: list[str], expected: str) -> None:
    """After the binding, the rank runs its program with the program's arguments.

    If the launcher adds an argument for each rank, e.g. `--local_rank=1`, the program gets this
    argument first.
    """
    program = tmp_path / "program.py"
    program.write_text("import os, sys; print(os.environ.get('BY', '-'), sys.argv[1:])")
    words = [word.format(program=program) for word in arguments]
    done = subprocess.check_output(
        [sys.executable, bind_rank.__file__, *words],
        env={**os.environ, "LOCAL_RANK": "0", "PYTHONPATH": str(tmp_path)},
        text=True,
    )
    assert done.splitlines()[-1] == expected
