"""The layout of the folder in which `teralog parse --on-slurm` keeps its shards and jobs.

<work>/<reader>/shards/<shard>/shard.pickle   the shard's logs, and how to read them
<work>/<reader>/shards/<shard>/result.pickle  the content of these logs, once all are read
<work>/<reader>/jobs/<name>/script.sh         the script of a job array
<work>/<reader>/jobs/<name>/<index>           a link to the shard that the task reads
<work>/<reader>/jobs/<name>/<index>.log       what the task printed
<work>/<reader>/jobs/<name>/job.json          the array's id, and its shards in order

A shard is a group of logs that one Slurm task reads. <work> is the folder that the user
gives. <reader> is the name of a `Reader`, the settings for reading logs. <shard> is the name
of a `Shard`. <name> is the name of a job array, and <index> is the number of a task in the
array.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.common.files import claim_folder, replacing
from orchestrator.logs.archive.shards import Reader, Shard
from orchestrator.logs.read import LogContent
from orchestrator.store.record_files import read_record, write_record


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The folder of one shard, with shard.pickle and, once all logs are read, result.pickle."""

    path: Path

    @property
    def result(self) -> Path:
        """The path of the file with the runs that were read from the shard's logs."""
        return self.path / "result.pickle"

    def save(self, reader: Reader, shard: Shard) -> None:
        """Write shard.pickle: the logs of the shard, and the settings for reading them."""
        self.path.mkdir(parents=True, exist_ok=True)
        _write(self.path / "shard.pickle", (reader, shard))

    def load(self) -> tuple[Reader, Shard]:
        """Return what shard.pickle contains: the settings for reading logs, and the shard."""
        reader, shard = _read(self.path / "shard.pickle")
        return reader, shard

    def save_result(self, contents: Sequence[LogContent]) -> None:
        """Write the content of the shard's logs, one item per log; write all items or none."""
        _write(self.result, list(contents))

    def load_result(self) -> list[LogContent]:
        """Return the content of the shard's logs, one item per log."""
        contents: list[LogContent] = _read(self.result)
        return contents


@dataclass(frozen=True, slots=True)
class ShardJob:
    """A submitted job array: its id, and the names of its shards in the order of its tasks."""

    job_id: str
    shards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """The folder of the shards and jobs that were made with the same settings for reading logs."""

    path: Path

    def shard(self, name: str) -> ShardFolder:
        """Return the folder of a shard; the folder may not exist yet."""
        return ShardFolder(self.path / "shards" / name)

    def shards(self) -> Iterator[Shard]:
        """Yield the shards of which the folder contains a shard.pickle."""
        for file in sorted(self.path.glob("shards/*/shard.pickle")):
            yield ShardFolder(file.parent).load()[1]

    def new_job(self, name: str, script: str, shards: Sequence[str]) -> Path:
        """Create the folder of a job array that will be submitted, and return the folder's path.

        script: the text of the array's script. shards: the names of the shards that its tasks read,
        in the order of the tasks.
        """
        folder = self.path / "jobs" / name
        links = {str(index): f"../../shards/{shard}" for index, shard in enumerate(shards)}
        claim_folder(folder, {"script.sh": script}, links)
        return folder

    def submitted(self, name: str, job: ShardJob) -> None:
        """Record that Slurm has accepted a job array. name: the name of the array's folder."""
        write_record(self.path / "jobs" / name / "job.json", job)

    def jobs(self) -> Iterator[tuple[str, ShardJob]]:
        """Yield pairs: the name of a job's folder, and the job array that Slurm has accepted."""
        for file in sorted(self.path.glob("jobs/*/job.json")):
            if (job := read_record(file, ShardJob)) is not None:
                yield file.parent.name, job

    def log(self, job_name: str, index: int) -> Path:
        """Return the path of the file that contains what a task of a job array printed.

        index: the task's index in the array.
        """
        return self.path / "jobs" / job_name / f"{index}.log"


def work_folder(work: Path, reader: Reader) -> WorkFolder:
    """Create and return the folder in `work` for shards and jobs with the given reading settings.

    If `work` is new, other users cannot open it. Raises UserError if the path contains a backslash,
    which sbatch does not accept.
    """
    path = work.absolute() / reader.name
    if "\\" in str(path):
        raise UserError(
            f"{path}: sbatch does not accept a backslash in a path; give another folder with --work"
        )
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)
    return WorkFolder(path)


def _write(path: Path, value: object) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_uid != os.getuid():
            raise UserError(f"{path}: belongs to another user; give another folder with --work")
        return pickle.load(file)  # noqa: S301  (what our own process wrote, in a file of ours)
