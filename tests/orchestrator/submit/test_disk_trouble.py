"""Submit to a full or read-only disk: a small real file system is mounted as results/."""

import contextlib
import itertools
import subprocess
from collections.abc import Iterator

import pytest
from small_disk import Disk, small_disk

ELSEWHERE = "use --results with a folder that you can write to"
FULL = f"No space left on device; free some space, or {ELSEWHERE}"
READ_ONLY = f"Read-only file system; {ELSEWHERE}"
COMMANDS = {"render": (), "submit": (), "cancel": ("seed=1",), "collect": ()}
LOOKING = {
    "plan": ["plan"],
    "status": ["status"],
    "report": ["report"],
    "filtered report": ["report", "--filter", "seed == 1"],
    "report by node": ["report", "--by-node"],
    "compare": ["compare", "--a", "seed == 1", "--b", "seed == 2"],
    "noise": ["noise"],
    "watch": ["watch"],
}


@pytest.fixture
def disk(playground) -> Iterator[Disk]:
    """Return a disk with room for the results of a campaign of two runs."""
    playground.write_campaign("echo trained", matrix="seed: [1, 2]")
    with small_disk(playground) as disk:
        yield disk


def the_sentence(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the only line that teralog prints; assert that it is a message on stderr."""
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("teralog: ")
    return lines[0]


def folders(disk: Disk) -> set[str]:
    """Return the folders on the disk that are not empty."""
    return {str(path.parent.relative_to(disk.path)) for path in disk.path.rglob("*")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_sentence(disk: Disk, command: str) -> None:
    """If the disk is full, one sentence reports it.

    No half-written or temporary file is left.
    """
    disk.fill()
    sentence = the_sentence(disk.teralog(command, *COMMANDS[command]))
    assert sentence.endswith(f": cannot be written: {FULL}")
    assert disk.files() == {}
    assert folders(disk) <= {".", "play"}


@pytest.mark.parametrize("command", ["render", "submit"])
def test_a_read_only_disk_is_one_sentence(disk: Disk, command: str) -> None:
    """If the disk is read-only, one sentence reports it, and no file is written."""
    disk.make_read_only()
    assert the_sentence(disk.teralog(command)).endswith(f": cannot be written: {READ_ONLY}")
    assert list(disk.path.iterdir()) == []


def test_a_disk_that_can_hold_no_more_files_is_one_sentence(disk: Disk) -> None:
    """If the disk has no free inodes, one sentence reports that the disk is full."""
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (disk.path / f"file-{number}").touch()
    (disk.path / "file-0").unlink()
    before = disk.files()
    assert the_sentence(disk.teralog("render")).endswith(FULL)
    assert disk.files() == before


def test_a_full_disk_loses_no_earlier_results(disk: Disk) -> None:
    """If the disk becomes full, measured results stay.

    When the disk has room again, `submit` adds new results.
    """
    assert disk.teralog("submit").returncode == 0
    before = disk.files()
    assert "play/report.md" in before
    disk.fill()
    disk.playground.write_campaign("echo trained", matrix="seed: [1, 2, 3]")
    assert FULL in the_sentence(disk.teralog("submit", "--accept-changes"))
    full = disk.teralog("report", "--write")
    assert (full.returncode, full.stdout.count("completed")) == (1, 2)
    assert FULL in full.stderr
    assert disk.files() == before
    (disk.path / "ballast").unlink()
    again = disk.teralog("submit", "--accept-changes")
    assert (again.returncode, again.stderr.splitlines()[-1]) == (0, "3 runs: 3 completed")
    assert disk.teralog("report", "--write").returncode == 0
    assert sorted(disk.playground.starts().values()) == [1, 1, 1]


def test_commands_that_look_print_the_same_on_a_read_only_and_a_full_disk(disk: Disk) -> None:
    """Commands that write no files, e.g. `plan`, `status` and `report`, need no room on the disk.

    On a full or read-only disk they print the same as before.
    """
    assert disk.teralog("submit").returncode == 0

    def looked() -> dict[str, tuple[int, str, str]]:
        done = {name: disk.teralog(*words) for name, words in LOOKING.items()}
        return {
            name: (result.returncode, result.stdout, result.stderr) for name, result in done.items()
        }

    before = looked()
    assert {name for name, (code, out, _) in before.items() if code or not out} <= {"compare"}
    assert "2 runs: 2 completed" in before["status"][1]
    assert before["compare"][0] in (0, 1)
    disk.fill()
    assert looked() == before
    disk.make_read_only()
    assert looked() == before


def test_a_run_is_not_started_where_its_attempt_cannot_be_written(disk: Disk) -> None:
    """If the disk is full, no run starts, and files of rendered runs stay unchanged.

    The runs start when the disk has room again.
    """
    assert disk.teralog("render").returncode == 0
    before = disk.files()
    disk.fill()
    assert FULL in the_sentence(disk.teralog("submit"))
    assert disk.files() == before
    (disk.path / "ballast").unlink()
    assert disk.teralog("submit").returncode == 0


def test_a_run_that_fills_the_disk_does_not_count_as_done(disk: Disk) -> None:
    """If a run fills the disk, a message reports that its end could not be recorded.

    The next submit starts the run again.
    """
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
