"""Find the GPUs and cores that this process may use."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.hardware.machine import visible_gpus


@pytest.mark.parametrize(
    ("variable", "gpus"),
    [
        ("", ()),
        ("0", ("0",)),
        ("2,0, 1", ("2", "0", "1")),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("0,,1", ("0",)),
        ("NoDevFiles", ()),
        ("GPU-8932f937,GPU-1", ("GPU-8932f937", "GPU-1")),
        ("MIG-GPU-8932f937/1/0", ("MIG-GPU-8932f937/1/0",)),
        ("../../x", ()),
    ],
)
def test_gpus_after_an_invalid_entry_of_the_variable_do_not_count(
    monkeypatch: pytest.MonkeyPatch, variable: str, gpus: tuple[str, ...]
) -> None:
    """If CUDA_VISIBLE_DEVICES has an invalid entry, GPUs after it do not count, as in CUDA itself.

    E.g. Slurm sets the variable to NoDevFiles for a job without GPUs.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_gpus() == gpus


def in_namespace(shell: str, *arguments: str) -> str:
    """Run a shell script in a separate mount namespace, and return its output.

    arguments: the arguments of the script. Skips the test if no namespace can be made.
    """
    for unshare in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        command = [*unshare, "bash", "-ec", "mount -t tmpfs none /mnt\n" + shell, "bash"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
    pytest.skip(f"no namespace may be made here: {done.stderr.strip()}")


def test_without_the_variable_the_drivers_device_files_count(tmp_path: Path) -> None:
    """Without CUDA_VISIBLE_DEVICES, the GPUs are the files /dev/nvidia0, /dev/nvidia1 and so on.

    They are in the order of their numbers. Other files of the driver do not count.
    """
    program = tmp_path / "program.py"
    program.write_text(
        "from orchestrator.hardware.machine import visible_gpus\nprint(*visible_gpus())\n"
    )
    shell = """
        touch /mnt/nvidia{0,10,2,ctl,-uvm,-caps,3x} /mnt/xnvidia1
        mount --bind /mnt /dev
        unset CUDA_VISIBLE_DEVICES
        "$1" "$2"
    """
    assert in_namespace(shell, sys.executable, str(program)) == "0 2 10\n"


def test_cores_are_those_that_this_process_may_run_on() -> None:
    """A process that is bound to one core of many has one core."""
    code = "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    code += "from orchestrator.hardware.machine import cores\nprint(cores())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
