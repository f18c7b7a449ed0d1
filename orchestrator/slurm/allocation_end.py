"""Ask Slurm whether an allocation still runs, and how much time it has left."""

import re
import time
from dataclasses import dataclass

from orchestrator.slurm.commands import SilenceError, show_job

# By default, Slurm kills the processes of a job 30 s after SIGTERM; a supervisor has less time than
# that to record an end.
_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.5
_ENDING = "COMPLETING"
_GOES_ON = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"})
# The state of an active run when its allocation ends, by the final state of the allocation. After
# any other final state, the state of the run is INTERRUPTED.
_STATES = {"NODE_FAIL": "NODE_FAIL", "BOOT_FAIL": "NODE_FAIL", "PREEMPTED": "PREEMPTED"}
_INTERRUPTED = "INTERRUPTED"
# Messages of srun and slurmstepd when the allocation has ended.
_GONE = re.compile(
    r"Slurm job has expired"
    r"|Unable to (?:create step for|confirm allocation for) job \d+: .*(?:expired|already complet)"
    r"|Job/step already completing or completed"
    r"|\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT \S+ DUE TO (?:TIME LIMIT|NODE|PREEMPTION)"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an allocation.

    state: None while the allocation runs or waits. If the allocation is ending or has ended: its
    state in Slurm's words, e.g. TIMEOUT, or "gone" if Slurm no longer knows the job.
    seconds_left: the time until the allocation's time limit; None if it has no limit, or if `state`
    is set.
    """

    state: str | None = None
    seconds_left: int | None = None


def standing(job_id: str) -> Standing:
    """Return the state of an allocation. Raises SilenceError if Slurm gives no answer."""
    fields = show_job(job_id)
    if fields is None:
        return Standing("gone")
    state = fields.get("JobState", "RUNNING")
    if state not in _GOES_ON:
        return Standing(state)
    limit, run_time = _seconds(fields.get("TimeLimit")), _seconds(fields.get("RunTime"))
    return Standing(None, None if limit is None else max(limit - (run_time or 0), 0))


def interrupted_by_end(job_id: str, log: str) -> str | None:
    """Return the state of a run that was interrupted by the end of its allocation.

    The state is NODE_FAIL, PREEMPTED, or INTERRUPTED for any other end. Returns None if the
    allocation has not ended.

    log: the last lines of the run's log. They are used in two cases: Slurm gives no answer, or
    the allocation still runs but has no time left. In these cases, the allocation counts as
    ended if the log contains a message of Slurm about its end.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    try:
        while (now := standing(job_id)).state == _ENDING and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    except SilenceError:
        return _INTERRUPTED if _GONE.search(log) else None
    if now.state is None:
        # At its time limit a job still runs for some seconds, but srun starts nothing in it.
        return _INTERRUPTED if now.seconds_left == 0 and _GONE.search(log) else None
    return _STATES.get(now.state, _INTERRUPTED)


def _seconds(text: str | None) -> int | None:
    """Convert a time as scontrol prints it, [days-]hours:minutes:seconds, to seconds.

    Returns None for any other text.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
