"""Write and read cancel marks: the files by which `teralog cancel` stops an active submit."""

import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.store.record_files import read_record, utc_now, write_record


@dataclass(frozen=True, slots=True)
class CancelMark:
    """The ids of the runs that one call of `cancel` ends, and the time of this call."""

    runs: tuple[str, ...]
    created_at: str


@dataclass(frozen=True, slots=True)
class CancelMarks:
    """The folder of the marks, one file per mark; the folder need not exist.

    A submit ignores the marks that existed when it began, so an old mark has no effect.
    """

    folder: Path

    def leave(self, runs: Iterable[str]) -> str | None:
        """Write a mark for the runs with these ids, and return the mark's name.

        Returns None if the mark cannot be written.
        """
        name = f"{secrets.token_hex(6)}.json"
        try:
            self.folder.mkdir(exist_ok=True)
            write_record(self.folder / name, CancelMark(tuple(runs), utc_now()))
        except OSError:
            with suppress(OSError):
                self.folder.rmdir()
            return None
        return name

    def names(self) -> frozenset[str]:
        """Return the names of all marks."""
        return frozenset(path.name for path in self.folder.glob("[!.]*.json"))

    def runs(self, without: Collection[str]) -> set[str]:
        """Return the ids of the runs in all marks, except the marks with the names in `without`."""
        marks = (read_record(self.folder / name, CancelMark) for name in self.names() - {*without})
        return {run_id for mark in marks if mark is not None for run_id in mark.runs}

    def remove(self, names: Iterable[str]) -> None:
        """Remove the marks with these names; ignore errors."""
        with suppress(OSError):
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()
