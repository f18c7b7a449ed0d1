"""Combine contradictory answers of accounting and squeue.

The lines of output are from Slurm 22.05.
"""

import pytest

from orchestrator.slurm.reconcile import doubtful, reconcile, spread
from orchestrator.slurm.states import read_sacct, read_squeue

TASKS = ["1_0", "1_3"]
NOW = "2026-11-22T05:12:40"


def accounted(job_id: str, state: str, start: str = "Unknown", seconds: int = 0) -> str:
    """Return a line of sacct's output about a job in this state."""
    return f"{job_id}|a|{state}|0:0|{start}|Unknown|{seconds}|None assigned|None"


def queued(job_id: str, state: str) -> str:
    """Return a line of squeue's output about a job in this state."""
    return f"{job_id}|a|{state}|{NOW}|N/A||0|None|0|"


CASES = {
    "accounting has not heard that a task of a cancelled array runs": (
        [accounted("1_[0-3%2]", "CANCELLED by 0")],
        [queued("1_0", "RUNNING"), queued("1", "CANCELLED")],
        {"1_0": "RUNNING", "1_3": "CANCELLED by 0"},
    ),
    "nor that it has ended": (
        [accounted("1", "CANCELLED by 0")],
        [queued("1_0", "COMPLETED"), queued("1", "CANCELLED")],
        {"1_0": "COMPLETED", "1_3": "CANCELLED by 0"},
    ),
    "nor its name": (
        [accounted("1_0", "RUNNING").replace("|a|", "|allocation|"), accounted("1", "CANCELLED")],
        [queued("1_0", "RUNNING"), queued("1", "CANCELLED")],
        {"1_0": "RUNNING", "1_3": "CANCELLED"},
    ),
    "with a line of its own a task is none of the rest": (
        [accounted("1_[0-3%2]", "CANCELLED by 0"), accounted("1_0", "COMPLETED", NOW, 9)],
        [queued("1", "CANCELLED")],
        {"1_0": "COMPLETED", "1_3": "CANCELLED by 0"},
    ),
    "of the rest of an array nothing is known while squeue is silent": (
        [accounted("1_[0-3%2]", "CANCELLED by 0")],
        None,
        {},
    ),
    "what a task itself is stays known": (
        [accounted("1_0", "RUNNING", NOW), accounted("1_[3%2]", "PENDING")],
        None,
        {"1_0": "RUNNING", "1_3": "PENDING"},
    ),
    "a task that waits in accounting alone has gone from its array": (
        [accounted("1_0", "RUNNING", NOW), accounted("1_[3%2]", "PENDING")],
        [queued("1_0", "RUNNING")],
        {"1_0": "RUNNING"},
    ),
    "squeue forgets what ended": (
        [accounted("1_0", "COMPLETED", NOW, 9), accounted("1_[3%2]", "CANCELLED by 0")],
        [],
        {"1_0": "COMPLETED", "1_3": "CANCELLED by 0"},
    ),
}


@pytest.mark.parametrize(("sacct", "squeue", "expected"), CASES.values(), ids=CASES)
def test_the_source_with_more_information_is_believed(
    sacct: list[str], squeue: list[str] | None, expected: dict[str, str]
) -> None:
    """If accounting and squeue disagree about a task, the source that knows more about it is used.

    squeue: if accounting's only line is about the rest of the task's array, not about the task.
    Accounting: if the job has ended, because squeue forgets ended jobs.
    """
    states = spread(read_sacct(sacct), TASKS)
    asked = [task for task in TASKS if doubtful(states.get(task))]
    queue = None if squeue is None else spread(read_squeue(squeue), asked)
    true_states = reconcile(states, queue, asked)
    assert {task: true_states[task].state for task in TASKS if task in true_states} == expected
