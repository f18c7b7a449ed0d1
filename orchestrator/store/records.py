"""Records of attempts, and of calls of sbatch. The module `folders` reads and writes them."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.common.text import counted
from orchestrator.store.job_state import JobState

NOT_STARTED = "NOT_STARTED"
RUNNING = "RUNNING"
COMPLETED = "COMPLETED"
FAILED = "FAILED"
TIMEOUT = "TIMEOUT"
CANCELLED = "CANCELLED"
INTERRUPTED = "INTERRUPTED"

# The states of runs on this machine that `cancel` ends.
CANCELLABLE = frozenset({NOT_STARTED, INTERRUPTED, RUNNING})

# States of runs on Slurm only. The first two are teralog's, for an attempt that Slurm has not
# received or not answered yet; NOT_SUBMITTED closes an attempt whose submission was withdrawn.
SUBMITTING = "SUBMITTING"
SUBMITTED = "SUBMITTED"
NOT_SUBMITTED = "NOT_SUBMITTED"
UNKNOWN = "UNKNOWN"

# The state of a run that must not start, because an earlier run of its series failed. It is also
# the state of its attempt, if the attempt was already submitted to Slurm.
GIVEN_UP = "GIVEN_UP"
# An attempt that ended with one of these states never started.
NEVER_STARTED = frozenset({NOT_SUBMITTED, GIVEN_UP})

# The start of the allocation id of a run on this machine.
SUBMIT = "submit-"


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a run in the order of starts: its allocation, its block, and its number.

    allocation: the id of a Slurm job; outside Slurm, `submit-` followed by the id of the submit.
    place: the run's number in the order of starts, from 1. If the order has blocks, the numbers
    begin at 1 in each block.
    block: the number of the block in an interleaved order; None in any other order.
    """

    allocation: str
    place: int
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The supervisor of an attempt, its start time (UTC, ISO 8601), and its devices.

    token: the value of the environment variable TERALOG_ATTEMPT in every process of the attempt.
    allocation, place, block: those of the attempt's `Position`.
    ranks: the number of ranks.
    cores: the number of this machine's CPU cores, which all runs on it share. It is None if the
    ranks run on GPUs, or in an allocation, because no other run uses their devices then.
    Records of earlier versions may lack `allocation` and all fields after it.
    """

    pid: int
    host: str
    token: str
    started_at: str
    time_limit_seconds: int
    devices: tuple[str, ...]
    allocation: str | None = None
    place: int | None = None
    block: int | None = None
    ranks: int | None = None
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an attempt: its state, and the job script's exit code or signal.

    other_runs: how many other runs were active on this machine at the same time. If the number
    changed during the attempt, it is the largest one. None if they were not counted.
    """

    state: str
    ended_at: str
    seconds: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    other_runs: int | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a job on Slurm recorded about itself: its id, exit code, and times (UTC, ISO 8601).

    exit_code, ended_at: None until the job script has ended. They stay None if the job was killed.
    """

    job_id: str
    started_at: str
    exit_code: int | None = None
    ended_at: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The record that an attempt will be submitted to Slurm; written before sbatch is called.

    batch: the name of the batch of runs that contains the attempt; also the name of its Slurm
    job.
    host: the machine that calls sbatch. created_at: when the record was made.
    chained: whether the attempt depends on another run. Slurm cancels a chained attempt
    if the other run does not complete.
    """

    batch: str
    host: str
    created_at: str
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a run, read from its folder.

    started: the record of the supervisor, if a supervisor on this machine started the attempt, also
    in an allocation. intent: the record that was written before the call of sbatch, if the attempt
    was submitted to Slurm. job: the last state of this Slurm job; None if no job is known.
    """

    number: int
    folder: Path
    started: Started | None
    ended: Ended | None
    intent: Intent | None = None
    job: JobState | None = None

    @property
    def allocation(self) -> str | None:
        """The id of the attempt's Slurm job or allocation; None if unknown.

        For an attempt outside Slurm, `submit-` followed by the id of the submit that started it.
        """
        if self.started is not None:
            return self.started.allocation
        return self.job.job_id if self.job else None

    @property
    def in_allocation(self) -> bool:
        """Whether this machine started the attempt on nodes of a Slurm allocation."""
        return self.started is not None and not (self.started.allocation or SUBMIT).startswith(
            SUBMIT
        )

    @property
    def nodes(self) -> str | None:
        """The nodes on which the attempt ran, in Slurm's notation; None if unknown.

        Outside Slurm, the machine that started the attempt.
        """
        if self.started is None:
            return self.job.nodes if self.job else None
        if not self.in_allocation:
            return self.started.host
        # The name of a share consists of the node's name, a slash and a number.
        shares = (share.partition("/")[0] for share in self.started.devices)
        return ",".join(dict.fromkeys(shares))

    @property
    def crowded(self) -> str | None:
        """A text on how many ranks and other runs share the attempt's cores; None if not crowded.

        For example: `8 ranks on 2 cores, 1 other run at once`. An attempt on GPUs or on nodes of a
        cluster is never crowded, because no other run uses its devices.
        """
        if self.started is None or self.started.cores is None:
            return None
        ranks, cores = self.started.ranks or 0, self.started.cores
        others = self.ended.other_runs if self.ended else None
        parts = [f"{ranks} ranks on {counted(cores, 'core')}"] if ranks > cores else []
        parts += [f"{counted(others, 'other run')} at the same time"] if others else []
        return ", ".join(parts) or None

    @property
    def started_at(self) -> str | None:
        """When the attempt began (UTC, ISO 8601); None if that is unknown."""
        if self.started is not None:
            return self.started.started_at
        return self.job.started_at if self.job else None

    @property
    def log(self) -> Path:
        """The path of the attempt's log, which contains stdout and stderr of the job script."""
        return self.folder / "output.log"

    @property
    def slurm_state(self) -> str:
        """The last state that Slurm reported for an attempt that has not ended.

        Before Slurm has reported a state, it is SUBMITTED if the attempt's job is recorded, and
        otherwise SUBMITTING.
        """
        return self.job.state if self.job else SUBMITTING


@dataclass(frozen=True, slots=True)
class RunBatch:
    """The batch of runs of one call of sbatch: its name, its host and its runs.

    members: one pair per run: the run's id and the number of its attempt.
    array: whether the Slurm job is a job array.
    indices: the array index of each member. If `indices` is empty, the index of a member is its
    position in `members`, from 0.
    """

    name: str
    host: str
    created_at: str
    members: tuple[tuple[str, int], ...]
    array: bool
    indices: tuple[int, ...] = ()

    @property
    def tasks(self) -> dict[tuple[str, int], int]:
        """The array index of each member; a member is a run's id and the number of its attempt."""
        return dict(zip(self.members, self.indices or range(len(self.members)), strict=True))


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of submitting a batch of runs.

    job_id: the id of the Slurm job; None if the job does not exist.
    """

    job_id: str | None
    recorded_at: str
