"""doctor says what is here, what is not, and what to type; it never breaks over what it finds."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from orchestrator import diagnosis
from orchestrator.diagnosis import Finding
from orchestrator.installed import Requirement, parse_requirement, requirements
from orchestrator.name_clashes import PACKAGES
from orchestrator.programs import ask, ask_all
from orchestrator.specifiers import Version, satisfies
from orchestrator.tables import as_text

ROOT = Path(diagnosis.__file__).resolve().parents[1]

EXAMINE = """
import json, sys
from orchestrator import diagnosis
findings = diagnosis.records(diagnosis.examine(timeout_seconds=float(sys.argv[1])))
print(json.dumps({"findings": findings, "modules": sorted(sys.modules)}))
"""
DOCTOR = "from orchestrator.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Examination:
    """What a process of its own found, and what it imported for it."""

    findings: tuple[Finding, ...]
    modules: frozenset[str]

    def one(self, topic: str, name: str) -> Finding:
        (finding,) = self.all(topic, name)
        return finding

    def all(self, topic: str, name: str) -> list[Finding]:
        return [each for each in self.findings if (each.topic, each.name) == (topic, name)]


def environment(**changed: str | Path | None) -> dict[str, str]:
    """Return this process's environment with variables changed, or taken out where None."""
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {name: str(value) for name, value in changed.items() if value is not None}


def examine(
    folder: Path, *options: str, timeout_seconds: float = 30, **changed: str | Path | None
) -> Examination:
    """Examine in a process of its own, working in `folder`."""
    done = subprocess.run(
        [sys.executable, *options, "-c", EXAMINE, str(timeout_seconds)],
        cwd=folder,
        env=environment(**changed),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    findings = tuple(Finding(**each) for each in found["findings"])
    return Examination(findings, frozenset(found["modules"]))


def doctor(folder: Path, *options: str, **changed: str | Path | None) -> tuple[int, str, str]:
    """Run the command line's doctor; return its exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR, "doctor", *options],
        cwd=folder,
        env=environment(**changed),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def program(folder: Path, name: str, script: str) -> Path:
    """Write a program of that name for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def install(folder: Path, name: str, version: str, *files: str, **metadata_lines: str) -> Path:
    """Install a distribution into `folder` as pip does: its files, its metadata, its RECORD."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *metadata_lines.values()]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, "", ""]))
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("")
    record = [*files, f"{info.name}/METADATA", f"{info.name}/RECORD"]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in record))
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Examination:
    """What is found on this machine as it is."""
    return examine(tmp_path_factory.mktemp("empty"))


# This machine as it is


def test_every_topic_is_looked_at(here: Examination) -> None:
    """All that a run may need has a finding, whether it is here or not."""
    assert {"Python", "package", "extra train", "extra hf", "name clash", "shell", "Slurm"} <= {
        finding.topic for finding in here.findings
    }
    assert {"CPU", "GPU", "compiler", "folder"} <= {finding.topic for finding in here.findings}
    assert [each.name for each in here.findings if each.topic == "Slurm"] == [
        "sbatch", "squeue", "sacct", "scontrol", "scancel", "srun", "salloc", "sinfo",
    ]  # fmt: skip


def test_what_is_wrong_has_a_remedy_and_nothing_else_has(here: Examination) -> None:
    """A remedy is there exactly where something is not ok."""
    assert all(finding.ok is (finding.remedy is None) for finding in here.findings)


def test_only_python_the_core_the_shell_and_the_names_are_essential(here: Examination) -> None:
    """A machine without GPU, Slurm, compiler and extras can still plan, render and report."""
    essential = {finding.topic for finding in here.findings if not finding.optional}
    assert essential == {"Python", "package", "name clash", "shell"}


def test_nothing_heavy_is_imported(here: Examination) -> None:
    """Metadata tells the versions, so that doctor answers at once."""
    heavy = {"torch", "deepspeed", "transformers", "accelerate", "pandas", "numpy", "submitit"}
    assert not heavy & here.modules


def test_each_core_package_is_named_with_its_version(here: Examination) -> None:
    """The packages are those that the project's metadata asks for."""
    core = [each.name for each in requirements() or () if each.extra is None]
    assert len(core) > 5
    for name in core:
        finding = here.one("package", name)
        assert (finding.ok, finding.found) == (True, metadata.version(name))


def test_the_least_python_is_that_of_the_metadata() -> None:
    """The number that doctor compares with is the one that pip enforces."""
    least = ".".join(str(part) for part in diagnosis.MINIMUM_PYTHON)
    assert metadata.metadata("teralog")["Requires-Python"] == f">={least}"


def test_every_extra_that_doctor_names_is_one_of_the_metadata() -> None:
    """A remedy never asks for an extra that does not exist."""
    known = metadata.metadata("teralog").get_all("Provides-Extra") or []
    assert set(diagnosis.EXTRAS) <= set(known)


def test_the_metadata_has_no_marker_but_of_extras() -> None:
    """Other markers would not be understood, and their packages be called missing."""
    lines = metadata.requires("teralog") or []
    markers = [line.partition(";")[2].strip() for line in lines if ";" in line]
    assert markers
    assert [each for each in markers if not re.fullmatch(r"extra == ['\"][\w-]+['\"]", each)] == []


# Packages and extras


def test_a_version_too_old_is_no_package(tmp_path: Path) -> None:
    """What is found is told, and the remedy asks for what teralog needs."""
    (needed,) = [each for each in requirements() or () if each.name == "jinja2"]
    found = examine(tmp_path, PYTHONPATH=install(tmp_path / "site", "jinja2", "1.2.3"))
    finding = found.one("package", "jinja2")
    assert (finding.ok, finding.optional, finding.found) == (False, False, "1.2.3")
    assert finding.remedy == f"pip install 'jinja2{needed.specifier}'"


def test_a_package_that_is_not_installed_is_missing(tmp_path: Path) -> None:
    """None is found, and the remedy installs it; an extra's is optional."""
    site = install(
        tmp_path / "site", "teralog", "9.9",
        core="Requires-Dist: nobody-has-this<2,>=1",
        extra='Requires-Dist: nor_this[with]>=3 ; extra == "train"',
        other="Requires-Dist: only-for-tests; extra == 'dev'",
    )  # fmt: skip
    found = examine(tmp_path, PYTHONPATH=site)
    assert found.one("package", "teralog").found == "9.9"
    assert found.one("package", "nobody-has-this") == Finding(
        "package", "nobody-has-this", False, False, None, "pip install 'nobody-has-this<2,>=1'"
    )
    assert found.one("extra train", "nor_this") == Finding(
        "extra train", "nor_this", False, True, None, "pip install 'teralog[train]'"
    )
    assert found.one("extra train", "all of it").found == "0 of 1 packages"
    assert "only-for-tests" not in {finding.name for finding in found.findings}


def test_an_extra_is_complete_with_its_last_package(tmp_path: Path) -> None:
    """One package of two is no extra; both are, and then nothing is to be typed."""
    site = install(tmp_path / "site", "accelerate", "99.0")
    install(site, "transformers", "0.1")
    half = examine(tmp_path, PYTHONPATH=site)
    assert half.one("extra hf", "accelerate").ok
    assert half.one("extra hf", "transformers").found == "0.1"
    assert half.one("extra hf", "all of it") == Finding(
        "extra hf", "all of it", False, True, "1 of 2 packages", "pip install 'teralog[hf]'"
    )
    shutil.rmtree(site / "transformers-0.1.dist-info")
    whole = examine(tmp_path, PYTHONPATH=install(site, "transformers", "99.0"))
    assert whole.one("extra hf", "all of it") == Finding(
        "extra hf", "all of it", True, True, "2 of 2 packages", None
    )


def copy_packages(folder: Path) -> Path:
    """Copy teralog's packages into `folder`."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    return folder


def test_sources_that_are_not_installed_are_told_apart_from_a_checkout(tmp_path: Path) -> None:
    """Without metadata the packages cannot be known: teralog is to be installed first."""
    copy = copy_packages(tmp_path / "a copy")
    # -S leaves out what is installed, and so teralog's own metadata.
    bare = examine(tmp_path, "-S", PYTHONPATH=copy).all("package", "teralog")
    assert [(each.ok, each.optional, each.found) for each in bare] == [(False, False, None)]
    assert bare[0].remedy == "pip install -e <teralog's folder>"
    (copy / "pyproject.toml").write_text('[project]\nname = "teralog"\n')
    checkout = examine(tmp_path, "-S", PYTHONPATH=copy).one("package", "teralog")
    assert checkout.remedy == f"pip install -e '{copy}'"


# Programs


def test_without_programs_all_is_missing_but_only_bash_is_needed(tmp_path: Path) -> None:
    """An empty PATH is no traceback; each lack says what it takes."""
    (tmp_path / "bin").mkdir()
    found = examine(tmp_path, PATH=tmp_path / "bin", CXX=None, CUDA_VISIBLE_DEVICES="")
    assert found.one("shell", "bash") == Finding(
        "shell", "bash", False, False, None, "apt install bash"
    )
    assert found.one("compiler", "C++").remedy == "apt install g++"
    slurm = [each for each in found.findings if each.topic == "Slurm"]
    assert {(each.ok, each.optional, each.found) for each in slurm} == {(False, True, None)}
    assert all("apt install slurm-client" in (each.remedy or "") for each in slurm)
    assert all("cluster: local" in (each.remedy or "") for each in slurm)
    assert not found.one("GPU", "nvidia-smi").ok
    status, _, errors = doctor(tmp_path, PATH=tmp_path / "bin")
    assert (status, errors) == (1, "")


def test_slurm_is_named_with_its_version(tmp_path: Path) -> None:
    """What --version prints is shown."""
    program(tmp_path / "bin", "sacct", 'test "$1" = --version && echo slurm 23.11.4')
    found = examine(tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert found.one("Slurm", "sacct") == Finding(
        "Slurm", "sacct", True, True, "slurm 23.11.4", None
    )


def test_slurm_without_its_configuration_is_missing_with_the_reason(tmp_path: Path) -> None:
    """A program that cannot work is told in its own words."""
    program(tmp_path / "bin", "sbatch", "echo 'sbatch: fatal: no slurm.conf' >&2; exit 1")
    found = examine(tmp_path, PATH=tmp_path / "bin").one("Slurm", "sbatch")
    assert (found.ok, found.found) == (False, None)
    assert (found.remedy or "").startswith(
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
    pytest.param("exit 9", None, "exits with 9: and said nothing", id="fails-silently"),
    pytest.param("kill -SEGV $$", None, "exits with -11", id="crashes"),
    pytest.param("true", None, "nvidia-smi names no GPU", id="names-none"),
    pytest.param(r"printf 'T\377\n'", "1 x T�", None, id="not-utf-8"),
]


@pytest.mark.parametrize(("script", "found", "reason"), NVIDIA_SMI)
def test_what_nvidia_smi_says_is_found_or_the_reason(
    tmp_path: Path, script: str, found: str | None, reason: str | None
) -> None:
    """GPUs are counted by name; a failure is told and is no traceback."""
    program(tmp_path / "bin", "nvidia-smi", script)
    finding = examine(tmp_path, PATH=tmp_path / "bin").one("GPU", "nvidia-smi")
    assert (finding.ok, finding.found) == (reason is None, found)
    assert (finding.remedy is None) if reason is None else (reason in (finding.remedy or ""))


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """It is waited for as long as the timeout says, and nothing of it is left."""
    child = tmp_path / "child"
    program(tmp_path / "bin", "nvidia-smi", f"/bin/sleep 1000 & echo $! > {child}\nwait")
    found = examine(tmp_path, timeout_seconds=1, PATH=tmp_path / "bin").one("GPU", "nvidia-smi")
    assert "nvidia-smi --query-gpu=name gave no answer within 1 s" in (found.remedy or "")
    number = int(child.read_text())
    # Whoever adopts orphans may not have collected it yet.
    assert not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE


def test_a_file_that_is_no_program_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's words are the reason."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = ask(("broken", "--version"))
    assert answer is not None
    assert answer.problem == "broken --version does not start: Exec format error"


def test_answers_come_in_the_order_of_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which program ends first changes nothing; one that is not there has no answer."""
    program(tmp_path, "slow", "/bin/sleep 0.3; echo slow")
    program(tmp_path, "fast", "echo fast")
    monkeypatch.setenv("PATH", str(tmp_path))
    slow, absent, fast = ask_all([("slow",), ("absent",), ("fast",)])
    assert absent is None
    assert [answer.lines for answer in (slow, fast) if answer] == [("slow",), ("fast",)]


def test_gpus_that_a_variable_hides_come_back_without_it(tmp_path: Path) -> None:
    """The variable is named where it is what hides them."""
    hidden = examine(tmp_path, CUDA_VISIBLE_DEVICES="").one("GPU", "visible")
    assert (hidden.ok, hidden.found) == (False, None)
    assert "unset CUDA_VISIBLE_DEVICES" in (hidden.remedy or "")
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="0,3").one("GPU", "visible").found == "0, 3"


def test_nvcc_matters_only_beside_a_gpu(tmp_path: Path) -> None:
    """Without a GPU nothing is compiled for one; CUDA_HOME is looked into as torch does."""
    assert examine(tmp_path, CUDA_VISIBLE_DEVICES="").all("compiler", "nvcc") == []
    nvcc = program(tmp_path / "cuda" / "bin", "nvcc", "true")
    bare = program(tmp_path / "bin", "sbatch", "true").parent
    found = examine(tmp_path, PATH=bare, CUDA_VISIBLE_DEVICES="0", CUDA_HOME=tmp_path / "cuda")
    assert found.one("compiler", "nvcc").found == str(nvcc)


@pytest.mark.parametrize(
    ("programs", "chosen", "ok", "found", "remedy"),
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
    found: str | None,
    remedy: str | None,
) -> None:
    """Torch calls CXX, else c++: a compiler of another name has to be chosen."""
    (tmp_path / "bin").mkdir()
    for name in programs:
        program(tmp_path / "bin", name, "true")
    finding = examine(tmp_path, PATH=tmp_path / "bin", CXX=chosen).one("compiler", "C++")
    assert (finding.ok, finding.optional) == (ok, True)
    assert finding.found == (found and str(tmp_path / "bin" / found))
    assert finding.remedy == (remedy and remedy.format(folder=tmp_path / "bin"))


def test_ninja_is_found_on_the_path_before_beside_python(tmp_path: Path) -> None:
    """A run's script looks in both."""
    ninja = program(tmp_path / "bin", "ninja", "true")
    assert examine(tmp_path, PATH=tmp_path / "bin").one("compiler", "ninja").found == str(ninja)
    (tmp_path / "none").mkdir()
    beside = examine(tmp_path, PATH=tmp_path / "none").one("compiler", "ninja")
    expected = Path(sys.executable).parent / "ninja"
    assert beside.found == (str(expected) if expected.exists() else None)


# The folder of DeepSpeed's extensions


@pytest.mark.parametrize("named", [None, ""])
def test_the_default_folder_of_extensions_is_below_home(tmp_path: Path, named: str | None) -> None:
    """It need not exist, and looking does not make it."""
    home = tmp_path / "home"
    home.mkdir()
    found = examine(tmp_path, HOME=home, TORCH_EXTENSIONS_DIR=named)
    folder = found.one("folder", "torch extensions")
    assert (folder.ok, folder.found) == (True, f"{home}/.cache/teralog/torch_extensions")
    assert list(home.iterdir()) == []


def test_a_folder_of_extensions_below_a_file_takes_nothing(tmp_path: Path) -> None:
    """The nearest thing that exists decides."""
    (tmp_path / "file").write_text("")
    found = examine(tmp_path, TORCH_EXTENSIONS_DIR=tmp_path / "file" / "a" / "b")
    folder = found.one("folder", "torch extensions")
    assert (folder.ok, folder.optional) == (False, True)
    assert "export TORCH_EXTENSIONS_DIR=" in (folder.remedy or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_extensions_that_is_read_only_takes_nothing(tmp_path: Path) -> None:
    """Existing is not enough."""
    (tmp_path / "locked").mkdir(mode=0o500)
    found = examine(tmp_path, TORCH_EXTENSIONS_DIR=tmp_path / "locked" / "cache")
    assert not found.one("folder", "torch extensions").ok


def test_without_home_the_folder_of_extensions_must_be_named(tmp_path: Path) -> None:
    """A run's script could not name it either."""
    found = examine(tmp_path, HOME=None, TORCH_EXTENSIONS_DIR=None)
    folder = found.one("folder", "torch extensions")
    assert (folder.ok, folder.found) == (False, None)


# Name clashes


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("file", ["{}/__init__.py", "{}/deep/module.py", "{}.py"])
def test_another_distribution_with_one_of_our_names_is_named(
    tmp_path: Path, package: str, file: str
) -> None:
    """Whichever comes first on the path, the one who brought it is to be removed."""
    site = install(tmp_path / "site", "impostor", "1.5", file.format(package))
    # Behind everything else, so that ours is imported all the same.
    code = f"import sys; sys.path.append({str(site)!r})\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    found = examine(tmp_path, PYTHONPATH=tmp_path).one("name clash", package)
    assert (found.ok, found.optional, found.found) == (False, False, "impostor 1.5")
    assert (found.remedy or "").startswith("pip uninstall impostor")


def test_a_distribution_that_says_its_packages_is_believed(tmp_path: Path) -> None:
    """setuptools' editable installs list no files, but name their packages."""
    site = install(tmp_path / "site", "impostor", "1.5")
    (site / "impostor-1.5.dist-info" / "top_level.txt").write_text("other\nparsers\n")
    found = examine(tmp_path, PYTHONPATH=site)
    assert found.one("name clash", "parsers").found == "impostor 1.5"
    assert found.one("name clash", "orchestrator").ok


def test_an_editable_distribution_is_looked_for_where_its_path_file_points(tmp_path: Path) -> None:
    """Its record has no packages, only the file that names their folder."""
    project = tmp_path / "project"
    (project / "parsers").mkdir(parents=True)
    (project / "parsers" / "__init__.py").write_text("")
    site = install(tmp_path / "site", "impostor", "1.5", "impostor.pth")
    (site / "impostor.pth").write_text(f"import os\n{tmp_path / 'gone'}\n{project}\n")
    origin = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (site / "impostor-1.5.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    found = examine(tmp_path, PYTHONPATH=site)
    assert found.one("name clash", "parsers").found == "impostor 1.5"
    assert found.one("name clash", "slurm_templates").ok


def test_names_that_only_look_alike_are_no_clash(tmp_path: Path) -> None:
    """Packages within packages, longer names and data files are nobody's top-level package."""
    site = install(
        tmp_path / "site", "neighbour", "1.0",
        "neighbour/parsers/__init__.py", "parsers_extra/__init__.py", "parsers.txt",
        "my_orchestrator.py",
    )  # fmt: skip
    (tmp_path / "parsers").mkdir()  # without __init__.py it gives way to ours
    found = examine(tmp_path, PYTHONPATH=site)
    assert all(each.ok for each in found.findings if each.topic == "name clash")


@pytest.mark.parametrize(
    ("file", "shown"), [("parsers/__init__.py", "parsers"), ("parsers.py", "parsers.py")]
)
def test_a_package_of_our_name_in_front_of_ours_is_named(
    tmp_path: Path, file: str, shown: str
) -> None:
    """It belongs to no distribution; its place says what it is."""
    path = tmp_path / "mine" / file
    path.parent.mkdir(parents=True)
    path.write_text("")
    found = examine(tmp_path, PYTHONPATH=tmp_path / "mine").one("name clash", "parsers")
    assert (found.ok, found.found) == (False, str(tmp_path / "mine" / shown))
    assert f"keep {tmp_path / 'mine'} off PYTHONPATH" in (found.remedy or "")


def test_a_package_in_the_working_folder_hides_ours_from_python_m(tmp_path: Path) -> None:
    """`teralog` itself would not notice, but the launcher of a run would."""
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "__init__.py").write_text("")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(EXAMINE)
    command = [sys.executable, str(script), "30"]

    def clash(**changed: str) -> dict[str, Any]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(**changed), capture_output=True, check=True
        )
        found = json.loads(done.stdout)["findings"]
        (one,) = (
            each
            for each in found
            if (each["topic"], each["name"]) == ("name clash", "orchestrator")
        )
        return dict(one)

    assert clash()["found"] == str(tmp_path / "orchestrator")
    assert not clash()["ok"]
    # Without the working folder on the path, there is nothing to hide ours.
    assert clash(PYTHONSAFEPATH="1")["ok"]


def test_a_copy_of_teralog_is_not_the_one_that_is_installed(tmp_path: Path) -> None:
    """A forgotten copy in front of the installed packages is told; a checkout is one of ours."""
    copy = copy_packages(tmp_path / "copy")
    found = examine(tmp_path, PYTHONPATH=copy)
    for package in PACKAGES:
        assert found.one("name clash", package).found == str(copy / package)
    (copy / "pyproject.toml").write_text('[project]\nname = "teralog"\n')
    checkout = examine(tmp_path, PYTHONPATH=copy)
    assert checkout.one("name clash", "parsers").found == str(copy / "parsers" / "__init__.py")
    assert checkout.one("name clash", "parsers").ok


def test_a_package_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Half an installation is a problem as well."""
    copy = copy_packages(tmp_path / "copy")
    shutil.rmtree(copy / "slurm_templates")
    found = examine(tmp_path, "-S", PYTHONPATH=copy).one("name clash", "slurm_templates")
    assert (found.ok, found.found) == (False, None)
    assert "install teralog again" in (found.remedy or "")


def test_a_working_folder_that_was_deleted_is_no_traceback(tmp_path: Path) -> None:
    """A shell may stand in a folder that is gone."""
    code = (
        f"import os; os.mkdir({str(tmp_path / 'gone')!r}); os.chdir({str(tmp_path / 'gone')!r})\n"
    )
    code += f"os.rmdir({str(tmp_path / 'gone')!r})\n{EXAMINE}"
    done = subprocess.run(
        [sys.executable, "-c", code, "30"], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


# Requirements and versions


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("click>=8.1", Requirement("click", ">=8.1", None)),
        ("submitit<1.6,>=1.5.4", Requirement("submitit", "<1.6,>=1.5.4", None)),
        ("pandas-stubs; extra == 'dev'", Requirement("pandas-stubs", "", "dev")),
        ('torch>=2.2 ; extra == "train"', Requirement("torch", ">=2.2", "train")),
        ("zope.interface", Requirement("zope.interface", "", None)),
        ("rich[jupyter] (>=13,<15)", Requirement("rich", ">=13,<15", None)),
        ("here @ file:///there/a.whl ; extra == 'hf'", Requirement("here", "", "hf")),
    ],
)
def test_a_requirement_is_a_name_a_specifier_and_an_extra(line: str, expected: Requirement) -> None:
    """Every way that metadata writes it."""
    assert parse_requirement(line) == expected


@pytest.mark.parametrize("line", ["", ">=2", "two words", "-x>=1"])
def test_what_is_no_requirement_is_refused(line: str) -> None:
    """The line is in the message."""
    with pytest.raises(ValueError, match="is no requirement"):
        parse_requirement(line)


def test_the_projects_own_requirements_are_all_read() -> None:
    """What pip wrote is what pyproject.toml says, extra by extra."""
    found = requirements()
    assert found is not None
    extras = {each.extra for each in found}
    assert {None, *diagnosis.EXTRAS} <= extras
    path = ROOT / "pyproject.toml"
    if path.exists():  # not beside an installed wheel
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for extra in extras:
            lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
            asked = {parse_requirement(line).name.lower() for line in lines}
            assert {each.name.lower() for each in found if each.extra == extra} == asked


numbers = st.integers(0, 3)
releases = st.lists(numbers, min_size=1, max_size=3).map(lambda each: ".".join(map(str, each)))
suffixes = st.tuples(
    st.sampled_from(["", "", "a1", "b2", "rc1", "rc2"]),
    st.sampled_from(["", "", ".post0", ".post1"]),
    st.sampled_from(["", "", ".dev0", ".dev2"]),
).map("".join)
epochs = st.sampled_from(["", "", "", "1!"])
public_versions = st.builds("{}{}{}".format, epochs, releases, suffixes)
versions = st.builds("{}{}".format, public_versions, st.sampled_from(["", "", "+cpu", "+cu12.4"]))
compatible = st.builds("~={}{}.{}".format, epochs, releases, numbers)
prefixes = st.builds("{}{}{}.*".format, st.sampled_from(["==", "!="]), epochs, releases)
compared = st.builds(
    "{}{}".format, st.sampled_from([">=", "<=", "<", ">", "==", "!="]), public_versions
)
clauses = st.one_of(compared, compatible, prefixes)
specifiers = st.lists(clauses, max_size=2).map(", ".join)


@given(version=versions, specifier=specifiers)
def test_a_version_is_allowed_exactly_where_packaging_allows_it(
    version: str, specifier: str
) -> None:
    """The judge is the library that pip itself uses."""
    assert satisfies(version, specifier) == SpecifierSet(specifier).contains(
        version, prereleases=True
    )


@given(text=st.text(alphabet="0123.!abrcdevpost+-", max_size=12), specifier=specifiers)
def test_no_text_is_too_strange_to_be_judged(text: str, specifier: str) -> None:
    """What is no version is not allowed, and raises nothing."""
    assert Version.parse(text) is not None or not satisfies(text, specifier)


@pytest.mark.parametrize("specifier", ["=>1", "===1", ">=1.x", "1.0", ">=", "~=1.2,huh"])
def test_a_clause_that_is_not_understood_allows_nothing(specifier: str) -> None:
    """What is unknown is not called fine."""
    assert not satisfies("1.2", specifier)


# What is shown


def test_a_table_writes_a_shared_remedy_once() -> None:
    """Rows under one another with the same remedy point up; another topic repeats it."""
    rows = [
        Finding("Slurm", "sbatch", False, True, None, "type this"),
        Finding("Slurm", "squeue", False, True, None, "type this"),
        Finding("Slurm", "sacct", True, True, "slurm 23", None),
        Finding("Slurm", "srun", False, True, None, "type this"),
        Finding("GPU", "visible", False, True, None, "type this"),
    ]
    made = diagnosis.table(rows)
    assert made.titles == ("topic", "name", "state", "found", "what to do")
    assert [row[-1] for row in made.rows] == [
        "type this",
        "as above",
        None,
        "type this",
        "type this",
    ]
    assert diagnosis.table([]).rows == ()


@pytest.mark.parametrize(
    ("ok", "optional", "found", "state"),
    [
        (True, True, "1", "ok"),
        (True, False, "1", "ok"),
        (False, True, None, "missing, optional"),
        (False, False, None, "missing"),
        (False, True, "1", "problem, optional"),
        (False, False, "1", "problem"),
    ],
)
def test_the_state_tells_a_lack_from_a_problem(
    ok: bool, optional: bool, found: str | None, state: str
) -> None:
    """And what teralog needs from what it does without."""
    finding = Finding("topic", "name", ok, optional, found, None if ok else "type this")
    assert diagnosis.table([finding]).rows[0][2] == state
    assert diagnosis.records([finding]) == [asdict(finding)]
    assert state in as_text(diagnosis.table([finding]))


def test_doctor_exits_with_one_only_over_what_is_essential(tmp_path: Path) -> None:
    """Optional lacks are told, and are no failure; both outputs name the same findings."""
    bare = program(tmp_path / "bin", "bash", "true").parent
    status, text, errors = doctor(tmp_path, PATH=bare)
    assert (status, errors) == (0, "")
    assert "missing, optional" in text
    status, printed, errors = doctor(tmp_path, "--json", PATH=bare)
    assert (status, errors) == (0, "")
    findings = [Finding(**each) for each in json.loads(printed)]
    assert as_text(diagnosis.table(findings)) == text.rstrip("\n")
    (tmp_path / "parsers.py").write_text("")
    assert doctor(tmp_path, PATH=bare)[0] == 1
