"""The state of a Slurm job, as Slurm's commands report it and as slurm.json stores it."""

from dataclasses import dataclass, replace

FINAL = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
UNENDED = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
)
# The states of a job that waits: it has not started yet, or it was requeued.
WAITING = frozenset({"CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


@dataclass(frozen=True, slots=True)
class JobState:
    """The state that Slurm last reported for a job, or for one task of an array.

    job_id: e.g. 7, or 7_3 for a task; None if only a log shows that the job ran.
    state: as Slurm prints it, e.g. "CANCELLED by 1000"; UNKNOWN if Slurm no longer knows the job.
    by: the command that reported the state (sacct, squeue, scontrol or sbatch), "job.json" if the
    job recorded its own end, or "nobody" for UNKNOWN.
    nodes: the node list as Slurm prints it.
    seconds: how long the job ran after its last start; None until it has ended.
    restarts: how often the job was requeued and ran again.
    earlier_seconds: how long the job ran before its last start.
    of_rest: whether Slurm reported one state for all waiting tasks of an array together.
    expected_start: when Slurm expects to start a job that waits.
    Files slurm.json of version 1 lack name, exit_code, signal, ended_at, seconds and of_rest.
    """

    job_id: str | None
    state: str
    by: str
    name: str = ""
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    seconds: float | None = None
    nodes: str | None = None
    restarts: int = 0
    earlier_seconds: float = 0.0
    of_rest: bool = False
    expected_start: str | None = None

    @property
    def word(self) -> str:
        """The state without Slurm's additions, e.g. the user who cancelled the job."""
        return self.state.split()[0].rstrip("+")

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.word in FINAL

    @property
    def only_waits(self) -> bool:
        """Whether the job has never started, and Slurm reports only a reason why it waits."""
        minimal = JobState(self.job_id, self.state, self.by, self.name, self.reason)
        return self.word == "PENDING" and replace(self, of_rest=False) == minimal

    @property
    def refused(self) -> bool:
        """Whether Slurm refused the job. Slurm records some refused jobs, with the state FAILED."""
        return self.word == "FAILED" and self.reason == "BadConstraints" and self.nodes is None
