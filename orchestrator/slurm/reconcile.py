"""Combine the answers of sacct and squeue about the same jobs, without asking Slurm."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from orchestrator.store.job_state import JobState

# If a job is requeued, accounting reports one of these states for some seconds, and then reports
# that the job waits again.
_MAY_RUN_AGAIN = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REQUEUED", "FAILED"})


def spread(states: Mapping[str, JobState], job_ids: Iterable[str]) -> dict[str, JobState]:
    """Return `states`; each array task without its own state gets the state of its whole array.

    For example, if an array is cancelled, Slurm prints one line for all tasks that never started.
    Each of these tasks gets the state in this line.
    job_ids: the ids of the jobs and array tasks whose states are wanted.
    """
    true_states = dict(states)
    for job_id in job_ids:
        job, _, task = job_id.partition("_")
        if task and job_id not in states and job in states:
            true_states[job_id] = replace(states[job], job_id=job_id, of_rest=True)
    return true_states


def doubtful(state: JobState | None) -> bool:
    """Return whether squeue may have a newer state of a job than accounting (sacct).

    state: the job's state from accounting; None if accounting has no state.
    squeue may have a newer state in these cases:
    - accounting has no state, or the job has not ended;
    - the job ended with a state after which Slurm may have requeued it, e.g. NODE_FAIL;
    - sacct printed one state for all waiting tasks of an array. Some of these tasks may run
      already. Or the array may have been cancelled, which accounting records some seconds later.
    """
    return state is None or not state.final or state.word in _MAY_RUN_AGAIN or state.of_rest


def reconcile(
    accounted: Mapping[str, JobState], queue: Mapping[str, JobState] | None, job_ids: Iterable[str]
) -> dict[str, JobState]:
    """Return the newest state of each job, by job id, from the answers of accounting and squeue.

    accounted: the states from accounting. queue: the states from squeue; None if squeue gave no
    answer. job_ids: the jobs about which squeue was asked.
    """
    states = dict(accounted)
    for job_id in job_ids:
        state = _better(job_id, accounted.get(job_id), queue)
        if state is not None:
            states[job_id] = state
        else:
            states.pop(job_id, None)
    return states


def _better(
    job_id: str, accounted: JobState | None, queue: Mapping[str, JobState] | None
) -> JobState | None:
    if queue is None:
        return None if accounted and accounted.of_rest and accounted.final else accounted
    queued = queue.get(job_id)
    if accounted is None:
        return queued
    if queued is None:
        # Accounting still reports a task as waiting for a while after it was cancelled.
        job = job_id.partition("_")[0]
        gone = not accounted.final and any(other.startswith(f"{job}_") for other in queue)
        return None if gone else accounted
    if not queued.final:
        # The job has not ended. If accounting reported an end, the job was requeued after it. If
        # only squeue reports an end, accounting will report it soon, with more details.
        ended = accounted.seconds or 0.0 if accounted.final else 0.0
        return replace(queued, earlier_seconds=accounted.earlier_seconds + ended)
    return queued if accounted.of_rest and not queued.of_rest else accounted
