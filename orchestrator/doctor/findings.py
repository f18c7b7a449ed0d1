"""Examine this machine: what teralog needs, what is missing, what to type."""

import os
import platform
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.common.ask import TIMEOUT_SECONDS, Answer, ask_all
from orchestrator.common.tables import Column, Table, make_table
from orchestrator.common.text import counted, named
from orchestrator.doctor.packages import (
    DISTRIBUTION,
    Needed,
    clashes,
    installed_version,
    is_checkout,
    needed_packages,
    others_that_ship,
    own_file,
)
from orchestrator.hardware.machine import cores, visible_gpus

MINIMUM_PYTHON = (3, 11)
EXTRAS = ("train", "hf")
SLURM_COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "srun", "salloc", "sinfo")
_WHOLE_EXTRA = "all packages"
COMPILERS = ("c++", "g++", "clang++")
ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
# For example 9.0 or 9.0+PTX.
_ARCHITECTURE = re.compile(r"\d+\.\d+(?:\+PTX$)?")
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of this machine.

    topic, name: what was checked, e.g. `Slurm` and `sbatch`.
    optional: whether teralog works without the checked thing.
    found: what the check found, e.g. a version or a path; None if the checked thing is missing.
    remedy: what the user can type or change; None if the result is `ok`.
    """

    topic: str
    name: str
    ok: bool
    optional: bool
    found: str | None
    remedy: str | None


def _state(finding: Finding) -> str:
    if finding.ok:
        return "ok"
    lack = "missing" if finding.found is None else "problem"
    return f"{lack}, optional" if finding.optional else lack


COLUMNS: tuple[Column[Finding], ...] = (
    Column("topic", "topic", lambda finding: finding.topic),
    Column("name", "name", lambda finding: finding.name),
    Column("state", "state", _state),
    Column("found", "found", lambda finding: finding.found),
    Column("what to do", "remedy", lambda finding: finding.remedy),
)


def finding_table(findings: Sequence[Finding]) -> Table:
    """Return the findings as a table, one row per finding.

    If two rows in succession have the same topic and remedy, the second row shows `as above`.
    """
    shown = [
        replace(finding, remedy="as above")
        if finding.remedy and (finding.topic, finding.remedy) == (before.topic, before.remedy)
        else finding
        for before, finding in pairwise(findings)
    ]
    return make_table(COLUMNS, [*findings[:1], *shown])


def _names_of(group: Sequence[Finding]) -> str:
    names = [finding.name for finding in group if finding.name != _WHOLE_EXTRA] or [group[0].name]
    return f"{group[0].topic}: {named(names, 'other')}"


_PROBLEM_COLUMNS: tuple[Column[list[Finding]], ...] = (
    Column("what", "topic", _names_of),
    Column("state", "state", lambda group: _state(group[0])),
    Column("what to do", "remedy", lambda group: group[0].remedy),
)


def problem_table(findings: Sequence[Finding]) -> Table:
    """Return a table of what is missing or wrong, with required items before optional ones.

    Findings of a topic share a row if their remedies are equal, or differ only in the findings'
    names. For example, several missing programs of Slurm share a row.
    """
    groups: dict[tuple[str, bool, str], list[Finding]] = {}
    for finding in findings:
        if not finding.ok:
            # The programs of Slurm fail with the same message, in which each has its own name.
            same = (finding.remedy or "").replace(finding.name, "")
            groups.setdefault((finding.topic, finding.optional, same), []).append(finding)
    rows = sorted(groups.values(), key=lambda group: group[0].optional)
    return make_table(_PROBLEM_COLUMNS, rows)


def findings_summary(findings: Sequence[Finding]) -> str:
    """Return one line with the number of checks, and how many of them had each result."""
    states = Counter(_state(finding) for finding in findings)
    counts = ", ".join(f"{count} {state.replace(', ', ' but ')}" for state, count in states.items())
    return f"{counted(len(findings), 'check')}: {counts}"


def finding_records(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings as JSON objects."""
    return [asdict(finding) for finding in findings]


def examine(timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[Finding, ...]:
    """Check everything that teralog may need on this machine, and return the findings.

    timeout_seconds: how long to wait for the answers of Slurm's commands and of nvidia-smi.
    """
    *slurm, nvidia_smi = ask_all(
        [*((command, "--version") for command in SLURM_COMMANDS), NVIDIA_SMI], timeout_seconds
    )
    return (
        _python(),
        *_packages(),
        *_names(),
        _program("shell", "bash", shutil.which("bash"), "apt install bash", optional=False),
        *(_slurm(*each) for each in zip(SLURM_COMMANDS, slurm, strict=True)),
        Finding("CPU", "cores", ok=True, optional=True, found=str(cores()), remedy=None),
        *_gpus(nvidia_smi),
        *_compilers(with_gpu=bool(visible_gpus())),
        _extension_folder(),
    )


def _program(topic: str, name: str, value: str | None, remedy: str, optional: bool) -> Finding:
    return Finding(topic, name, value is not None, optional, value, None if value else remedy)


def _python() -> Finding:
    ok = sys.version_info >= MINIMUM_PYTHON
    needed = ".".join(str(part) for part in MINIMUM_PYTHON)
    version = platform.python_version()
    remedy = None if ok else f"make an environment with Python {needed} or newer"
    return Finding("Python", "version", ok, optional=False, found=version, remedy=remedy)


def _packages() -> Iterator[Finding]:
    needed = needed_packages()
    if needed is None:
        folder = Path(__file__).resolve().parents[2]
        where = shlex.quote(str(folder)) if is_checkout(folder) else "<teralog's folder>"
        yield Finding("package", DISTRIBUTION, False, False, None, f"pip install -e {where}")
        return
    yield Finding("package", DISTRIBUTION, True, False, installed_version(DISTRIBUTION), None)
    for package in needed:
        if package.extra is None:
            remedy = f"pip install {shlex.quote(str(package.requirement))}"
            yield _package("package", package, remedy, optional=False)
    for extra in EXTRAS:
        yield from _extra(extra, [each for each in needed if each.extra == extra])


def _extra(extra: str, needed: Sequence[Needed]) -> Iterator[Finding]:
    topic, remedy = f"extra {extra}", f"pip install '{DISTRIBUTION}[{extra}]'"
    each = [_package(topic, package, remedy, optional=True) for package in needed]
    ready = sum(finding.ok for finding in each)
    complete = ready == len(each)
    count = f"{ready} of {len(each)} packages"
    yield Finding(topic, _WHOLE_EXTRA, complete, True, count, None if complete else remedy)
    yield from each


def _package(topic: str, package: Needed, remedy: str, optional: bool) -> Finding:
    ok = package.satisfied
    return Finding(topic, package.name, ok, optional, package.installed, None if ok else remedy)


def _slurm(command: str, answer: Answer | None) -> Finding:
    if answer is None:
        remedy = "apt install slurm-client, or use `cluster: local` to run on this machine"
        return Finding("Slurm", command, False, True, None, remedy)
    if answer.problem:
        remedy = f"{answer.problem}; check slurm.conf, or use `cluster: local`"
        return Finding("Slurm", command, False, True, None, remedy)
    version = next(iter(answer.lines), shutil.which(command))
    return Finding("Slurm", command, True, True, version, None)


def _gpus(nvidia_smi: Answer | None) -> Iterator[Finding]:
    gpus = visible_gpus()
    remedy = "no GPU is needed: without one, runs on this machine train on its cores"
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None:
        remedy = "CUDA_VISIBLE_DEVICES hides all GPUs; type: unset CUDA_VISIBLE_DEVICES"
    yield _program("GPU", "visible", ", ".join(gpus) or None, remedy, optional=True)
    if nvidia_smi is None:
        remedy = "install the NVIDIA driver, if this machine has a GPU"
        yield Finding("GPU", "nvidia-smi", False, True, None, remedy)
        return
    names = Counter(nvidia_smi.lines)
    problem = nvidia_smi.problem or (None if names else "nvidia-smi lists no GPU")
    if problem:
        remedy = f"{problem}; check that the driver is loaded"
        yield Finding("GPU", "nvidia-smi", False, True, None, remedy)
    else:
        gpu_names = ", ".join(f"{count} x {name}" for name, count in names.items())
        yield Finding("GPU", "nvidia-smi", True, True, gpu_names, None)


def _compilers(with_gpu: bool) -> Iterator[Finding]:
    yield _cpp_compiler()
    # A run's script puts Python's own folder in front of PATH.
    beside = Path(sys.executable).parent
    ninja = shutil.which("ninja", path=beside) or shutil.which("ninja")
    yield _program("compiler", "ninja", ninja, "pip install ninja", optional=True)
    if with_gpu:
        homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
        folders = [str(Path(home, "bin")) for home in homes if home]
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(folders))
        remedy = (
            "install the CUDA toolkit in the version that torch uses, or export CUDA_HOME=<its "
            "folder>"
        )
        yield _program("compiler", "nvcc", nvcc, remedy, optional=True)
        yield from _architectures()


def _architectures() -> Iterator[Finding]:
    """Yield a finding on the GPU architectures for which DeepSpeed compiles, if they are set.

    torch accepts e.g. `9.0a` in the variable, but DeepSpeed 0.19 stops with a ValueError.
    """
    given = os.environ.get(ARCHITECTURES, "").replace(";", " ").split()
    if not given:
        return
    plain = [match[0] for each in given if (match := _ARCHITECTURE.match(each))]
    ok = plain == given
    chosen = ";".join(dict.fromkeys(plain))
    remedy = f"export {ARCHITECTURES}={shlex.quote(chosen)}" if plain else f"unset {ARCHITECTURES}"
    reason = "DeepSpeed cannot read this value; type: "
    found = ";".join(given)
    yield Finding("compiler", ARCHITECTURES, ok, True, found, None if ok else reason + remedy)


def _cpp_compiler() -> Finding:
    # torch uses the compiler in the variable CXX, otherwise c++. It tries no other name.
    chosen = os.environ.get("CXX", "").split() or ["c++"]
    compiler = shutil.which(chosen[0])
    other = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    remedy = None
    if compiler is None:
        remedy = f"export CXX={shlex.quote(other)}" if other else "apt install g++"
    return Finding("compiler", "C++", remedy is None, True, compiler or other, remedy)


def _extension_folder() -> Finding:
    named, home = os.environ.get("TORCH_EXTENSIONS_DIR"), os.environ.get("HOME")
    remedy: str | None = "export TORCH_EXTENSIONS_DIR=<a writable folder>"
    if not named and not home:
        return Finding("folder", "torch extensions", False, True, None, remedy)
    folder = Path(named or f"{home}/.cache/teralog/torch_extensions")
    # Path.exists may raise PermissionError if a parent folder is closed to us; os.access does not.
    parent = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
    ok = parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
    return Finding("folder", "torch extensions", ok, True, str(folder), None if ok else remedy)


def _names() -> Iterator[Finding]:
    """Yield a finding for each file or distribution that replaces one of teralog's packages.

    Also yields a finding for each package that is missing from teralog's installation. For a
    package without a problem, yields an `ok` finding with the path of its `__init__.py`.
    """
    for package, others in others_that_ship().items():
        findings = [
            Finding("name clash", package, False, False, clash.found, clash.remedy)
            for clash in clashes(package, others)
        ]
        yield from findings or [
            Finding("name clash", package, True, False, str(own_file(package)), None)
        ]
