"""Call Slurm's commands with a time limit; return values, or the reason for a missing answer.

A failed query is not an empty result: it never means that a job is gone.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from orchestrator.common.ask import Answer, ask
from orchestrator.slurm.host_memory import SACCT_MEMORY_FIELDS, read_used_gib
from orchestrator.slurm.lists import compact_ids
from orchestrator.slurm.reconcile import doubtful, reconcile, spread
from orchestrator.slurm.states import (
    SACCT_FIELDS,
    SQUEUE_FIELDS,
    read_sacct,
    read_scontrol,
    read_squeue,
)
from orchestrator.store.job_state import JobState

# The time limit of a query, unless the user sets a longer one.
QUERY_SECONDS = 5.0
# scancel may have to end thousands of jobs, so it gets more time than a query.
_SCANCEL_SECONDS = 60.0
# How long a daemon that gave no answer is not asked again.
_REST_SECONDS = 5.0
# The time limit of sbatch. If the controller does not answer, sbatch itself would try for longer
# than a user wants to wait.
SBATCH_SECONDS = 120
# Slurm's own default for MaxArraySize.
DEFAULT_ARRAY_SIZE = 1001

# The largest number of ids in one command line, far below any limit on the length of the line.
_IDS_A_CALL = 2000
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
_SBATCH, _DEBUG = "SBATCH_", "SBATCH_DEBUG"
# Many users set this variable once for all their jobs, so a profile need not contain the account.
SBATCH_ACCOUNT = "SBATCH_ACCOUNT"
_SQUEUE_FORMAT = ",".join(f"{name}:|" for name in SQUEUE_FIELDS)
# Other users may have jobs of the same name.
_MINE = f"--user={os.getuid()}"
_NO_SUCH_JOB = "Invalid job id specified"
_ENDED_ALREADY = (_NO_SUCH_JOB, "already completing or completed")
# All commands except sacct ask slurmctld.
_ASKS_SLURMDBD = "sacct"
_DAEMON_IS_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Zero Bytes were transmitted",
)


@dataclass(frozen=True, slots=True)
class SlurmAnswer:
    """Slurm's answer about jobs.

    states: the states of the jobs, by job id.
    names: the names of the jobs in the answer.
    silences: a problem for each command that gave no answer.
    complete: whether the answer contains every wanted job that Slurm knows. If it is false, Slurm
    may know more jobs.
    """

    states: dict[str, JobState]
    names: frozenset[str]
    silences: tuple[str, ...]
    complete: bool


@dataclass(slots=True)
class Patience:
    """The time limit of queries to Slurm, and the daemons of Slurm that gave no answer.

    seconds: the time limit of one query.
    silent: the daemons that gave no answer, by name. The value is a pair: the time (of
    `time.monotonic`) until which teralog does not ask the daemon again, and the problem.
    """

    seconds: float = QUERY_SECONDS
    silent: dict[str, tuple[float, str]] = field(default_factory=dict)

    def begin(self, seconds: float) -> None:
        """Set the time limit of each query, and forget which daemons gave no answer."""
        self.seconds, self.silent = seconds, {}


# One object per process, because a process runs one command for one user.
patience = Patience()


class SilenceError(Exception):
    """Slurm gave no answer; the message contains the reason."""


def environment() -> dict[str, str]:
    """Return this process's environment without variables that change Slurm's answers.

    Within an allocation, SLURM_ variables describe that allocation. SBATCH_ variables overrule the
    #SBATCH lines of a script.
    """
    return {
        name: value
        for name, value in without_sbatch_variables(os.environ).items()
        if name in _KEPT or not name.startswith(("SLURM_", "SQUEUE_", "SACCT_", "SCANCEL_"))
    }


def without_sbatch_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without sbatch's variables (SBATCH_...), except SBATCH_ACCOUNT.

    If a script names an account, `ScriptExecutor` removes SBATCH_ACCOUNT too.
    """
    return {
        name: value
        for name, value in environment.items()
        if name == SBATCH_ACCOUNT or not name.startswith(_SBATCH)
    }


def ignored_variables(account: str | None) -> list[str]:
    """Return a list with one sentence about the SBATCH_ variables that teralog ignores.

    The list is empty if no such variable is set. sbatch prefers SBATCH_ variables to the
    #SBATCH lines of a script. So they would replace what the cluster profile requests, and
    teralog removes them.
    account: the account in the cluster profile. If the profile has no account, teralog does
    not ignore SBATCH_ACCOUNT.
    """
    # SBATCH_DEBUG only makes sbatch print more.
    kept = {_DEBUG} if account else {_DEBUG, SBATCH_ACCOUNT}
    names = sorted(name for name in os.environ if name.startswith(_SBATCH) and name not in kept)
    if not names:
        return []
    note = (
        "not used, because jobs get only what the cluster profile requests; set these options "
        "in the profile"
    )
    return [f"{', '.join(names)}: {note}"]


def ask_jobs(job_ids: Sequence[str], names: Collection[str] | None = None) -> SlurmAnswer:
    """Return the states of jobs and array tasks from sacct, squeue or scontrol.

    squeue is asked if sacct gives no answer or may be out of date. scontrol is asked if squeue
    fails, e.g. because a site's wrapper refuses squeue's options.
    names: the names of the wanted jobs; None for any name. A job that has one of the ids but
    another name is ignored. Such a job exists if the cluster was set up again, because then
    job ids begin at 1 again.
    """
    if not job_ids:
        return SlurmAnswer({}, frozenset(), (), complete=True)
    accounted, silences = _sacct(_jobs(job_ids), names)
    accounted = spread(accounted, job_ids)
    asked = [job_id for job_id in job_ids if doubtful(accounted.get(job_id))]
    queue: dict[str, JobState] | None = {}
    if asked:
        queue, silent = _queue(_jobs(asked))
        silences += silent
        if queue is not None:
            meant = {
                job_id: state
                for job_id, state in queue.items()
                if names is None or state.name in names
            }
            queue = spread(meant, asked)
    names = frozenset(
        state.name for states in (accounted, queue or {}) for state in states.values()
    )
    return SlurmAnswer(
        reconcile(accounted, queue, asked), names, silences, complete=queue is not None
    )


def _sacct(
    jobs: Sequence[str], names: Collection[str] | None
) -> tuple[dict[str, JobState], tuple[str, ...]]:
    # -X: one line per job, and no lines for its steps. -P: no value is cut off.
    command = ("sacct", "-X", "-P", "-n", "--duplicates", "-o", ",".join(SACCT_FIELDS), "-j")
    states: dict[str, JobState] = {}
    for some in _parts(jobs):
        answer = _ask((*command, ",".join(some)))
        if answer.problem is not None:
            return {}, (answer.problem,)
        states.update(read_sacct(answer.lines, names))
    return states, ()


def _queue(jobs: Sequence[str]) -> tuple[dict[str, JobState] | None, tuple[str, ...]]:
    states: dict[str, JobState] = {}
    problem = None
    for some in _parts(jobs):
        answer = _squeue("-j", ",".join(some))
        problem = problem or answer.problem
        states.update(read_squeue(answer.lines))
    if problem is None:
        return states, ()
    answer = _ask(("scontrol", "--oneliner", "show", "jobs"))
    if answer.problem is None:
        return read_scontrol(answer.lines), (problem,)
    return None, (problem, answer.problem)


def _squeue(*which: str) -> Answer:
    answer = _ask(("squeue", "-h", "-t", "all", "-O", _SQUEUE_FORMAT, *which))
    # squeue prints this for a single job that it does not know. Of several jobs, it omits that one.
    if answer.problem and _NO_SUCH_JOB in answer.problem:
        return Answer(answer.lines)
    return answer


def find(name: str, since: str) -> str | None:
    """Return the id of this user's job named `name`, or None if Slurm reports no such job.

    squeue is asked first. If it knows no job with this name, sacct is asked. Raises
    SilenceError if squeue gives no answer; a missing answer of sacct counts as no job. Jobs
    that Slurm refused are ignored.

    since: the job was submitted at or after this time (UTC, ISO 8601), by this machine's
    clock. sacct is asked from one day earlier, because this clock may be ahead of Slurm's
    clock.
    """
    answer = _squeue(f"--name={name}", _MINE)
    if answer.problem is not None:
        raise SilenceError(answer.problem)
    states = read_squeue(answer.lines)
    if not states:
        day_before = datetime.fromisoformat(since) - timedelta(days=1)
        start = day_before.replace(tzinfo=None).isoformat(timespec="seconds")
        command = ("sacct", "-X", "-P", "-n", f"--name={name}", _MINE, "-S", start)
        states = read_sacct(_ask((*command, "-o", ",".join(SACCT_FIELDS))).lines)
    jobs = _jobs(job_id for job_id, state in states.items() if not state.refused)
    return min(jobs, key=int, default=None)


def queued_ids(names: Sequence[str]) -> list[str]:
    """Return the ids of this user's jobs with these names that have not ended.

    Raises SilenceError if Slurm gives no answer.
    """
    ids: list[str] = []
    for some in _parts(names):
        answer = _squeue(f"--name={','.join(some)}", _MINE)
        if answer.problem is not None:
            raise SilenceError(answer.problem)
        states = read_squeue(answer.lines)
        ids += _jobs(job_id for job_id, state in states.items() if not state.final)
    return ids


def show_job(job_id: str) -> dict[str, str] | None:
    """Return the fields that `scontrol show job` prints about a job: values by field name.

    A value is cut off at its first space. Returns None if Slurm no longer knows the job. Raises
    SilenceError if Slurm gives no answer.
    """
    # The last task of an array has the array's own id. For that id scontrol prints all tasks.
    answer = _ask(("scontrol", "--oneliner", "show", "job", job_id))
    if answer.problem is not None:
        if _NO_SUCH_JOB in answer.problem:
            return None
        raise SilenceError(answer.problem)
    for line in answer.lines:
        fields = {name: value for name, _, value in (word.partition("=") for word in line.split())}
        if fields.get("JobId") == job_id:
            return fields
    return None


def cancel_jobs(job_ids: Sequence[str], state: str | None = None) -> None:
    """Cancel jobs and array tasks; with `state`, only those that are in this state.

    Jobs that have already ended are ignored. Raises SilenceError if Slurm gives no answer.
    """
    options = () if state is None else (f"--state={state}",)
    for some in _parts(compact_ids(job_ids)):
        limit = max(patience.seconds, _SCANCEL_SECONDS)
        answer = _ask(("scancel", *options, *some), limit)
        # It is not an error if a job has already ended.
        if answer.problem and not any(text in answer.problem for text in _ENDED_ALREADY):
            raise SilenceError(answer.problem)


def requeue_job(job_id: str) -> None:
    """Make Slurm end a job or an array task, and start it again.

    Raises SilenceError with Slurm's message if Slurm refuses.
    """
    answer = _ask(("scontrol", "requeue", job_id))
    if answer.problem is not None:
        raise SilenceError(answer.problem)


def job_memory_gib(job_id: str) -> float | None:
    """Return a job's largest peak memory per node, in GiB; None if sacct has no measurement."""
    fields = ",".join(SACCT_MEMORY_FIELDS)
    return read_used_gib(_ask(("sacct", "-P", "-n", "-o", fields, "-j", job_id)).lines)


def max_array_size() -> int:
    """Return Slurm's limit on the tasks of an array; without an answer, the default limit."""
    lines = _ask(("scontrol", "show", "config")).lines
    matches = (re.fullmatch(r"MaxArraySize\s*=\s*(\d+)", line) for line in lines)
    return next((int(match[1]) for match in matches if match), DEFAULT_ARRAY_SIZE)


def _ask(command: tuple[str, ...], seconds: float | None = None) -> Answer:
    """Run one of Slurm's commands, and return its answer.

    The command does not run if its daemon (slurmctld or slurmdbd) gave no answer in the last few
    seconds. The result is then the problem of that earlier query.
    seconds: the time limit; None for the limit of `patience`.
    """
    daemon = "slurmdbd" if command[0] == _ASKS_SLURMDBD else "slurmctld"
    until, problem = patience.silent.get(daemon, (0.0, ""))
    if time.monotonic() < until:
        return Answer(problem=problem)
    asked = {**environment(), "TZ": "UTC0", "SLURM_BITSTR_LEN": "0"}
    answer = ask(command, seconds or patience.seconds, asked)
    if answer is None:
        return Answer(problem=f"{command[0]} is not on the PATH")
    if answer.late and seconds is None:
        longer = f"{answer.problem}; to wait longer, add `--slurm-timeout SECONDS`"
        answer = replace(answer, problem=longer)
    if answer.problem and (answer.late or any(text in answer.problem for text in _DAEMON_IS_AWAY)):
        patience.silent[daemon] = time.monotonic() + _REST_SECONDS, answer.problem
    return answer


def _jobs(job_ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(job_id.partition("_")[0] for job_id in job_ids))


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _IDS_A_CALL] for start in range(0, len(ids), _IDS_A_CALL)]
