"""The layout under results/, which no other module knows.

results/<campaign>/campaign.json         what was last submitted: run ids, labels, warm-up
results/<campaign>/submit.lock           held while a submit is at work
results/<campaign>/report.md, .csv, …    derived; can be made again
results/<campaign>/rehearsal/            the same for what was rehearsed: never measured
results/<campaign>/<run>/run.json        the run's parameters and sizes
results/<campaign>/<run>/job.sh, …       what runs
results/<campaign>/<run>/run.lock        held while the run is supervised
results/<campaign>/<run>/attempt-<n>/    one start of the run
attempt.json                         who started it, when, on which devices
output.log                           what it printed
gpus-<node>.csv                      what nvidia-smi saw beside it, see `gpu_samples`
ended.json                           how it ended; absent until it has
intent.json                          on Slurm: the batch it is submitted with
job.sh                               on Slurm: what was submitted
slurm.json                           on Slurm: what Slurm last said of it; absent until it is asked
results/<campaign>/submissions/<batch>/  one call of sbatch
batch.json                           its runs; there before sbatch is called
script.sh                            what Slurm is given; withdrawn.sh when it no longer may be
receipt.json                         the job's id, or that there is none; never written twice
<index>                              of an array: a link to the attempt with that index
results/.parse/                      what `parse --on-slurm` has read: see `shard_files`
"""

import errno
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator import locks
from orchestrator.attempts import (
    INTERRUPTED,
    NEVER_STARTED,
    NOT_STARTED,
    RUNNING,
    SUBMITTED,
    Attempt,
    Batch,
    Ended,
    Intent,
    Receipt,
    Seen,
    Started,
)
from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.errors import UserError
from orchestrator.files import (
    claim_folder,
    json_text,
    made_folder,
    passing_text,
    read_json,
    write_folder,
    write_json,
    write_json_once,
    write_text,
)
from orchestrator.model import sizes
from orchestrator.record_files import read_record, write_record
from orchestrator.version import version

ELSEWHERE = "give a folder you may write to with --results"

_ATTEMPT = re.compile(r"attempt-(?P<number>[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def lock(self) -> Path:
        """Held as long as somebody supervises the run."""
        return self.path / "run.lock"

    @property
    def script(self) -> Path:
        """The job script."""
        return self.path / "job.sh"

    def record(self) -> dict[str, Any]:
        """Return what run.json says of the run; empty where there is none."""
        return read_json(self.path / "run.json") or {}

    def started_record(self) -> dict[str, Any] | None:
        """Return what run.json says of a run that was started; None where it was not."""
        record = self.record()
        return record if record and self.attempts() else None

    def texts(self) -> dict[str, str]:
        """Return what was written for it to run: the job script, and its configuration, by name."""
        files = sorted(path for path in self.path.glob("*.json") if path.name != "run.json")
        found = (path for path in (self.script, *files) if path.is_file())
        return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in found}

    def attempts(self) -> list[Attempt]:
        """Return the starts of the run, oldest first; without those that came to nothing."""
        found = (read_attempt(self.attempt_folder(number)) for number in self._numbers())
        return [one for one in found if one.ended is None or one.ended.state not in NEVER_STARTED]

    @property
    def next_number(self) -> int:
        """The number of the attempt that comes after all there have been."""
        return max(self._numbers(), default=0) + 1

    def new_attempt(self) -> Attempt:
        """Make the folder of the next attempt; two callers never get the same one."""
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
        """Make the attempt with this number, its record within; False where somebody else has it.

        script: what its job.sh holds. log: where what it prints is to lie, if not beside it.
        written: a file that holds the record already, where many attempts share it.
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
        """Return the state of the last attempt, or NOT_STARTED; and the attempts that it is by.

        On Slurm it is what Slurm last said. On this machine, where the attempt has no end, the
        run's lock tells whether it is still supervised; if it is not, its supervisor was killed or
        the machine went down: INTERRUPTED.
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
        # It may have ended between the two looks.
        last = read_attempt(last.folder)
        return last.ended.state if last.ended else INTERRUPTED, [*attempts[:-1], last]

    def attempt_folder(self, number: int) -> Path:
        """Return the folder of an attempt, which need not exist."""
        return self.path / f"attempt-{number}"

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.path)  # noqa: PTH208  (a glob takes ten times as long)
        except FileNotFoundError:
            return []
        found = (_ATTEMPT.fullmatch(name) for name in names)
        return sorted(int(one["number"]) for one in found if one)


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The folder of one call of sbatch, which need not exist."""

    path: Path

    @property
    def script(self) -> Path:
        """What Slurm is given."""
        return self.path / "script.sh"

    def record(self) -> Batch | None:
        """Return what was to be submitted; None where its runs were claimed, and no more."""
        return read_record(self.path / "batch.json", Batch)

    def receipt(self) -> Receipt | None:
        """Return what became of it; None where that is not on record."""
        return read_record(self.path / "receipt.json", Receipt)

    def jobs(self) -> dict[tuple[str, int], str] | None:
        """Return the job's or task's id of each run and attempt; None where no job is on record."""
        receipt = self.receipt()
        batch = None if receipt is None or receipt.job_id is None else self.record()
        if receipt is None or batch is None:
            return None
        return {
            member: f"{receipt.job_id}_{index}" if batch.array else str(receipt.job_id)
            for member, index in batch.tasks.items()
        }

    def close(self, receipt: Receipt) -> Receipt:
        """Record what became of it, where that is not on record; return what is on record now."""
        write_json_once(self.path / "receipt.json", asdict(receipt))
        return self.receipt() or receipt

    def withdraw(self) -> None:
        """Take the script away: no sbatch can read it from here on.

        Where the folder is not even there, it is made with a receipt that there is no job.
        """
        nothing = Receipt(None, utc_now())
        if not claim_folder(self.path, {"receipt.json": json_text(asdict(nothing))}):
            with suppress(FileNotFoundError):
                self.script.rename(self.path / "withdrawn.sh")


@dataclass(frozen=True, slots=True)
class CampaignStore:
    """The folder of one campaign."""

    path: Path

    @property
    def submit_lock(self) -> Path:
        """Held while a submit is at work on the campaign."""
        return self.path / "submit.lock"

    @property
    def only_rehearsed(self) -> bool:
        """Whether the campaign was submitted to be rehearsed, and never otherwise."""
        submitted = [(folder / "campaign.json").exists() for folder in (self.path, self.rehearsal)]
        return submitted == [False, True]

    @property
    def rehearsal(self) -> Path:
        """Where what was rehearsed of it lies."""
        return self.path / "rehearsal"

    def run(self, run_id: str) -> RunFolder:
        """Return the folder of a run, which need not exist."""
        return RunFolder(self.path / run_id)

    def batch(self, name: str) -> BatchFolder:
        """Return the folder of a call of sbatch, which need not exist."""
        return BatchFolder(self.path / "submissions" / name)

    def deleted_attempts(self) -> Iterator[tuple[Batch, str, str, int]]:
        """Yield the attempts that have a job on record, and no folder any more.

        As their batch, the job's id, the run's, and the attempt's number.
        """
        for path in sorted(self.path.glob("submissions/*/batch.json")):
            batch = read_record(path, Batch)
            gone = [
                (run_id, number)
                for run_id, number in (batch.members if batch else ())
                if not self.run(run_id).attempt_folder(number).exists()
            ]
            jobs = self.batch(batch.name).jobs() if batch and gone else None
            if batch is not None and jobs is not None:
                yield from ((batch, jobs[member], *member) for member in gone)

    def shared_intent(self, intent: Intent) -> AbstractContextManager[Path]:
        """Give a file that holds an intent, for as long as attempts are claimed by it."""
        return passing_text(self.path / "intent.json", json_text(asdict(intent)))

    def new_batch(self, batch: Batch, script: str) -> BatchFolder | None:
        """Make the folder of a call of sbatch; None where somebody has withdrawn it already."""
        folder = self.batch(batch.name)
        texts = {"batch.json": json_text(asdict(batch)), folder.script.name: script}
        links = {
            str(index): f"../../{run_id}/attempt-{number}"
            for (run_id, number), index in batch.tasks.items()
            if batch.array
        }
        return folder if claim_folder(folder.path, texts, links) else None

    def save_run(
        self, planned: PlannedRun, campaign: Campaign, files: Mapping[str, str]
    ) -> RunFolder:
        """Write a run's folder: run.json and `files` (name to text), whole or not at all.

        Raises UserError where the disk does not let it.
        """
        run_json = {
            "run_id": planned.run_id,
            "label": planned.label,
            "campaign": campaign.name,
            "rehearsal": campaign.rehearsal,
            "teralog": version(),
            **sizes(planned.run),
        }
        folder = self.run(planned.run_id)
        with disk_errors(folder.path):
            write_folder(folder.path, {"run.json": json_text(run_json), **files})
        return folder

    def save_submission(self, campaign: Campaign) -> None:
        """Record which runs the campaign had when it was submitted, and its warm-up."""
        runs = {planned.run_id: planned.label for planned in campaign.runs}
        with disk_errors(self.path):
            record = {"name": campaign.name, "warmup": campaign.warmup.written, "runs": runs}
            write_json(self.path / "campaign.json", record)

    def submitted_runs(self) -> dict[str, str]:
        """Return the runs of the last submission, id to label; empty where there was none."""
        record = read_json(self.path / "campaign.json") or {}
        runs: dict[str, str] = record.get("runs", {})
        return runs

    @property
    def submitted_at(self) -> float:
        """When the campaign was last submitted, in seconds since 1970; 0 where it never was."""
        with suppress(OSError):
            return (self.path / "campaign.json").stat().st_mtime
        return 0.0

    def submitted_warmup(self) -> int | str | None:
        """Return the warm-up of the last submission; None where it is not on record."""
        warmup: int | str | None = (read_json(self.path / "campaign.json") or {}).get("warmup")
        return warmup

    def run_folders(self, without: Collection[str] = ()) -> list[RunFolder]:
        """Return the folders here that may be a run's, in the order of ids, but for `without`."""
        try:
            with os.scandir(self.path) as entries:
                names = {entry.name for entry in entries if entry.is_dir()}
        except FileNotFoundError:
            return []
        return [self.run(name) for name in sorted(names.difference(without))]

    def run_records(self, without: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return what run.json says of every run that was started here, in the order of ids.

        But for those `without`, which are not even looked at.
        """
        found = (folder.started_record() for folder in self.run_folders(without))
        return [record for record in found if record is not None]

    def other_runs(self, campaign: Campaign) -> list[str]:
        """Return the labels of runs that were started here and are not in the campaign now."""
        known = {planned.run_id for planned in campaign.runs}
        return [str(one["label"]) for one in self.run_records(without=known)]

    def write(self, name: str, text: str) -> Path:
        """Write a derived file, as a report, and return its path."""
        path = self.path / name
        with disk_errors(path), made_folder(self.path):
            write_text(path, text)
        return path


def campaign_store(results: Path, campaign: str, *, rehearsal: bool = False) -> CampaignStore:
    """Return the store of a campaign under the folder `results`; nothing is made.

    What is rehearsed has one of its own, within it.
    """
    store = CampaignStore(results.absolute() / campaign)
    return CampaignStore(store.rehearsal) if rehearsal else store


def read_attempt(folder: Path) -> Attempt:
    """Return what an attempt's folder tells."""
    intent = read_record(folder / "intent.json", Intent)
    seen = None
    if intent is not None:
        seen = read_record(folder / "slurm.json", Seen) or _submitted(folder, intent)
    return Attempt(
        number=_number(folder),
        folder=folder,
        started=None if intent else read_record(folder / "attempt.json", Started),
        ended=read_record(folder / "ended.json", Ended),
        intent=intent,
        seen=seen,
    )


# By the batch's folder. A receipt is never written twice, so what was found once stays true.
_jobs: dict[Path, dict[tuple[str, int], str]] = {}


def _submitted(attempt: Path, intent: Intent) -> Seen | None:
    """Return what is known of an attempt that Slurm has not been asked about: sbatch's answer."""
    run = attempt.parent
    batch = CampaignStore(run.parent).batch(intent.batch)
    jobs = _jobs.get(batch.path) or batch.jobs()
    if jobs is None:
        return None
    _jobs[batch.path] = jobs
    job_id = jobs.get((run.name, _number(attempt)))
    return None if job_id is None else Seen(job_id, SUBMITTED, by="sbatch")


def _number(attempt: Path) -> int:
    return int(attempt.name.removeprefix("attempt-"))


def write_started(attempt: Path, started: Started) -> None:
    """Record that an attempt has begun."""
    write_record(attempt / "attempt.json", started)


def write_ended(attempt: Path, ended: Ended) -> None:
    """Record how an attempt ended."""
    write_record(attempt / "ended.json", ended)


def write_seen(attempt: Path, seen: Seen) -> None:
    """Record what Slurm says of an attempt."""
    write_record(attempt / "slurm.json", seen)


def utc_now() -> str:
    """Return the time, as the records write it: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def disk_errors(path: Path, otherwise: str = ELSEWHERE) -> Iterator[None]:
    """Turn what a disk refuses into a UserError that says what to do, or to do `otherwise`."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = f"free some space, or {otherwise}" if full else otherwise
        raise UserError(f"{path}: cannot be written: {error.strerror}; {remedy}") from error
