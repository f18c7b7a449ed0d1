"""Read and write the folders of a run, of its attempts, and of a call of sbatch.

`campaign_store` lists where these folders are.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import (
    claim_folder,
    json_text,
    read_json,
    write_json,
    write_json_once,
)
from orchestrator.store.job_state import JobState
from orchestrator.store.record_files import (
    keep,
    read_record,
    utc_now,
    write_or_keep,
    write_record,
)
from orchestrator.store.records import (
    INTERRUPTED,
    NEVER_STARTED,
    NOT_STARTED,
    RUNNING,
    SUBMITTED,
    Attempt,
    Ended,
    Intent,
    JobRecord,
    Receipt,
    RunBatch,
    Started,
)

# The name of a batch's script once its job has begun: see `slurm.arrays.batch_script`.
_BEGUN = re.compile(r"job-(?P<job>[0-9]+)\.sh")


# The fields that the waiting jobs of an array usually share.
_SHARED = ("state", "by", "name", "reason", "of_rest")


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The folder of a batch of runs (one call of sbatch); it need not exist."""

    path: Path

    @property
    def script(self) -> Path:
        """Path of the script that Slurm receives."""
        return self.path / "script.sh"

    def record(self) -> RunBatch | None:
        """Return the record of the batch of runs; None if it is not written yet."""
        return read_record(self.path / "batch.json", RunBatch)

    def receipt(self) -> Receipt | None:
        """Return the recorded result of the call of sbatch; None if no result is recorded."""
        return read_record(self.path / "receipt.json", Receipt)

    def jobs(self) -> dict[tuple[str, int], str] | None:
        """Return the id of each attempt's job, or of its task in a job array.

        The keys are pairs of a run's id and an attempt's number. Returns None if no job is
        recorded.
        """
        receipt = self.receipt()
        batch = None if receipt is None or receipt.job_id is None else self.record()
        if receipt is None or batch is None:
            return None
        return {
            member: f"{receipt.job_id}_{index}" if batch.array else str(receipt.job_id)
            for member, index in batch.tasks.items()
        }

    def waiting(self) -> dict[str, JobState]:
        """Return the last reported states of jobs that have never started, by job id."""
        path = self.path / "waiting.json"
        groups = (read_json(path) or {"jobs": ()}).get("jobs")
        try:
            return {
                job_id: JobState(job_id, **{name: group[name] for name in _SHARED})
                for group in groups or ()
                for job_id in group["job_ids"]
            }
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: is damaged ({error!r}); move it elsewhere") from None

    def record_waiting(self, states: Iterable[JobState]) -> None:
        """Record the states of jobs that have never started, in one file for all of them.

        A job gets its own slurm.json when it starts. From then on, only slurm.json is used.
        """
        before = self.waiting()
        after = {**before, **{str(state.job_id): state for state in states}}
        if after == before:
            return
        groups: dict[tuple[Any, ...], list[str]] = {}
        for job_id, state in after.items():
            groups.setdefault(tuple(getattr(state, name) for name in _SHARED), []).append(job_id)
        jobs = [
            {**dict(zip(_SHARED, values, strict=True)), "job_ids": job_ids}
            for values, job_ids in groups.items()
        ]
        write_json(self.path / "waiting.json", {"jobs": jobs})

    def close(self, receipt: Receipt) -> Receipt:
        """Write the receipt of the call of sbatch, and return it.

        If a receipt exists already, the existing one is kept and returned.
        """
        write_json_once(self.path / "receipt.json", asdict(receipt))
        return self.receipt() or receipt

    def adopt(self, receipt: Receipt) -> str | None:
        """Record a job that was found after the call of sbatch had been interrupted.

        If the record cannot be written, keep it in memory and return the reason.
        """
        try:
            self.close(receipt)
        except OSError as error:
            keep(self.path / "receipt.json", receipt)
            return error.strerror
        return None

    def withdraw(self) -> str | None:
        """Rename the script, so that no sbatch can read it any more, and no job can begin.

        Returns the id of the job if the job has already begun; otherwise None. If the folder of the
        batch of runs does not exist, it is created with a receipt that contains no job. So no other
        process can create it later.
        """
        nothing = Receipt(None, utc_now())
        if not claim_folder(self.path, {"receipt.json": json_text(asdict(nothing))}):
            with suppress(FileNotFoundError):
                self.script.rename(self.path / "withdrawn.sh")
        return self.begun_job()

    def begun_job(self) -> str | None:
        """Return the id of the job that has begun to run the script; None if no job has begun."""
        try:
            names = os.listdir(self.path)  # noqa: PTH208  (a glob takes ten times as long)
        except FileNotFoundError:
            return None
        matches = (_BEGUN.fullmatch(name) for name in names)
        return next((match["job"] for match in matches if match), None)


def batch_folder(campaign: Path, name: str) -> BatchFolder:
    """Return the folder of a batch of runs inside a campaign's folder; it need not exist."""
    return BatchFolder(campaign / "submissions" / name)


_ATTEMPT = re.compile(r"attempt-(?P<number>[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def lock(self) -> Path:
        """Path of the lock that the run's supervisor holds."""
        return self.path / "run.lock"

    @property
    def script(self) -> Path:
        """Path of the job script."""
        return self.path / "job.sh"

    def record(self) -> dict[str, Any]:
        """Return the run's run.json; empty if there is none."""
        return read_json(self.path / "run.json") or {}

    def started_record(self) -> dict[str, Any] | None:
        """Return the run's run.json if the run was started, or None."""
        record = self.record()
        return record if record and self.attempts() else None

    def texts(self) -> dict[str, str]:
        """Return the texts of the run's job script and configuration files, by file name."""
        files = sorted(path for path in self.path.glob("*.json") if path.name != "run.json")
        scripts = (path for path in (self.script, *files) if path.is_file())
        return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in scripts}

    def attempts(self) -> list[Attempt]:
        """Return the run's attempts, oldest first.

        Attempts that ended before they started are left out: those that Slurm never
        received, and those that were given up.
        """
        attempts = (read_attempt(self.attempt_folder(number)) for number in self._numbers())
        return [
            attempt
            for attempt in attempts
            if attempt.ended is None or attempt.ended.state not in NEVER_STARTED
        ]

    @property
    def next_number(self) -> int:
        """The number of the next attempt, after all existing ones."""
        return max(self._numbers(), default=0) + 1

    def new_attempt(self) -> Attempt:
        """Make the folder of the next attempt; two callers never get the same folder."""
        number = self.next_number
        while True:
            folder = self.attempt_folder(number)
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                return Attempt(number, folder, None, None)
            number += 1

    def claim(
        self,
        number: int,
        record: Intent | Ended,
        script: str | None = None,
        log: str | None = None,
        written: Path | None = None,
    ) -> bool:
        """Create the folder of attempt `number`; return False if another process has created it.

        record: the attempt's intent or end.
        script: the text of the attempt's job.sh.
        log: the path of the output, if the output is not in the attempt's folder.
        written: a file that already contains `record`, so that it is not written again. Many
        attempts can share this file.
        """
        name = "intent.json" if isinstance(record, Intent) else "ended.json"
        texts = {name: json_text(asdict(record))}
        if script is not None:
            texts[self.script.name] = script
        links = {} if log is None else {"output.log": log}
        same = {} if written is None else {name: written}
        return claim_folder(self.attempt_folder(number), texts, links, same)

    def state(self) -> str:
        """Return the state of the last attempt, or NOT_STARTED."""
        return self.standing()[0]

    def standing(self) -> tuple[str, list[Attempt]]:
        """Return a pair: the state of the run's last attempt, and a list of all attempts.

        The state is:
        - NOT_STARTED if the run has no attempt;
        - the recorded state if the end of the last attempt is recorded;
        - on Slurm: the state that Slurm reported last;
        - on this machine: RUNNING if a supervisor holds the run's lock, otherwise INTERRUPTED,
          because the supervisor was killed or the machine went down.
        """
        attempts = self.attempts()
        if not attempts:
            return NOT_STARTED, attempts
        last = attempts[-1]
        if last.ended is not None:
            return last.ended.state, attempts
        if last.intent is not None:
            return last.slurm_state, attempts
        if locks.is_held(self.lock):
            return RUNNING, attempts
        # The attempt may have ended between the two checks.
        last = read_attempt(last.folder)
        return last.ended.state if last.ended else INTERRUPTED, [*attempts[:-1], last]

    def attempt_folder(self, number: int) -> Path:
        """Return the folder of an attempt; it need not exist."""
        return self.path / f"attempt-{number}"

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.path)  # noqa: PTH208  (a glob takes ten times as long)
        except FileNotFoundError:
            return []
        matches = (_ATTEMPT.fullmatch(name) for name in names)
        return sorted(int(match["number"]) for match in matches if match)


def read_attempt(folder: Path) -> Attempt:
    """Read an attempt from its folder."""
    intent = read_record(folder / "intent.json", Intent)
    job = None
    if intent is not None:
        job = read_record(folder / "slurm.json", JobState) or _submitted(folder, intent)
    return Attempt(
        number=_number(folder),
        folder=folder,
        started=None if intent else read_record(folder / "attempt.json", Started),
        ended=read_record(folder / "ended.json", Ended),
        intent=intent,
        job=job,
    )


# The ids of jobs, by the campaign's folder and the name of the batch of runs. They stay valid,
# because a receipt is never written twice.
_jobs: dict[tuple[str, str], dict[tuple[str, int], str]] = {}


def _submitted(attempt: Path, intent: Intent) -> JobState | None:
    """Return the state of an attempt's job that has not started.

    It is the state that Slurm reported last, or SUBMITTED before any report. Returns None if no job
    is recorded for the attempt.
    """
    run = attempt.parent
    key = (str(run.parent), intent.batch)
    jobs = _jobs.get(key) or batch_folder(run.parent, intent.batch).jobs()
    if jobs is None:
        return None
    _jobs[key] = jobs
    job_id = jobs.get((run.name, _number(attempt)))
    if job_id is None:
        return None
    waiting = _waiting_jobs(f"{run.parent}/submissions/{intent.batch}").get(job_id)
    return waiting or JobState(job_id, SUBMITTED, "sbatch", intent.batch)


# For each folder of a batch of runs: the inode and the time of the waiting.json that was read, and
# its content. A new content is always a new file.
_waiting: dict[str, tuple[tuple[int, int], Mapping[str, JobState]]] = {}


def _waiting_jobs(batch: str) -> Mapping[str, JobState]:
    try:
        status = os.stat(f"{batch}/waiting.json")  # noqa: PTH116
    except FileNotFoundError:
        return {}
    file = (status.st_ino, status.st_mtime_ns)
    cached = _waiting.get(batch)
    if cached is None or cached[0] != file:
        cached = _waiting[batch] = (file, BatchFolder(Path(batch)).waiting())
    return cached[1]


def _number(attempt: Path) -> int:
    return int(attempt.name.removeprefix("attempt-"))


def write_started(attempt: Path, started: Started) -> None:
    """Record that an attempt has started."""
    write_record(attempt / "attempt.json", started)


def write_ended(attempt: Path, ended: Ended) -> None:
    """Record how an attempt ended."""
    write_record(attempt / "ended.json", ended)


def job_record(attempt: Path) -> JobRecord | None:
    """Return the record that the job of an attempt wrote about itself; None if there is none."""
    return read_record(attempt / "job.json", JobRecord)


def has_own_state(attempt: Path) -> bool:
    """Return whether an attempt has a file slurm.json, which is written when its job starts.

    Earlier versions of teralog sometimes wrote the file before the job started.
    """
    return os.path.exists(f"{attempt}/slurm.json")  # noqa: PTH110


def write_job_state(attempt: Path, state: JobState) -> None:
    """Record the state that Slurm reported for an attempt's job."""
    write_record(attempt / "slurm.json", state)


def note_ended(attempt: Path, ended: Ended) -> str | None:
    """Record how an attempt ended.

    If the record cannot be written, keep it in memory and return the reason.
    """
    return write_or_keep(attempt / "ended.json", ended)


def note_job_state(attempt: Path, state: JobState) -> str | None:
    """Record the reported state of an attempt's job.

    If the record cannot be written, keep it in memory and return the reason.
    """
    return write_or_keep(attempt / "slurm.json", state)
