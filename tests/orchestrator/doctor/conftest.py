"""Fixtures that run doctor's checks in separate processes.

A test chooses the programs and packages that these processes find.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.doctor import findings as diagnosis
from orchestrator.doctor.findings import Finding
from orchestrator.doctor.packages import PACKAGES

_ROOT = Path(diagnosis.__file__).resolve().parents[2]

_EXAMINE = """
import json, sys
from teralog._own_packages import claim_names
claim_names()
from orchestrator.doctor import findings as diagnosis
findings = diagnosis.finding_records(diagnosis.examine(timeout_seconds=float(sys.argv[1])))
print(json.dumps({"findings": findings, "modules": sorted(sys.modules)}))
"""
_DOCTOR = "from teralog.__main__ import main; main()"


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of doctor's checks, which ran in a separate process.

    findings: the results of the checks. modules: the names of all modules that the process
    imported.
    """

    findings: tuple[Finding, ...]
    modules: frozenset[str]

    def one(self, topic: str, name: str) -> Finding:
        """Return the only finding with this topic and name."""
        (finding,) = self.all(topic, name)
        return finding

    def all(self, topic: str, name: str) -> list[Finding]:
        """Return all findings with this topic and name."""
        return [each for each in self.findings if (each.topic, each.name) == (topic, name)]


def _environment(**changed: str | Path | None) -> dict[str, str]:
    """Return a copy of this process's environment, with some variables changed.

    changed: the new values by name; None removes the variable.
    """
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {name: str(value) for name, value in changed.items() if value is not None}


def _examine(
    folder: Path,
    *options: str,
    timeout_seconds: float = 30,
    prelude: str = "",
    **changed: str | Path | None,
) -> Examination:
    """Run doctor's checks in a separate Python process; return its findings and imported modules.

    folder: the working folder of the process. options: command-line options of Python. prelude:
    Python code that runs before the checks. changed: environment variables; None removes one.
    """
    done = subprocess.run(
        [sys.executable, *options, "-c", prelude + _EXAMINE, str(timeout_seconds)],
        cwd=folder,
        env=_environment(**changed),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    findings = tuple(Finding(**each) for each in record["findings"])
    return Examination(findings, frozenset(record["modules"]))


def _doctor(folder: Path, *options: str, **changed: str | Path | None) -> tuple[int, str, str]:
    """Run `teralog doctor` in a separate process; return its exit code, stdout and stderr.

    folder: the working folder of the process. options: options of doctor. changed: environment
    variables; None removes one.
    """
    done = subprocess.run(
        [sys.executable, "-c", _DOCTOR, "doctor", *options],
        cwd=folder,
        env=_environment(**changed),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _program(folder: Path, name: str, script: str) -> Path:
    """Write an executable shell script, and return its path.

    folder: the folder of the script, which a test then adds to the PATH. script: the script's
    commands.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _install(folder: Path, name: str, version: str, *files: str, **metadata_lines: str) -> Path:
    """Write the files of an installed Python distribution into `folder`, and return `folder`.

    files: paths of the distribution's files, which are written empty. metadata_lines: further lines
    of its METADATA; the keywords are ignored. As with pip, RECORD lists all files.
    """
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


def _copy_packages(folder: Path) -> Path:
    """Copy teralog's packages into `folder`, and return `folder`."""
    for package in PACKAGES:
        # Leave out bytecode, which another process may be writing.
        ignored = shutil.ignore_patterns("*.pyc.*")
        shutil.copytree(_ROOT / package, folder / package, ignore=ignored)
    return folder


@pytest.fixture(scope="session")
def examine() -> Callable[..., Examination]:
    """Return the function that runs doctor's checks in a separate process."""
    return _examine


@pytest.fixture(scope="session")
def doctor() -> Callable[..., tuple[int, str, str]]:
    """Return the function that runs `teralog doctor`."""
    return _doctor


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """Return the function that writes an executable for the PATH."""
    return _program


@pytest.fixture(scope="session")
def install() -> Callable[..., Path]:
    """Return the function that installs a distribution into a folder."""
    return _install


@pytest.fixture(scope="session")
def copy_packages() -> Callable[..., Path]:
    """Return the function that copies teralog's packages into a folder."""
    return _copy_packages
