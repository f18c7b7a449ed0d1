"""`teralog doctor` on programs that are missing, fail, hang or print garbage."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.common.ask import ask, ask_all
from orchestrator.doctor import findings
from orchestrator.doctor.findings import Finding

ROOT = Path(findings.__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def examine(examine: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs doctor's checks with Python's option -S.

    This option leaves out installed packages, because scanning many packages takes time.
    """

    def without_packages(folder: Path, **given: Any) -> Any:
        return examine(folder, "-S", **{"PYTHONPATH": ROOT, **given})

    return without_packages


def test_without_programs_all_is_missing_but_only_bash_is_needed(
    tmp_path: Path, examine: Callable[..., Any], doctor: Callable[..., tuple[int, str, str]]
) -> None:
    """With an empty PATH, Slurm, a compiler and nvidia-smi are missing, but only bash is essential.

    Each missing program has a remedy. Doctor exits with 1, without a traceback.
    """
    (tmp_path / "bin").mkdir()
    examination = examine(tmp_path, PATH=tmp_path / "bin", CXX=None, CUDA_VISIBLE_DEVICES="")
    assert examination.one("shell", "bash") == Finding(
        "shell", "bash", False, False, None, "apt install bash"
    )
    assert examination.one("compiler", "C++").remedy == "apt install g++"
    slurm = [each for each in examination.findings if each.topic == "Slurm"]
    assert {(each.ok, each.optional, each.found) for each in slurm} == {(False, True, None)}
    assert all("apt install slurm-client" in (each.remedy or "") for each in slurm)
    assert all("cluster: local" in (each.remedy or "") for each in slurm)
    assert not examination.one("GPU", "nvidia-smi").ok
    status, _, errors = doctor(tmp_path, PATH=tmp_path / "bin")
    assert (status, errors) == (1, "")


def test_slurm_is_named_with_its_version(
    tmp_path: Path, examine: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """The finding shows the version that Slurm's command prints."""
    program(tmp_path / "bin", "sacct", 'test "$1" = --version && echo slurm 23.11.4')
    examination = examine(tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert examination.one("Slurm", "sacct") == Finding(
        "Slurm", "sacct", True, True, "slurm 23.11.4", None
    )


def test_slurm_without_its_configuration_is_missing_with_the_reason(
    tmp_path: Path, examine: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """If Slurm's command cannot work, doctor shows the command's own message."""
    program(tmp_path / "bin", "sbatch", "echo 'sbatch: fatal: no slurm.conf' >&2; exit 1")
    finding = examine(tmp_path, PATH=tmp_path / "bin").one("Slurm", "sbatch")
    assert (finding.ok, finding.found) == (False, None)
    assert (finding.remedy or "").startswith(
        "sbatch --version exits with 1: sbatch: fatal: no slurm.conf; "
    )


NVIDIA_SMI = [
    pytest.param(
        'test "$*" = "--query-gpu=name --format=csv,noheader" || exit 2\n'
        "echo NVIDIA H100 80GB HBM3; echo NVIDIA H100 80GB HBM3; echo NVIDIA T4",
        "2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA T4",
        None,
        id="names",
    ),
    pytest.param(
        "echo NVIDIA-SMI has failed; exit 9",
        None,
        "nvidia-smi --query-gpu=name exits with 9: NVIDIA-SMI has failed",
        id="fails",
    ),
    pytest.param("exit 9", None, "exits with 9: it printed nothing", id="fails-silently"),
    pytest.param("kill -SEGV $$", None, "exits with -11", id="crashes"),
    pytest.param("true", None, "nvidia-smi lists no GPU", id="names-none"),
    pytest.param(r"printf 'T\377\n'", "1 x T�", None, id="not-utf-8"),
]


@pytest.mark.parametrize(("script", "gpus", "reason"), NVIDIA_SMI)
def test_gpus_of_nvidia_smi_or_its_failure_are_reported(
    tmp_path: Path,
    script: str,
    gpus: str | None,
    reason: str | None,
    examine: Callable[..., Any],
    program: Callable[..., Path],
) -> None:
    """Doctor shows the GPUs that nvidia-smi lists, by name, with the number of each.

    If nvidia-smi fails, the remedy contains the reason.
    """
    program(tmp_path / "bin", "nvidia-smi", script)
    finding = examine(tmp_path, PATH=tmp_path / "bin").one("GPU", "nvidia-smi")
    assert (finding.ok, finding.found) == (reason is None, gpus)
    assert (finding.remedy is None) if reason is None else (reason in (finding.remedy or ""))


def test_a_program_that_hangs_is_ended_with_its_children(
    tmp_path: Path, examine: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """After a timeout the program is killed, and no process is left."""
    child = tmp_path / "child"
    program(tmp_path / "bin", "nvidia-smi", f"/bin/sleep 1000 & echo $! > {child}\nwait")
    finding = examine(tmp_path, timeout_seconds=1, PATH=tmp_path / "bin").one("GPU", "nvidia-smi")
    assert "nvidia-smi --query-gpu=name gave no answer within 1 s" in (finding.remedy or "")
    number = int(child.read_text())
    # The process that adopts orphans may not have collected it yet.
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(number).status() == psutil.STATUS_ZOMBIE


def test_a_file_that_is_not_a_program_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a file on the PATH cannot be executed, `ask` returns the system's error message."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = ask(("broken", "--version"))
    assert answer is not None
    assert answer.problem == "broken --version does not start: Exec format error"


def test_answers_come_in_the_order_of_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Callable[..., Path]
) -> None:
    """`ask_all` starts several programs at once; its answers are in the order of the commands.

    It does not matter which program ends first. The answer of a missing program is None.
    """
    program(tmp_path, "slow", "/bin/sleep 0.3; echo slow")
    program(tmp_path, "fast", "echo fast")
    monkeypatch.setenv("PATH", str(tmp_path))
    slow, absent, fast = ask_all([("slow",), ("absent",), ("fast",)])
    assert absent is None
    assert [answer.lines for answer in (slow, fast) if answer] == [("slow",), ("fast",)]


def test_gpus_hidden_by_a_variable_are_found_without_it(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    """If a variable such as CUDA_VISIBLE_DEVICES hides GPUs, the remedy is to unset it."""
    hidden = examine(tmp_path, CUDA_VISIBLE_DEVICES="").one("GPU", "visible")
    assert (hidden.ok, hidden.found) == (False, None)
    assert "unset CUDA_VISIBLE_DEVICES" in (hidden.remedy or "")
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="0,3").one("GPU", "visible").found == "0, 3"


def test_nvcc_matters_only_next_to_a_gpu(
    tmp_path: Path, examine: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """Without a GPU, doctor does not look for nvcc.

    With a GPU, doctor looks for nvcc in CUDA_HOME, as torch does.
    """
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="").all("compiler", "nvcc") == []
    nvcc = program(tmp_path / "cuda" / "bin", "nvcc", "true")
    bare = program(tmp_path / "bin", "sbatch", "true").parent
    examination = examine(
        tmp_path, PATH=bare, CUDA_VISIBLE_DEVICES="0", CUDA_HOME=tmp_path / "cuda"
    )
    assert examination.one("compiler", "nvcc").found == str(nvcc)


@pytest.mark.parametrize(
    ("architectures", "chosen"),
    [
        ("9.0", None),
        ("8.0 9.0+PTX", None),
        ("9.0a", "export TORCH_CUDA_ARCH_LIST=9.0"),
        ("8.0;9.0a;9.0+PTX;9.0", "export TORCH_CUDA_ARCH_LIST='8.0;9.0;9.0+PTX'"),
        ("Hopper", "unset TORCH_CUDA_ARCH_LIST"),
    ],
)
def test_architectures_must_be_numbers(
    tmp_path: Path, examine: Callable[..., Any], architectures: str, chosen: str | None
) -> None:
    """If DeepSpeed cannot read TORCH_CUDA_ARCH_LIST, doctor shows a value that it can read."""
    set_up = {"TORCH_CUDA_ARCH_LIST": architectures, "CUDA_VISIBLE_DEVICES": "0"}
    finding = examine(tmp_path, **set_up).one("compiler", "TORCH_CUDA_ARCH_LIST")
    assert (finding.ok, finding.optional) == (chosen is None, True)
    assert (finding.remedy or "").endswith(chosen or "")


def test_architectures_matter_only_if_they_are_set_and_there_is_a_gpu(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    for set_up in (
        {"TORCH_CUDA_ARCH_LIST": "", "CUDA_VISIBLE_DEVICES": "0"},
        {"TORCH_CUDA_ARCH_LIST": "9.0a", "CUDA_VISIBLE_DEVICES": ""},
    ):
        assert examine(tmp_path, **set_up).all("compiler", "TORCH_CUDA_ARCH_LIST") == []


@pytest.mark.parametrize(
    ("programs", "chosen", "ok", "compiler", "remedy"),
    [
        (("c++", "g++"), None, True, "c++", None),
        (("g++",), None, False, "g++", "export CXX={folder}/g++"),
        (("clang++",), None, False, "clang++", "export CXX={folder}/clang++"),
        (("clang++",), "clang++ -O1", True, "clang++", None),
        (("c++",), "icpc", False, "c++", "export CXX={folder}/c++"),
        ((), "icpc", False, None, "apt install g++"),
    ],
)
def test_the_compiler_is_the_one_that_torch_would_call(
    tmp_path: Path,
    programs: tuple[str, ...],
    chosen: str | None,
    ok: bool,
    compiler: str | None,
    remedy: str | None,
    examine: Callable[..., Any],
    program: Callable[..., Path],
) -> None:
    """Doctor checks the compiler that torch would call: the one in CXX, or else c++.

    If only a compiler with another name is there, e.g. clang++, the remedy is to set CXX.
    """
    (tmp_path / "bin").mkdir()
    for name in programs:
        program(tmp_path / "bin", name, "true")
    finding = examine(tmp_path, PATH=tmp_path / "bin", CXX=chosen).one("compiler", "C++")
    assert (finding.ok, finding.optional) == (ok, True)
    assert finding.found == (compiler and str(tmp_path / "bin" / compiler))
    assert finding.remedy == (remedy and remedy.format(folder=tmp_path / "bin"))


def test_ninja_next_to_python_comes_before_that_on_the_path(
    tmp_path: Path, examine: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """Doctor looks for ninja next to Python first, then on the PATH, as a run's script does."""
    on_path = program(tmp_path / "bin", "ninja", "true")
    (tmp_path / "none").mkdir()
    venv = tmp_path / "venv"
    prelude = f"import sys; sys.executable = {str(venv / 'bin' / 'python')!r}\n"

    def ninja(path: Path) -> Any:
        return examine(tmp_path, prelude=prelude, PATH=path).one("compiler", "ninja").found

    assert ninja(tmp_path / "none") is None
    assert ninja(on_path.parent) == str(on_path)
    beside = program(venv / "bin", "ninja", "true")
    assert ninja(on_path.parent) == ninja(tmp_path / "none") == str(beside)
