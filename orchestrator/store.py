"""The layout under results/, which no other module knows.

results/<campaign>/campaign.json         what was last submitted: run ids, labels
results/<campaign>/submit.lock           held while a submit is at work
results/<campaign>/report.md, .csv, …    derived; can be made again
results/<campaign>/<run>/run.json        the run's parameters and sizes
results/<campaign>/<run>/job.sh, …       what runs
results/<campaign>/<run>/run.lock        held while the run is supervised
results/<campaign>/<run>/attempt-<n>/    one start of the run
attempt.json                         who started it, when, on which devices
output.log                           what it printed
ended.json                           how it ended; absent until it has
"""

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from orchestrator import locks
from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.errors import UserError
from orchestrator.files import (
    json_text,
    made_folder,
    read_json,
    write_folder,
    write_json,
    write_text,
)
from orchestrator.model import sizes
from orchestrator.version import version

ELSEWHERE = "give a folder you may write to with --results"

NOT_STARTED = "NOT_STARTED"
RUNNING = "RUNNING"
COMPLETED = "COMPLETED"
FAILED = "FAILED"
TIMEOUT = "TIMEOUT"
CANCELLED = "CANCELLED"
INTERRUPTED = "INTERRUPTED"

_ATTEMPT = re.compile(r"attempt-(?P<number>[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Started:
    """Who supervises an attempt, since when (UTC, ISO 8601), on which devices.

    Every process of the attempt has `token` in its environment, as TERALOG_ATTEMPT.
    """

    pid: int
    host: str
    token: str
    started_at: str
    time_limit_seconds: int
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: its state, and the job script's exit code or signal."""

    state: str
    ended_at: str
    seconds: float | None = None
    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a run, as far as its folder tells."""

    number: int
    folder: Path
    started: Started | None
    ended: Ended | None

    @property
    def log(self) -> Path:
        """What the job printed, stdout and stderr together."""
        return self.folder / "output.log"


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

    def attempts(self) -> list[Attempt]:
        """Return the starts of the run, oldest first."""
        names = (_ATTEMPT.fullmatch(folder.name) for folder in self.path.glob("attempt-*"))
        numbers = sorted(int(name["number"]) for name in names if name)
        return [read_attempt(self.path / f"attempt-{number}") for number in numbers]

    def new_attempt(self) -> Attempt:
        """Make the folder of the next attempt; two callers never get the same one."""
        number = max((attempt.number for attempt in self.attempts()), default=0)
        while True:
            number += 1
            folder = self.path / f"attempt-{number}"
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                return Attempt(number, folder, None, None)

    def state(self) -> str:
        """Return the state of the last attempt, or NOT_STARTED.

        Where the attempt has no end, the run's lock tells whether it is still supervised; if it
        is not, its supervisor was killed or the machine went down: INTERRUPTED.
        """
        attempts = self.attempts()
        if not attempts:
            return NOT_STARTED
        ended = attempts[-1].ended
        if ended is not None:
            return ended.state
        if locks.is_held(self.lock):
            return RUNNING
        # It may have ended between the two looks.
        ended = read_attempt(attempts[-1].folder).ended
        return ended.state if ended else INTERRUPTED


@dataclass(frozen=True, slots=True)
class CampaignStore:
    """The folder of one campaign."""

    path: Path

    @property
    def submit_lock(self) -> Path:
        """Held while a submit is at work on the campaign."""
        return self.path / "submit.lock"

    def run(self, run_id: str) -> RunFolder:
        """Return the folder of a run, which need not exist."""
        return RunFolder(self.path / run_id)

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
            "teralog": version(),
            **sizes(planned.run),
        }
        folder = self.run(planned.run_id)
        with disk_errors(folder.path):
            write_folder(folder.path, {"run.json": json_text(run_json), **files})
        return folder

    def save_submission(self, campaign: Campaign) -> None:
        """Record which runs the campaign had when it was submitted."""
        runs = {planned.run_id: planned.label for planned in campaign.runs}
        with disk_errors(self.path):
            write_json(self.path / "campaign.json", {"name": campaign.name, "runs": runs})

    def submitted_runs(self) -> dict[str, str]:
        """Return the runs of the last submission, id to label; empty where there was none."""
        record = read_json(self.path / "campaign.json") or {}
        runs: dict[str, str] = record.get("runs", {})
        return runs

    def other_runs(self, campaign: Campaign) -> list[str]:
        """Return the labels of runs that were started here and are not in the campaign now."""
        known = {planned.run_id for planned in campaign.runs}
        found = []
        for path in sorted(self.path.glob("*/run.json")):
            record = read_json(path)
            if record and record["run_id"] not in known and RunFolder(path.parent).attempts():
                found.append(str(record["label"]))
        return found

    def write(self, name: str, text: str) -> Path:
        """Write a derived file, as a report, and return its path."""
        path = self.path / name
        with disk_errors(path), made_folder(self.path):
            write_text(path, text)
        return path


Record = TypeVar("Record", Started, Ended)


def campaign_store(results: Path, campaign: str) -> CampaignStore:
    """Return the store of a campaign under the folder `results`; nothing is made."""
    return CampaignStore(results.absolute() / campaign)


def read_attempt(folder: Path) -> Attempt:
    """Return what an attempt's folder tells."""
    return Attempt(
        number=int(folder.name.removeprefix("attempt-")),
        folder=folder,
        started=_read_record(folder / "attempt.json", Started),
        ended=_read_record(folder / "ended.json", Ended),
    )


def _read_record(path: Path, kind: type[Record]) -> Record | None:
    """Return the record in a file, None where there is none; keys of other versions are let be.

    Raises UserError where it lacks a key.
    """
    written = read_json(path)
    if written is None:
        return None
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in written.items()
        if name in known
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{path}: is damaged ({error}); move it out of the way") from None


def write_started(attempt: Path, started: Started) -> None:
    """Record that an attempt has begun."""
    write_json(attempt / "attempt.json", asdict(started))


def write_ended(attempt: Path, ended: Ended) -> None:
    """Record how an attempt ended."""
    write_json(attempt / "ended.json", asdict(ended))


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
