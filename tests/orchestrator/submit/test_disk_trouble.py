"""A full disk and a read-only one, for real: a small file system of its own under results/."""

import contextlib
import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Mounts a file system, and keeps it until standard input is closed.
HOLDER = 'mount -t tmpfs -o size=2m,nr_inodes=100 none "$1" && echo mounted && read -r'
# How to make a mount namespace, and to enter another process's: as root, and as anybody.
NAMESPACES = (
    (["unshare", "--mount"], ["nsenter", "--mount"]),
    (
        ["unshare", "--map-root-user", "--mount"],
        ["nsenter", "--user", "--preserve-credentials", "--mount"],
    ),
)
ELSEWHERE = "give a folder you may write to with --results"
FULL = f"No space left on device; free some space, or {ELSEWHERE}"
READ_ONLY = f"Read-only file system; {ELSEWHERE}"
COMMANDS = ("render", "submit", "cancel", "collect", "report")


@dataclass
class Disk:
    """A file system that only its holder sees as the playground's results/."""

    playground: Any
    holder: "subprocess.Popen[str]"
    enter: list[str]

    @property
    def path(self) -> Path:
        """Where all others see it."""
        return Path(f"/proc/{self.holder.pid}/root{self.playground.path}/results")

    def make_read_only(self) -> None:
        """Let nobody write to it who sees it by `path`."""
        enter = [*self.enter, f"--target={self.holder.pid}"]
        mounted = str(self.playground.path / "results")
        subprocess.run([*enter, "mount", "-o", "remount,bind,ro", mounted], check=True)

    def teralog(self, command: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run teralog on the playground's campaign, with its results on this disk."""
        results = ("--results", str(self.path))
        done: subprocess.CompletedProcess[str] = self.playground.teralog(
            command, "campaign.yaml", *results, *options
        )
        return done

    def fill(self) -> None:
        """Leave room for no more than the names of files."""
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                return

    def files(self) -> dict[str, bytes]:
        """Return all files on it by their path, apart from locks, which are empty, and ballast."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.suffix != ".lock" and path.name != "ballast"
        }


@pytest.fixture
def disk(playground) -> Iterator[Disk]:
    """Return a disk with room for a few runs, for the results of a campaign of two."""
    playground.write_campaign("echo trained", matrix="seed: [1, 2]")
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


def the_sentence(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the one thing that teralog says, to a user who has to see to it."""
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("teralog: ")
    return lines[0]


def folders(disk: Disk) -> set[str]:
    """Return the folders that are not empty."""
    return {str(path.parent.relative_to(disk.path)) for path in disk.path.rglob("*")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_sentence(disk: Disk, command: str) -> None:
    """Nothing half-written is left, not even a temporary file."""
    disk.fill()
    assert the_sentence(disk.teralog(command)).endswith(f": cannot be written: {FULL}")
    assert disk.files() == {}
    assert folders(disk) <= {".", "play"}


@pytest.mark.parametrize("command", ["render", "submit", "report"])
def test_a_read_only_disk_is_one_sentence(disk: Disk, command: str) -> None:
    """Likewise."""
    disk.make_read_only()
    assert the_sentence(disk.teralog(command)).endswith(f": cannot be written: {READ_ONLY}")
    assert list(disk.path.iterdir()) == []


def test_a_disk_that_can_hold_no_more_files_is_one_sentence(disk: Disk) -> None:
    """It is full, too, when small files have eaten up its inodes."""
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (disk.path / f"file-{number}").touch()
    (disk.path / "file-0").unlink()
    before = disk.files()
    assert the_sentence(disk.teralog("render")).endswith(FULL)
    assert disk.files() == before


def test_a_full_disk_loses_no_earlier_results(disk: Disk) -> None:
    """What was measured stays as it is, and what is new comes once there is room again."""
    assert disk.teralog("submit").returncode == 0
    assert disk.teralog("report").returncode == 0
    before = disk.files()
    assert "play/report.md" in before
    disk.fill()
    disk.playground.write_campaign("echo trained", matrix="seed: [1, 2, 3]")
    assert FULL in the_sentence(disk.teralog("submit", "--accept-changes"))
    assert FULL in the_sentence(disk.teralog("report"))
    assert disk.files() == before
    (disk.path / "ballast").unlink()
    again = disk.teralog("submit", "--accept-changes")
    assert (again.returncode, again.stderr.splitlines()[-1]) == (0, "3 runs: 3 completed")
    assert disk.teralog("report").returncode == 0
    assert sorted(disk.playground.starts().values()) == [1, 1, 1]


def test_a_read_only_disk_still_tells_how_runs_stand(disk: Disk) -> None:
    """Looking writes nothing."""
    assert disk.teralog("submit").returncode == 0
    disk.make_read_only()
    status = disk.teralog("status")
    assert status.returncode == 0
    assert status.stdout.splitlines()[-1] == "2 runs: 2 completed"


def test_a_run_is_not_started_where_its_attempt_cannot_be_written(disk: Disk) -> None:
    """Rendered runs stay as they are, and start when there is room."""
    assert disk.teralog("render").returncode == 0
    before = disk.files()
    disk.fill()
    assert FULL in the_sentence(disk.teralog("submit"))
    assert disk.files() == before
    (disk.path / "ballast").unlink()
    assert disk.teralog("submit").returncode == 0


def test_a_run_that_fills_the_disk_does_not_count_as_done(disk: Disk) -> None:
    """Its end could not be recorded, which is said; the next submit runs it again."""
    disk.playground.write_campaign(
        'test -e "$LEDGER.once" || { touch "$LEDGER.once"; cat /dev/zero > big; }',
        matrix="seed: [1]",
    )
    filled = disk.teralog("submit")
    assert filled.returncode == 1
    assert FULL in filled.stderr
    assert "Traceback" not in filled.stderr
    next(disk.path.rglob("big")).unlink()
    again = disk.teralog("submit")
    assert (again.returncode, again.stderr.splitlines()[-1]) == (0, "1 run: 1 completed")
