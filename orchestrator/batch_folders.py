"""The folder of one call of sbatch; `store` says where it lies."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.attempts import Batch, Receipt
from orchestrator.files import claim_folder, json_text, write_json_once
from orchestrator.record_files import read_record, utc_now


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


def batch_folder(campaign: Path, name: str) -> BatchFolder:
    """Return the folder of a call of sbatch for a campaign's folder; it need not exist."""
    return BatchFolder(campaign / "submissions" / name)
