"""Count the runs that are active on this machine at the same time."""

import os
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common import locks


@dataclass(slots=True)
class Neighbours:
    """Registers a run on this machine, and counts how many other runs are active at the same time.

    presence: the file that registers the run. The run's supervisor keeps it locked. When the
        supervisor ends, the kernel frees the lock.
    most: the largest number of other active runs so far.
    """

    presence: Path
    descriptor: int
    most: int = 0

    @classmethod
    def join(cls, folder: Path, token: str) -> "Neighbours | None":
        """Register a run by a locked file in `folder`; return None if the file cannot be created.

        token: the text by which teralog marks the attempt; part of the file's name.
        """
        begun, presence = folder / f".run-{token}", folder / f"run-{token}.lock"
        try:
            descriptor = locks.acquire(begun)
            if descriptor is None:
                return None
            # The file gets its final name only when it is locked. So an unlocked file of such a
            # name is a leftover of a supervisor that was killed.
            begun.rename(presence)
        except OSError:
            return None
        return cls(presence, descriptor)

    def look(self) -> None:
        """Count the other runs that are active now, and set `most` to the count if it is higher.

        Also remove the files of runs whose supervisor was killed.
        """
        others = 0
        for path in self.presence.parent.glob("run-*.lock"):
            if path == self.presence:
                continue
            try:
                if locks.is_held(path):
                    others += 1
                else:
                    path.unlink(missing_ok=True)
            except OSError:
                continue
        self.most = max(self.most, others)

    def leave(self) -> None:
        """Remove and unlock the file that registers the run."""
        self.presence.unlink(missing_ok=True)
        os.close(self.descriptor)
