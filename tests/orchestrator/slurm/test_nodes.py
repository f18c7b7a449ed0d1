"""Read scontrol's output about the nodes of a job, from several versions and clusters."""

import pytest

from orchestrator.slurm.nodes import Node, gpus_of


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("", 0),
        ("gpu:2", 2),
        ("gpu:2(IDX:0-1)", 2),
        ("gpu:v100:4(IDX:0-3)", 4),
        ("gpu:a100:3(IDX:0,2-3)", 3),
        ("gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)", 3),
        ("nic:2(IDX:0-1),gpu:1(IDX:0)", 1),
        ("shard:gpu:8(IDX:0)", 0),
        ("mygpu:4", 0),
    ],
)
def test_gpus_are_counted_whatever_their_type(gres: str, gpus: int) -> None:
    """GPUs of all types count; other devices do not."""
    assert gpus_of(gres) == gpus


@pytest.mark.parametrize(
    ("cpus_per_core", "tasks", "cpus_per_task", "cores"),
    [
        (1, 1, 1, 1),
        (1, 4, 10, 40),
        (2, 1, 1, 1),
        (2, 4, 1, 2),
        (2, 5, 1, 3),
        (2, 1, 10, 5),
        # Two tasks never share a core if each has several.
        (2, 2, 3, 4),
    ],
)
def test_tasks_occupy_whole_cores(
    cpus_per_core: int, tasks: int, cpus_per_task: int, cores: int
) -> None:
    """Tasks occupy whole cores, also if a core has several CPUs (hardware threads)."""
    node = Node(name="a", gpus=0, cores=64, cpus_per_core=cpus_per_core, memory_mib=0)
    assert node.cores_of(tasks, cpus_per_task) == cores
