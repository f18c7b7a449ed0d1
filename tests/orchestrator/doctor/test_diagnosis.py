"""The checks of `teralog doctor`, which of them are essential, and how results are shown."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from orchestrator.common.tables import as_text
from orchestrator.doctor import findings as diagnosis
from orchestrator.doctor.findings import Finding
from orchestrator.doctor.packages import needed_packages


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, examine: Callable[..., Any]) -> Any:
    """Return doctor's findings on this machine, without any change of its environment."""
    return examine(tmp_path_factory.mktemp("empty"))


def test_doctor_examines_every_topic(here: Any) -> None:
    """Doctor has a finding for each of its topics, e.g. Slurm or a compiler.

    A finding is there even if the program or package is not installed.
    """
    assert {"Python", "package", "extra train", "extra hf", "name clash", "shell", "Slurm"} <= {
        finding.topic for finding in here.findings
    }
    assert {"CPU", "GPU", "compiler", "folder"} <= {finding.topic for finding in here.findings}
    assert [each.name for each in here.findings if each.topic == "Slurm"] == [
        "sbatch", "squeue", "sacct", "scontrol", "scancel", "srun", "salloc", "sinfo",
    ]  # fmt: skip


def test_only_problems_have_a_remedy(here: Any) -> None:
    """A finding has a remedy exactly if it is not ok."""
    assert all(finding.ok is (finding.remedy is None) for finding in here.findings)


def test_only_python_the_core_the_shell_and_the_names_are_essential(here: Any) -> None:
    """Only Python, the core packages, the shell, and the absence of name clashes are essential.

    A machine without GPU, Slurm, compiler and extras can still plan, render and report.
    """
    essential = {finding.topic for finding in here.findings if not finding.optional}
    assert essential == {"Python", "package", "name clash", "shell"}


def test_nothing_heavy_is_imported(here: Any) -> None:
    """Doctor imports no large package, e.g. torch, so it answers at once.

    It reads the versions from the packages' metadata.
    """
    heavy = {"torch", "deepspeed", "transformers", "accelerate", "pandas", "numpy", "submitit"}
    assert not heavy & here.modules


def test_each_core_package_is_named_with_its_version(here: Any) -> None:
    """Doctor has a finding, with the version, for each package that teralog always requires.

    These packages are in the project's metadata.
    """
    core = [each.name for each in needed_packages() or () if each.extra is None]
    assert len(core) > 5
    for name in core:
        finding = here.one("package", name)
        assert (finding.ok, finding.found) == (True, metadata.version(name))


def test_the_least_python_is_that_of_the_metadata() -> None:
    """The minimum Python version in doctor is the one that pip enforces."""
    least = ".".join(str(part) for part in diagnosis.MINIMUM_PYTHON)
    assert metadata.metadata("teralog")["Requires-Python"] == f">={least}"


def test_every_extra_that_doctor_names_is_one_of_the_metadata() -> None:
    """A remedy never asks for an extra that does not exist."""
    extras = metadata.metadata("teralog").get_all("Provides-Extra") or []
    assert set(diagnosis.EXTRAS) <= set(extras)


def test_the_metadata_has_only_markers_of_extras() -> None:
    """Each requirement in the project's metadata has no marker, or one such as `extra == "train"`.

    Doctor cannot evaluate other markers, e.g. of a Python version.
    """
    lines = metadata.requires("teralog") or []
    markers = [line.partition(";")[2].strip() for line in lines if ";" in line]
    assert markers
    assert [each for each in markers if not re.fullmatch(r"extra == ['\"][\w-]+['\"]", each)] == []


@pytest.mark.parametrize("named", [None, ""])
def test_the_default_folder_of_extensions_is_below_home(
    tmp_path: Path, named: str | None, examine: Callable[..., Any]
) -> None:
    """Without TORCH_EXTENSIONS_DIR, torch extensions are compiled into a folder below HOME.

    Doctor does not create this folder.
    """
    home = tmp_path / "home"
    home.mkdir()
    findings = examine(tmp_path, HOME=home, TORCH_EXTENSIONS_DIR=named)
    folder = findings.one("folder", "torch extensions")
    assert (folder.ok, folder.found) == (True, f"{home}/.cache/teralog/torch_extensions")
    assert list(home.iterdir()) == []


def test_a_folder_of_extensions_below_a_file_cannot_be_used(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    """If a parent of TORCH_EXTENSIONS_DIR is a file, doctor asks to set another folder."""
    (tmp_path / "file").write_text("")
    findings = examine(tmp_path, TORCH_EXTENSIONS_DIR=tmp_path / "file" / "a" / "b")
    folder = findings.one("folder", "torch extensions")
    assert (folder.ok, folder.optional) == (False, True)
    assert "export TORCH_EXTENSIONS_DIR=" in (folder.remedy or "")


def test_a_read_only_folder_of_extensions_cannot_be_used() -> None:
    """If the user cannot write to the folder of torch extensions, doctor reports that."""
    nobody = 65534
    code = f"import os; os.getuid() or os.setuid({nobody})\n"
    code += "print(json.dumps(diagnosis.finding_records([diagnosis._extension_folder()])))"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import json\nfrom orchestrator.doctor import findings as diagnosis\n{code}",
        ],
        env=os.environ | {"TORCH_EXTENSIONS_DIR": "/nobody-makes-this/cache"},
        capture_output=True,
        check=True,
    )
    (folder,) = json.loads(done.stdout)
    assert (folder["ok"], folder["found"]) == (False, "/nobody-makes-this/cache")


def test_without_home_the_folder_of_extensions_must_be_named(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    """Without HOME and TORCH_EXTENSIONS_DIR, there is no folder for torch extensions.

    Doctor reports that, because a run's script could not find a folder either.
    """
    findings = examine(tmp_path, HOME=None, TORCH_EXTENSIONS_DIR=None)
    folder = findings.one("folder", "torch extensions")
    assert (folder.ok, folder.found) == (False, None)


def test_a_table_writes_a_shared_remedy_once() -> None:
    """If a row has the same topic and remedy as the row above, its remedy is "as above"."""
    rows = [
        Finding("Slurm", "sbatch", False, True, None, "type this"),
        Finding("Slurm", "squeue", False, True, None, "type this"),
        Finding("Slurm", "sacct", True, True, "slurm 23", None),
        Finding("Slurm", "srun", False, True, None, "type this"),
        Finding("GPU", "visible", False, True, None, "type this"),
    ]
    made = diagnosis.finding_table(rows)
    assert made.titles == ("topic", "name", "state", "found", "what to do")
    assert [row[-1] for row in made.rows] == [
        "type this",
        "as above",
        None,
        "type this",
        "type this",
    ]
    assert diagnosis.finding_table([]).rows == ()


@pytest.mark.parametrize(
    ("ok", "optional", "version", "state"),
    [
        (True, True, "1", "ok"),
        (True, False, "1", "ok"),
        (False, True, None, "missing, optional"),
        (False, False, None, "missing"),
        (False, True, "1", "problem, optional"),
        (False, False, "1", "problem"),
    ],
)
def test_the_state_distinguishes_a_lack_from_a_problem(
    ok: bool, optional: bool, version: str | None, state: str
) -> None:
    """The state of a checked item is "ok", "missing", or "problem" if it is present but not usable.

    If runs can do without the item, "missing" and "problem" are followed by "optional".
    """
    finding = Finding("topic", "name", ok, optional, version, None if ok else "type this")
    assert diagnosis.finding_table([finding]).rows[0][2] == state
    assert diagnosis.finding_records([finding]) == [asdict(finding)]
    assert state in as_text(diagnosis.finding_table([finding]))


def test_doctor_exits_with_1_only_if_an_essential_item_is_missing(
    tmp_path: Path,
    doctor: Callable[..., tuple[int, str, str]],
    program: Callable[..., Path],
    install: Callable[..., Path],
) -> None:
    """Doctor exits with 1 only if an essential item is missing or too old.

    A missing optional package is reported, but the exit code is 0. The text and the JSON have the
    same findings.
    """
    bare = program(tmp_path / "bin", "bash", "true").parent
    status, text, errors = doctor(tmp_path, "--all", PATH=bare)
    assert (status, errors) == (0, "")
    assert "missing, optional" in text
    status, printed, errors = doctor(tmp_path, "--json", PATH=bare)
    assert (status, errors) == (0, "")
    findings = [Finding(**each) for each in json.loads(printed)]
    assert text.startswith(as_text(diagnosis.finding_table(findings)))
    too_old = install(tmp_path / "site", "jinja2", "1.2.3")
    assert doctor(tmp_path, PATH=bare, PYTHONPATH=too_old)[0] == 1


def test_doctor_shows_what_to_do_and_nothing_else(
    tmp_path: Path, doctor: Callable[..., tuple[int, str, str]], program: Callable[..., Path]
) -> None:
    """By default, doctor shows only the problems, and counts the successful checks.

    If all programs of Slurm have the same problem, they share one line.
    """
    bare = program(tmp_path / "bin", "bash", "true").parent
    for name in diagnosis.SLURM_COMMANDS:
        program(bare, name, f"echo {name}: error: no host >&2; exit 1")
    _, text, _ = doctor(tmp_path, PATH=bare)
    [line] = [line for line in text.splitlines() if line.startswith("Slurm")]
    assert "sbatch, squeue, sacct and 5 others" in line
    assert "sbatch --version exits with 1: sbatch: error: no host" in line
    assert " ok " not in text.rpartition("checks: ")[0]
    assert "`teralog doctor --all` shows them" in text.splitlines()[-1]


def test_problems_come_before_what_is_optional() -> None:
    """Essential problems come before optional ones; rows with one topic and remedy are merged."""
    lacks = [
        Finding("extra hf", "all packages", False, True, "0 of 2 packages", "pip install hf"),
        Finding("extra hf", "accelerate", False, True, None, "pip install hf"),
        Finding("extra hf", "transformers", False, True, None, "pip install hf"),
        Finding("Python", "version", False, False, "3.9", "make an environment"),
        Finding("CPU", "cores", True, True, "2", None),
    ]
    assert diagnosis.problem_table(lacks).rows == (
        ("Python: version", "problem", "make an environment"),
        ("extra hf: accelerate, transformers", "problem, optional", "pip install hf"),
    )
    assert diagnosis.findings_summary(lacks) == (
        "5 checks: 1 problem but optional, 2 missing but optional, 1 problem, 1 ok"
    )
