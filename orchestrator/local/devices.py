"""Lend this machine's GPUs or cores to runs, so that no two runs use the same device.

A device is in use while a process holds the lock on the device's lock file. The process that
supervises the run inherits the lock. When this process ends, for any reason, the device is free
again. Submits of different campaigns use the same locks.
"""

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.text import counted
from orchestrator.hardware.machine import cores, visible_gpus


@dataclass(frozen=True, slots=True)
class Lease:
    """Devices lent to a run, and the file descriptors that keep their lock files locked."""

    devices: tuple[str, ...]
    descriptors: tuple[int, ...]

    def close(self) -> None:
        """Close this process's copies of the locks' descriptors.

        A child process that inherited the descriptors still holds the locks.
        """
        for descriptor in self.descriptors:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of this machine that runs may use.

    kind: "gpu" or "core".
    names: the GPUs or cores, e.g. their numbers.
    folder: the folder of the lock files.
    """

    kind: str
    names: tuple[str, ...]
    folder: Path

    def require(self, ranks: int) -> None:
        """Raise UserError if a run has more ranks than this machine has GPUs.

        Such a run would wait forever. A machine without GPUs accepts any number of ranks, because
        several ranks can share a core.
        """
        if self.kind == "gpu" and ranks > len(self.names):
            raise UserError(
                f"gpus_per_node={ranks}, but this machine has {counted(len(self.names), 'GPU')} "
                "that runs can use; lower gpus_per_node, or check CUDA_VISIBLE_DEVICES"
            )

    def lease(self, ranks: int) -> Lease | None:
        """Return devices for `ranks` ranks, or None if too few are free at the moment.

        On a machine without GPUs, a run with more ranks than cores gets all cores. Raises UserError
        if a run has more ranks than this machine has GPUs.
        """
        self.require(ranks)
        wanted = min(ranks, len(self.names))
        granted: list[str] = []
        held: list[int] = []
        for name in self.names:
            if len(granted) == wanted:
                break
            # The names of a GPU's parts may have slashes in them.
            lock = f"{self.kind}-{name.replace('/', '-')}.lock"
            descriptor = locks.acquire(self.folder / lock)
            if descriptor is not None:
                granted.append(name)
                held.append(descriptor)
        lease = Lease(tuple(granted), tuple(held))
        if len(granted) == wanted:
            return lease
        lease.close()
        return None

    def environment(self, lease: Lease) -> dict[str, str]:
        """Return the variable CUDA_VISIBLE_DEVICES, so that a run uses only the GPUs lent to it.

        If the run uses cores, the variable is empty, so the run sees no GPU.
        """
        gpus = lease.devices if self.kind == "gpu" else ()
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def this_machines_devices(*, gpus_wanted: bool = True) -> Devices:
    """Return this machine's GPUs; its cores if it has no GPU or if `gpus_wanted` is false.

    Their lock files are in the folder that `lock_folder` returns.
    """
    gpus = visible_gpus() if gpus_wanted else ()
    if gpus:
        return Devices("gpu", gpus, lock_folder())
    return Devices("core", tuple(str(number) for number in range(cores())), lock_folder())


def lock_folder() -> Path:
    """Return the folder of this user's lock files on this machine; create it if needed.

    Raises UserError if the folder cannot be created, or if it belongs to another user.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime else Path(tempfile.gettempdir())
    folder = base / f"teralog-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise UserError(
            f"{folder}: cannot hold lock files: {error.strerror}; set XDG_RUNTIME_DIR to a "
            f"folder that you can write to, or unset it"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UserError(
            f"{folder}: must be a folder that you own; set XDG_RUNTIME_DIR to another folder"
        )
    return folder
