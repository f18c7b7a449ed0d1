"""Suggest the memory to request, after a job ran out of its host's memory."""

import pytest

from orchestrator.slurm.host_memory import amount_gib, asked_memory, memory_line, read_used_gib


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("1024", 1.0),
        ("1048576K", 1.0),
        ("12.5M", 12.5 / 1024),
        ("160G", 160.0),
        ("2T", 2048.0),
        ("0", 0.0),
        ("", None),
        ("16Gn", None),
    ],
)
def test_an_amount_of_memory_is_read_as_slurm_writes_it(text: str, gib: float | None) -> None:
    assert amount_gib(text) == gib


@pytest.mark.parametrize(
    ("lines", "gib"),
    [
        # The job itself has no value; the batch step and the step of srun have one each.
        (["7|||1", "7.batch|2097152K|1|1", "7.0|1048576K|1|1"], 2.0),
        # A task per rank, four of them on each of two nodes.
        (["7_1.0|1048576K|8|2"], 4.0),
        (["7.batch|0|1|1"], None),
        (["7.batch||1|1"], None),
        (["7.batch|1024K|1|0"], None),
        (["slurm_load: something"], None),
        ([], None),
    ],
)
def test_the_memory_of_a_node_is_that_of_its_largest_step(
    lines: list[str], gib: float | None
) -> None:
    assert read_used_gib(lines) == gib


@pytest.mark.parametrize(
    ("script", "memory"),
    [
        ("#!/bin/bash\n#SBATCH --mem=64G\n#SBATCH --nodes=1\n", "64G"),
        ("#!/bin/bash\nsrun --overlap --mem=0 x\n", None),
    ],
)
def test_the_memory_that_was_asked_for_is_in_the_script(script: str, memory: str | None) -> None:
    assert asked_memory(script) == memory


@pytest.mark.parametrize(
    ("used", "asked", "part"),
    [
        (61.5, "64G", "asked for 64G and used at least 61.5 GiB per node (sacct)"),
        (61.5, "64G", "try `retry --memory 96G`"),
        # Accounting counts shared pages twice: it may measure more than was asked for.
        (100.0, "64G", "try `retry --memory 150G`"),
        (None, "160G", "asked for 160G: try `retry --memory 240G`"),
        (10.0, None, "used at least 10 GiB per node (sacct): try `retry --memory 15G`"),
        (0.1, "100M", "try `retry --memory 1G`"),
        (None, None, "how much it used is unknown"),
        (60.0, "0", "although it had all memory of its nodes: choose nodes with more"),
        (None, "odd", "how much it used is unknown"),
    ],
)
def test_one_and_a_half_times_the_memory_is_suggested(
    used: float | None, asked: str | None, part: str
) -> None:
    """The suggestion is 1.5 times the requested or the measured memory, whichever is larger.

    The factor is above 1, because a job that was killed needed more than it was measured to use.
    """
    assert part in memory_line(used, asked)
