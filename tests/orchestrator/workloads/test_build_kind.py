"""Name the folder of torch extensions: different for each Python, torch, CUDA, CPU and GPU."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run
from orchestrator.submit.scripts import job_script
from orchestrator.workloads import rehearsal
from parsers.summary.warmup import Warmup

PROGRAM = Path(rehearsal.__file__).with_name("build_kind.py")
VERSION = "__version__ = '{}'\ncuda: Optional[str] = {}\nhip: Optional[str] = None\n"
CPU = "processor : 0\nmodel name : A\nflags : {}\ncpu MHz : {}\n\nprocessor : 1\nflags : other\n"
GPU = "Model:  {}\nIRQ:  {}\n"


def kind(
    folder: Path, *, version: str = "", cpu: str = "sse", mhz: int = 1, gpu: str = "V100"
) -> str:
    """Return the name of the folder of torch extensions for a machine.

    version: the text of torch's version file. cpu: the CPU's flags. mhz: its clock. gpu: the GPU's
    model. The files that describe the machine are written into `folder`.
    """
    site = folder / "site"
    (site / "torch").mkdir(parents=True, exist_ok=True)
    (site / "torch" / "__init__.py").write_text("raise SystemExit('torch is imported')")
    (site / "torch" / "version.py").write_text(version)
    (folder / "cpuinfo").write_text(CPU.format(cpu, mhz))
    (folder / "information").write_text(GPU.format(gpu, mhz))
    command = [sys.executable, "-S", PROGRAM, folder / "cpuinfo", folder / "information", "/absent"]
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    return subprocess.check_output(command, env=environment, text=True).strip()


def test_name_contains_what_people_look_for(tmp_path: Path) -> None:
    """The folder's name has the versions of Python, torch and CUDA.

    The name is made without importing torch, which would take seconds.
    """
    folder_name = kind(tmp_path, version=VERSION.format("2.6.0+cu126", "'12.6'"))
    tag = re.escape(str(sys.implementation.cache_tag))
    assert re.fullmatch(rf"{tag}-torch-2\.6\.0\+cu126-12\.6-[0-9a-f]{{10}}", folder_name)


def test_name_differs_if_a_part_differs_and_only_then(tmp_path: Path) -> None:
    """The folder's name differs if torch, CUDA, CPU, GPU or installation differ, and only then.

    The CPU's clock and the GPU's interrupt number do not change it, because they do not affect
    compiled code.
    """
    old, new = VERSION.format("2.6.0", "'12.4'"), VERSION.format("2.6.0", "'12.6'")
    names = [
        kind(tmp_path, version=old),
        kind(tmp_path, version=new),
        kind(tmp_path, version=new, cpu="sse avx512f"),
        kind(tmp_path, version=new, gpu="A100"),
        kind(tmp_path / "elsewhere", version=new),
    ]
    assert len(set(names)) == len(names)
    assert kind(tmp_path, version=new, mhz=2) == names[1]


@pytest.fixture
def extensions_folder(tmp_path: Path, run_of: Callable[..., Run]) -> Callable[..., str]:
    """Return a function that runs a job script with these environment variables.

    The function returns the folder of torch extensions that the job's program gets.
    """
    program = tmp_path / "program.py"
    program.write_text("")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/bash\n[[ $1 == -c ]] && exec {sys.executable} "$@"\necho "$TORCH_EXTENSIONS_DIR"\n'
    )
    python.chmod(0o755)
    cluster = Cluster(name="here", scheduler="local", gpus_per_node=0, python=str(python))
    planned = PlannedRun(run_of(launcher="torchrun"), "0123456789ab", "label", ())
    campaign = Campaign(tmp_path / "c.yaml", "name", cluster, Warmup(), (planned,), ())
    script = job_script(planned, campaign, tmp_path)

    def run_with(**variables: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": "/home/me", **variables}
        command = ["bash", "-c", script]
        return subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).strip()

    return run_with


def test_script_makes_a_folder_of_the_kind_below_the_cache(extensions_folder) -> None:
    cache = "/home/me/.cache/teralog/torch_extensions"
    tag = re.escape(str(sys.implementation.cache_tag))
    assert re.fullmatch(rf"{cache}/{tag}-torch-.*-[0-9a-f]{{10}}", extensions_folder())


def test_script_keeps_a_folder_that_the_user_names(extensions_folder) -> None:
    """If the user sets TORCH_EXTENSIONS_DIR, the job script does not change it.

    That folder may already contain compiled extensions.
    """
    assert extensions_folder(TORCH_EXTENSIONS_DIR="/mine") == "/mine"
