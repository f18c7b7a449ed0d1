"""Sharing out this machine's GPUs, or its cores where it has none, and never handing one twice.

A device is taken as long as somebody holds its lock file. The lock is passed on to the process that
supervises the run, so a device comes back when that process ends, however it ends; and it is kept
by two submits of different campaigns alike.
"""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator import locks
from orchestrator.errors import UserError
from orchestrator.machine import cores, visible_gpus


@dataclass(frozen=True, slots=True)
class Lease:
    """Devices that were granted, and the descriptors that hold their locks."""

    devices: tuple[str, ...]
    descriptors: tuple[int, ...]

    def close(self) -> None:
        """Let go of this process's hold; a child that inherited the descriptors keeps its own."""
        for descriptor in self.descriptors:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Devices:
    """What this machine has to share out: `kind` is "gpu" or "core"."""

    kind: str
    names: tuple[str, ...]
    folder: Path

    def lease(self, ranks: int) -> Lease | None:
        """Return devices for so many ranks, or None where too few are free just now.

        Where ranks are processes and more of them than there are cores, all cores are asked for.
        """
        wanted = ranks if self.kind == "gpu" else min(ranks, len(self.names))
        granted: list[str] = []
        held: list[int] = []
        for name in self.names:
            if len(granted) == wanted:
                break
            descriptor = locks.acquire(self.folder / f"{self.kind}-{name}.lock")
            if descriptor is not None:
                granted.append(name)
                held.append(descriptor)
        lease = Lease(tuple(granted), tuple(held))
        if len(granted) == wanted:
            return lease
        lease.close()
        return None

    def environment(self, lease: Lease) -> dict[str, str]:
        """Return the variables that confine a run to its devices."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(lease.devices)} if self.kind == "gpu" else {}


def this_machines_devices() -> Devices:
    """Return the devices of this machine; the locks lie in a folder of the user's own."""
    gpus = visible_gpus()
    if gpus:
        return Devices("gpu", gpus, _lock_folder())
    return Devices("core", tuple(str(number) for number in range(cores())), _lock_folder())


def _lock_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime else Path(tempfile.gettempdir())
    folder = base / f"teralog-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise UserError(f"{folder}: cannot hold lock files: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UserError(f"{folder}: is not a folder of yours; move it out of the way")
    return folder
