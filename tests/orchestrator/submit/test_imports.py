"""If the Python of a run lacks modules that the run needs, the run is not started.

The message has the command that installs the modules.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.submit.imports import module_extras, needed_modules
from orchestrator.workloads.rehearsal import install_line

ROOT = Path(__file__).resolve().parents[3]
# Packages of the extras, by the names of their folders in site-packages.
EXTRA = ("torch", "deepspeed", "transformers", "accelerate")
CAMPAIGN = """\
name: play
cluster: here.yaml
defaults:
  model: {num_layers: 1, hidden_size: 8, num_attention_heads: 1, vocab_size: 32, seq_length: 8}
  train_iters: 3
warmup: 1
"""
HERE = "scheduler: local\ngpus_per_node: 0\n"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a Python that has the packages of the tests, but not those of the extras.

    The extras are the optional groups of teralog's dependencies.
    """
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    (folder / "packages").mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.lower().startswith(EXTRA):
            (folder / "packages" / path.name).symlink_to(path)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "core.pth").write_text(f"{folder / 'packages'}\n{ROOT}\n")
    return folder / "bin" / "python"


def teralog(python: Path | str, folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run teralog in a folder with this Python."""
    return subprocess.run(
        [python, "-m", "teralog", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def write(folder: Path, profile: str, runs: str) -> None:
    """Write a campaign file with one entry of `include`, and its cluster profile.

    profile: more lines of the profile. runs: the keys of the entry, as in YAML.
    """
    (folder / "here.yaml").write_text(HERE + profile)
    (folder / "campaign.yaml").write_text(f"{CAMPAIGN}include:\n  - {{{runs}}}\n")


@pytest.mark.parametrize(
    ("run", "lacking", "line"),
    [
        ("framework: gpt, strategy: ddp", "torch", "pip install 'teralog[train]'"),
        ("framework: gpt, strategy: zero1", "torch, deepspeed", "pip install 'teralog[train]'"),
        (
            "framework: hf_deepspeed",
            "torch, deepspeed, transformers, accelerate",
            "pip install 'teralog[train,hf]'",
        ),
        (
            "framework: megatron, source: /nowhere",
            "torch",
            "pip install 'teralog[train]'",
        ),
    ],
)
def test_a_core_install_plans_but_starts_nothing(
    core: Path, tmp_path: Path, run: str, lacking: str, line: str
) -> None:
    """Without the extras, `plan` prints the command that installs them, and exits with 0.

    `submit` and rehearsals start no run.
    """
    write(tmp_path, "", run)
    sentence = f"imports {lacking}, which {core} lacks; type: {line}\n"
    planned = teralog(core, tmp_path, "plan", "campaign.yaml")
    assert planned.returncode == 0, planned.stderr
    assert f"cannot start yet: campaign.yaml: framework {run.split()[1].strip(',')} {sentence}" in (
        planned.stderr
    )
    for more in ([], ["--rehearse"]):
        refused = teralog(core, tmp_path, "submit", "campaign.yaml", *more)
        assert refused.returncode == 1
        assert refused.stderr.endswith(f"{sentence}teralog: nothing was started\n")
    assert not list(tmp_path.glob("results/**/attempt-*"))


def test_a_core_install_reads_logs(core: Path, tmp_path: Path) -> None:
    """`parse` works without teralog's extras."""
    recorded = ROOT / "docs" / "recorded" / "zero-stages"
    parsed = teralog(core, tmp_path, "parse", str(recorded), "--json")
    assert parsed.returncode == 0, parsed.stderr
    assert all(run["steps"] for run in json.loads(parsed.stdout))


def test_the_python_of_a_profile_is_asked(core: Path, tmp_path: Path) -> None:
    """The modules are looked up in the cluster profile's Python, not in teralog's own.

    The message about a missing module names that Python.
    """
    write(tmp_path, f"python: {core}\n", "framework: gpt")
    refused = teralog(sys.executable, tmp_path, "submit", "campaign.yaml")
    assert refused.returncode == 1
    assert f", which {core} lacks; type: {core} -m pip install 'teralog[train]'\n" in refused.stderr


@pytest.mark.parametrize("python", ["./no-answer", "./slow-to-fail", "./not-there"])
def test_no_module_is_reported_if_the_python_does_not_answer(tmp_path: Path, python: str) -> None:
    """If the profile's Python does not answer which modules it has, no module is reported missing.

    E.g. this Python may be a wrapper script, or may not exist on this machine.
    """
    for name, body in (("no-answer", "echo hello"), ("slow-to-fail", "exit 3")):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    write(tmp_path, f"python: {python}\n", "framework: gpt")
    submitted = teralog(sys.executable, tmp_path, "submit", "campaign.yaml")
    assert "not in" not in submitted.stderr
    assert "1 run: 1 " in submitted.stderr


def test_a_rehearsal_finds_missing_modules_of_the_job_s_environment(
    core: Path, tmp_path: Path
) -> None:
    """A rehearsal reports modules that the job's environment lacks, and then starts no launcher.

    Only the job has that environment: the set-up lines of the cluster profile make it.
    """
    write(tmp_path, f"python: {core}\nsetup: ['true']\n", "framework: gpt")
    assert teralog(sys.executable, tmp_path, "plan", "campaign.yaml").stderr.count("cannot") == 0
    done = teralog(sys.executable, tmp_path, "submit", "campaign.yaml", "--rehearse")
    assert done.returncode == 1
    assert "1 rehearsed run: 1 failed" in done.stderr
    (log,) = (path.read_text() for path in tmp_path.glob("results/**/output.log"))
    assert "\nModuleNotFoundError: No module named 'torch'\n[rehearsal] " in log
    assert log.endswith(f"nothing was started; type: {core} -m pip install 'teralog[train]'\n")


@pytest.mark.parametrize(
    ("values", "modules"),
    [
        ({"framework": "gpt"}, ["torch", "teralog"]),
        ({"framework": "gpt", "strategy": "zero2"}, ["torch", "teralog", "deepspeed"]),
        (
            {"framework": "gpt", "strategy": "ddp", "launcher": "deepspeed"},
            ["deepspeed", "teralog", "torch"],
        ),
        ({"framework": "deepspeed", "script": "x.py", "launcher": "srun"}, ["torch", "deepspeed"]),
        ({"framework": "oneflow_gpt", "source": "x", "dataset": "y"}, []),
    ],
)
def test_launcher_and_program_need_modules(
    run_of: Any, values: Mapping[str, Any], modules: list[str]
) -> None:
    """A run needs the modules of its launcher and of its program, each listed once."""
    assert needed_modules(run_of(**values)) == modules


@pytest.mark.parametrize(
    ("modules", "python", "line"),
    [
        (["torch"], None, "pip install 'teralog[train]'"),
        (["torch", "accelerate"], None, "pip install 'teralog[train,hf]'"),
        (["teralog"], "/a b/python", "'/a b/python' -m pip install teralog"),
        (["teralog", "torch"], "/python", "/python -m pip install 'teralog[train]'"),
        (["torch", "apex"], None, "pip install 'teralog[train]' apex"),
        (["apex"], None, "pip install apex"),
    ],
)
def test_the_line_to_type_names_extras(modules: list[str], python: str | None, line: str) -> None:
    """The install command has the extras of the missing modules.

    For a module that belongs to no extra, it has the module's own name.
    """
    assert install_line(modules, module_extras(), python) == line
