"""GPUs or cores are lent to one process at a time; when the process ends, they are free again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.common.errors import UserError
from orchestrator.local.devices import Devices, this_machines_devices

# Leases devices again and again. While it has one it keeps a file of the device's name, which
# cannot be made where another process has it too.
TAKER = """\
import os, random, sys, time
from pathlib import Path
from orchestrator.local.devices import Devices
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
devices, chance = Devices("gpu", ("0", "1", "2", "3"), folder), random.Random(seed)
sys.stdin.readline()
leases = 0
while leases < 40:
    lease = devices.lease(chance.randint(1, 3))
    if lease is not None:
        for name in lease.devices:
            os.close(os.open(folder / f"taken-{name}", os.O_CREAT | os.O_EXCL))
        time.sleep(chance.uniform(0, 0.002))
        for name in lease.devices:
            (folder / f"taken-{name}").unlink()
        lease.close()
        leases += 1
"""
# Leases two devices and stays; a child that was given them lives on when it is killed.
KEEPER = """\
import subprocess, sys
from pathlib import Path
from orchestrator.local.devices import Devices
lease = Devices("gpu", ("0", "1", "2", "3"), Path(sys.argv[1])).lease(2)
command = {"args": ["sleep", "600"], "stdout": subprocess.DEVNULL}
print(subprocess.Popen(**command, pass_fds=lease.descriptors).pid, flush=True)
sys.stdin.read()
"""


def gpus(folder: Path, *names: str) -> Devices:
    """Return GPUs with these names, by default four, whose locks are in `folder`."""
    return Devices("gpu", names or ("0", "1", "2", "3"), folder)


def test_no_device_is_handed_out_twice(tmp_path: Path) -> None:
    """Of several processes that request devices at once, each gets different ones."""
    command = [sys.executable, "-c", TAKER, str(tmp_path)]
    takers = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE) for n in range(5)]
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write(b"\n")
        taker.stdin.flush()
    assert [taker.wait(timeout=60) for taker in takers] == [0] * 5


def test_devices_are_handed_out_until_none_is_left(tmp_path: Path) -> None:
    """A request for more devices than are free gets none.

    Devices that a process has returned are free again.
    """
    first, second = gpus(tmp_path).lease(1), gpus(tmp_path).lease(1)
    assert first is not None
    assert second is not None
    assert (first.devices, second.devices) == (("0",), ("1",))
    assert gpus(tmp_path).lease(3) is None
    third = gpus(tmp_path).lease(2)
    assert third is not None
    assert third.devices == ("2", "3")
    assert gpus(tmp_path).lease(1) is None
    first.close()
    again = gpus(tmp_path).lease(1)
    assert again is not None
    assert again.devices == ("0",)
    for lease in (second, third, again):
        lease.close()


def test_devices_are_taken_as_long_as_their_heir_lives(tmp_path: Path) -> None:
    """A device stays taken while a child uses it, even if the process that leased it is dead."""
    command = [sys.executable, "-c", KEEPER, str(tmp_path)]
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keeper.stdout is not None
    child = int(keeper.stdout.readline())
    keeper.kill()
    keeper.wait()
    assert gpus(tmp_path).lease(3) is None
    os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (lease := gpus(tmp_path).lease(4)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lease is not None
    lease.close()


@pytest.mark.parametrize(("ranks", "cores"), [(1, 1), (3, 3), (4, 4), (64, 4)])
def test_processes_may_be_more_than_there_are_cores(tmp_path: Path, ranks: int, cores: int) -> None:
    """If a run has more ranks than the machine has cores, the run gets all cores."""
    lease = Devices("core", ("0", "1", "2", "3"), tmp_path).lease(ranks)
    assert lease is not None
    assert len(lease.devices) == cores
    lease.close()


def test_more_gpus_than_there_are_is_an_error(tmp_path: Path) -> None:
    """A request for more GPUs than the machine has raises an error."""
    with pytest.raises(UserError, match="gpus_per_node=5, but this machine has 4 GPUs"):
        gpus(tmp_path).lease(5)


def test_a_run_sees_the_gpus_it_was_given_and_no_others(tmp_path: Path) -> None:
    """A run sees only the GPUs that it was given; a run that has cores sees no GPU."""
    parts = gpus(tmp_path, "GPU-1a", "MIG-GPU-2b/1/0")
    lease = parts.lease(2)
    assert lease is not None
    assert parts.environment(lease) == {"CUDA_VISIBLE_DEVICES": "GPU-1a,MIG-GPU-2b/1/0"}
    lease.close()
    cores = Devices("core", ("0",), tmp_path)
    lease = cores.lease(1)
    assert lease is not None
    assert cores.environment(lease) == {"CUDA_VISIBLE_DEVICES": ""}
    lease.close()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a separate lock folder, so that the locks of real runs do not matter."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / f"teralog-{os.getuid()}"


@pytest.mark.parametrize(
    ("visible", "wanted", "kind", "names"),
    [
        ("3,5", True, "gpu", ("3", "5")),
        ("3,5", False, "core", None),
        ("", True, "core", None),
    ],
)
def test_this_machine_has_gpus_or_else_cores(
    runtime: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: str,
    wanted: bool,
    kind: str,
    names: tuple[str, ...] | None,
) -> None:
    """A run gets cores instead of GPUs if it needs no GPUs, or if the machine has none."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = this_machines_devices(gpus_wanted=wanted)
    cores = tuple(str(core) for core in range(len(os.sched_getaffinity(0))))
    assert devices == Devices(kind, names or cores, runtime)


def test_the_lock_folder_is_the_users_own(runtime: Path) -> None:
    """Only the user who starts runs may read or write the folder of locks."""
    assert this_machines_devices().folder == runtime
    assert runtime.stat().st_mode & 0o777 == 0o700
    assert this_machines_devices().folder == runtime


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_lock_folder_of_another_user_is_refused(runtime: Path) -> None:
    """A lock folder that belongs to another user is refused.

    That user could hold all locks, so that no device is ever free.
    """
    runtime.mkdir()
    os.chown(runtime, 12345, 12345)
    with pytest.raises(UserError, match="must be a folder that you own; set XDG_RUNTIME_DIR"):
        this_machines_devices()


def test_a_lock_folder_that_is_a_link_is_refused(runtime: Path, tmp_path: Path) -> None:
    """A lock folder that is a symbolic link is refused.

    The link may lead to a folder that other users can write to.
    """
    (tmp_path / "elsewhere").mkdir()
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="must be a folder that you own"):
        this_machines_devices()


@pytest.mark.parametrize("base", ["missing", "file"])
def test_a_lock_folder_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    """If the lock folder cannot be made, a message names the environment variable to correct."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / base))
    with pytest.raises(UserError, match=r"cannot hold lock files: .+; set XDG_RUNTIME_DIR to"):
        this_machines_devices()
