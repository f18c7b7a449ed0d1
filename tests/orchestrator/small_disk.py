"""Mount a small file system as a playground's results/, to make it full or read-only."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Mounts a file system, and keeps it until standard input is closed.
HOLDER = 'mount -t tmpfs -o size=2m,nr_inodes=100 none "$1" && echo mounted && read -r'
# How to make a mount namespace, and to enter another process's: as root, and as another user.
NAMESPACES = (
    (["unshare", "--mount"], ["nsenter", "--mount"]),
    (
        ["unshare", "--map-root-user", "--mount"],
        ["nsenter", "--user", "--preserve-credentials", "--mount"],
    ),
)


@dataclass
class Disk:
    """A small file system that is mounted as the playground's results/.

    Only the process `holder` sees the file system at results/; other processes see it at `path`.
    """

    playground: Any
    holder: "subprocess.Popen[str]"
    enter: list[str]

    @property
    def path(self) -> Path:
        """Return the path at which all other processes see the disk."""
        return Path(f"/proc/{self.holder.pid}/root{self.playground.path}/results")

    def make_read_only(self) -> None:
        """Make the disk read-only for all processes that see it by `path`."""
        enter = [*self.enter, f"--target={self.holder.pid}"]
        mounted = str(self.playground.path / "results")
        # A separate mount, because the mount below is busy while jobs write their logs.
        subprocess.run([*enter, "mount", "--bind", mounted, mounted], check=True)
        subprocess.run([*enter, "mount", "-o", "remount,bind,ro", mounted], check=True)

    def teralog(self, command: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run teralog on the playground's campaign, with its results on this disk."""
        results = ("--results", str(self.path))
        done: subprocess.CompletedProcess[str] = self.playground.teralog(
            command, "campaign.yaml", *results, *options
        )
        return done

    def fill(self) -> None:
        """Fill the disk, so that it has only room for the names of new files."""
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                return

    def files(self) -> dict[str, bytes]:
        """Return the content of all files on the disk, by path.

        Locks, which are empty, and the file with which `fill` fills the disk are left out.
        """
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.suffix != ".lock" and path.name != "ballast"
        }


@contextlib.contextmanager
def small_disk(playground: Any) -> Iterator[Disk]:
    """Return a disk with room for a few runs; skip the test if mounting is not allowed."""
    (playground.path / "results").mkdir()
    refused = ""
    for unshare, enter in NAMESPACES:
        holder = subprocess.Popen(
            [*unshare, "bash", "-c", HOLDER, "bash", str(playground.path / "results")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        if holder.stdout.readline() == "mounted\n":
            yield Disk(playground, holder, enter)
            holder.communicate()
            return
        refused = holder.communicate()[1].strip()
    pytest.skip(f"no file system may be mounted here: {refused}")
