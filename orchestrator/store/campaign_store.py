"""The layout of the folder results/: the folders and files of campaigns, runs and attempts.

The files marked "on Slurm" exist only if the campaign runs on Slurm.

results/<campaign>/campaign.json         the last submission: run ids, labels, warm-up
results/<campaign>/submit.lock           a lock, held while a submit is running
results/<campaign>/cancels/<mark>.json   on Slurm: the runs that `cancel` ends in a running submit
results/<campaign>/report.md, .csv, …    the report; it can be written again from the logs
results/<campaign>/rehearsal/            the same files for rehearsals, which measure nothing
results/<campaign>/<run>/run.json        the run's parameters and sizes
results/<campaign>/<run>/job.sh, …       the run's job script and configuration files
results/<campaign>/<run>/run.lock        a lock, held while the run is supervised
results/<campaign>/<run>/attempt-<n>/    one start of the run
    attempt.json                         its supervisor, start time and devices
    output.log                           its output
    gpus-<node>.csv                      samples of nvidia-smi, see `gpu_samples`
    ended.json                           how it ended; missing until it ends
    intent.json                          on Slurm: the batch of runs with which it is submitted
    job.sh                               on Slurm: the submitted job script
    slurm.json                           on Slurm: its last state; missing until its job starts
    job.json                             on Slurm: when its job began, and how its job script ended
results/<campaign>/submissions/<batch>/  a batch of runs, i.e. one call of sbatch
    batch.json                           its runs; written before sbatch is called
    script.sh                            the script for Slurm; renamed to job-<id>.sh when its job
                                         begins, or to withdrawn.sh if no job may begin any more
    receipt.json                         the job's id, or that there is none; never written twice
    waiting.json                         the last states of its jobs that have never started
    <index>                              for an array: a link to the attempt with that index
results/.parse/                      the results of `parse --on-slurm`: see `logs/archive/folder.py`
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common.files import (
    claim_folder,
    disk_errors,
    json_text,
    made_folder,
    passing_text,
    read_json,
    write_folder,
    write_json,
    write_text,
)
from orchestrator.common.version import version
from orchestrator.run.model import asked_split, sizes
from orchestrator.store.cancel_marks import CancelMarks
from orchestrator.store.folders import BatchFolder, RunFolder, batch_folder
from orchestrator.store.record_files import read_record
from orchestrator.store.records import Intent, RunBatch


@dataclass(frozen=True, slots=True)
class CampaignStore:
    """The folder of one campaign."""

    path: Path

    @property
    def submit_lock(self) -> Path:
        """Path of the lock that `submit` holds while it starts the campaign's runs."""
        return self.path / "submit.lock"

    @property
    def cancel_marks(self) -> CancelMarks:
        """The cancel marks: the files by which `cancel` stops an active submit."""
        return CancelMarks(self.path / "cancels")

    @property
    def only_rehearsed(self) -> bool:
        """Whether the campaign was only rehearsed, and never submitted for real."""
        submitted = [(folder / "campaign.json").exists() for folder in (self.path, self.rehearsal)]
        return submitted == [False, True]

    @property
    def rehearsal(self) -> Path:
        """The folder of the campaign's rehearsals."""
        return self.path / "rehearsal"

    def run(self, run_id: str) -> RunFolder:
        """Return the folder of a run; it need not exist."""
        return RunFolder(self.path / run_id)

    def batch(self, name: str) -> BatchFolder:
        """Return the folder of a batch of runs (one call of sbatch); it need not exist."""
        return batch_folder(self.path, name)

    def deleted_attempts(self) -> Iterator[tuple[RunBatch, str, str, int]]:
        """Yield the attempts that have a recorded job, but whose folder was deleted.

        Each item is a batch of runs, the job's id, the run's id, and the attempt's number.
        """
        for path in sorted(self.path.glob("submissions/*/batch.json")):
            batch = read_record(path, RunBatch)
            gone = [
                (run_id, number)
                for run_id, number in (batch.members if batch else ())
                if not self.run(run_id).attempt_folder(number).exists()
            ]
            jobs = self.batch(batch.name).jobs() if batch and gone else None
            if batch is not None and jobs is not None:
                yield from ((batch, jobs[member], *member) for member in gone)

    def withdrawn_batches(self, seconds: float) -> Iterator[BatchFolder]:
        """Yield the folders of the batches of runs that were withdrawn in the last `seconds`.

        A withdrawn batch has a renamed script, so that none of its jobs can begin.
        """
        for path in self.path.glob("submissions/*/withdrawn.sh"):
            # A rename keeps the file's modification time, but changes that of its folder.
            with suppress(OSError):
                if path.parent.stat().st_mtime > time.time() - seconds:
                    yield BatchFolder(path.parent)

    def shared_intent(self, intent: Intent) -> AbstractContextManager[Path]:
        """Provide a temporary file that contains an intent; it exists until the `with` block ends.

        All attempts with this intent share the file, so that the intent is written to the disk only
        once.
        """
        return passing_text(self.path / "intent.json", json_text(asdict(intent)))

    def new_batch(self, batch: RunBatch, script: str) -> BatchFolder | None:
        """Create the folder of a batch of runs, with its record and its script.

        For an array, the folder also contains links to the folders of the attempts. Returns None if
        the batch of runs was withdrawn.
        """
        folder = self.batch(batch.name)
        texts = {"batch.json": json_text(asdict(batch)), folder.script.name: script}
        links = {
            str(index): f"../../{run_id}/attempt-{number}"
            for (run_id, number), index in batch.tasks.items()
            if batch.array
        }
        return folder if claim_folder(folder.path, texts, links) else None

    def run_record(self, planned: PlannedRun, campaign: Campaign) -> dict[str, str]:
        """Return the text of a run's run.json, as a mapping from the file name to the text."""
        record = {
            "run_id": planned.run_id,
            "label": planned.label,
            "campaign": campaign.name,
            "rehearsal": campaign.rehearsal,
            "teralog": version(),
            **sizes(planned.run),
            "asked": asked_split(planned.run),
        }
        return {"run.json": json_text(record)}

    def save_run(self, planned: PlannedRun, texts: Mapping[str, str]) -> RunFolder:
        """Write the files of a run's folder; `texts` are the files' contents by name.

        A new folder is made with all files or not at all. In an existing folder, files are
        replaced one after another. Raises UserError if a file cannot be written.
        """
        folder = self.run(planned.run_id)
        with disk_errors(folder.path):
            write_folder(folder.path, texts)
        return folder

    def save_submission(self, campaign: Campaign) -> None:
        """Record the runs and the warm-up of the campaign that is being submitted."""
        runs = {planned.run_id: planned.label for planned in campaign.runs}
        with disk_errors(self.path):
            record = {"name": campaign.name, "warmup": campaign.warmup.written, "runs": runs}
            write_json(self.path / "campaign.json", record)

    def submitted_runs(self) -> dict[str, str]:
        """Return the labels of the runs of the last submission, by run id.

        The result is empty if the campaign was never submitted.
        """
        record = read_json(self.path / "campaign.json") or {}
        runs: dict[str, str] = record.get("runs", {})
        return runs

    @property
    def submitted_at(self) -> float:
        """When the campaign was last submitted, in seconds since 1970; 0 if never."""
        with suppress(OSError):
            return (self.path / "campaign.json").stat().st_mtime
        return 0.0

    def run_folders(self, without: Collection[str] = ()) -> list[RunFolder]:
        """Return a RunFolder for each subfolder of the campaign's folder, sorted by name.

        The function reads only names, so the list also contains folders that do not belong to a
        run, e.g. `submissions`. without: the ids of runs to leave out.
        """
        try:
            with os.scandir(self.path) as entries:
                names = {entry.name for entry in entries if entry.is_dir()}
        except FileNotFoundError:
            return []
        return [self.run(name) for name in sorted(names.difference(without))]

    def run_records(self, without: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return the run.json of every run that was started in this store, in the order of ids.

        The runs in `without` are left out and not read.
        """
        records = (folder.started_record() for folder in self.run_folders(without))
        return [record for record in records if record is not None]

    def other_runs(self, campaign: Campaign) -> list[str]:
        """Return the labels of runs that were started but are no longer in the campaign file."""
        run_ids = {planned.run_id for planned in campaign.runs}
        return [str(record["label"]) for record in self.run_records(without=run_ids)]

    def write(self, name: str, text: str) -> Path:
        """Write a file that teralog can compute again, e.g. a report; return its path."""
        path = self.path / name
        with disk_errors(path), made_folder(self.path):
            write_text(path, text)
        return path


def campaign_store(results: Path, campaign: str, *, rehearsal: bool = False) -> CampaignStore:
    """Return the store of a campaign under the folder `results`; create nothing.

    rehearsal: return the store of the campaign's rehearsals, a folder inside it.
    """
    store = CampaignStore(results.absolute() / campaign)
    return CampaignStore(store.rehearsal) if rehearsal else store
