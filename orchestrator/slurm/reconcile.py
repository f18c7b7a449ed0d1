"""Combine the answers of sacct and squeue about the same jobs.

Nothing here asks Slurm.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from orchestrator.store.job_state import JobState

# Accounting calls a job so for some seconds before it says that the job waits again.
_MAY_RUN_AGAIN = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REQUEUED", "FAILED"})


def spread(states: Mapping[str, JobState], job_ids: Iterable[str]) -> dict[str, JobState]:
    """Return `states` with those tasks added of which Slurm speaks by the id of their array alone.

    So it does of the rest of an array that was cancelled.
    """
    found = dict(states)
    for job_id in job_ids:
        job, _, task = job_id.partition("_")
        if task and job_id not in states and job in states:
            found[job_id] = replace(states[job], job_id=job_id, of_rest=True)
    return found


def doubtful(state: JobState | None) -> bool:
    """Return whether squeue may know better than what accounting says of a job.

    Of one that has not ended it does, and of one that may have been requeued since. The rest of an
    array is in accounting, for some seconds, what it was: with tasks in it that run by now, though
    it is told to be cancelled.
    """
    return state is None or not state.final or state.word in _MAY_RUN_AGAIN or state.of_rest


def reconcile(
    accounted: Mapping[str, JobState], queue: Mapping[str, JobState] | None, job_ids: Iterable[str]
) -> dict[str, JobState]:
    """Return what is true of jobs, of what accounting and squeue say of them.

    `queue` is None where squeue was silent; `job_ids` are the jobs for which it was asked.
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
        # A task that was cancelled while it waited waits on in accounting, for a while.
        job = job_id.partition("_")[0]
        gone = not accounted.final and any(other.startswith(f"{job}_") for other in queue)
        return None if gone else accounted
    if not queued.final:
        # It goes on, perhaps after an end that accounting has told of. Of an end that accounting
        # has not told of it soon will, and of more than squeue.
        ended = accounted.seconds or 0.0 if accounted.final else 0.0
        return replace(queued, earlier_seconds=accounted.earlier_seconds + ended)
    return queued if accounted.of_rest and not queued.of_rest else accounted
