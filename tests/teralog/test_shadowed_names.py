"""Check that teralog works next to other packages with the names of its own packages."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
NAMES = ("orchestrator", "parsers", "slurm_templates")
WRONG = "raise SystemExit('this is another project')\n"
CAMPAIGN = """\
name: small
cluster: here.yaml
defaults:
  model: {num_layers: 1, hidden_size: 8, num_attention_heads: 1, vocab_size: 32, seq_length: 8}
  gpus_per_node: 2
  train_iters: 3
warmup: 1
"""
REPORTS = "".join(
    f" iteration {number}/ 3 | consumed samples: {number} |"
    " elapsed time per iteration (ms): 400.0 |"
    " learning rate: 1.0E-04 | global batch size: 1 | lm loss: 9.0E+00 | loss scale: 1.0 |"
    " number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    for number in (1, 2, 3)
)


def _packages(folder: Path) -> None:
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(WRONG)


def _modules(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.py").write_text(WRONG)


def _empty_packages(folder: Path) -> None:
    _packages(folder)
    for name in NAMES:
        (folder / name / "__init__.py").write_text("")


@pytest.fixture(params=[_packages, _modules, _empty_packages])
def others(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder of another project with packages of the same names as teralog's."""
    folder = tmp_path / "others"
    folder.mkdir()
    make: Callable[[Path], None] = request.param
    make(folder)
    return folder


def run(
    folder: Path, *command: str | Path, path: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder, with another folder on PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": "" if path is None else str(path)}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_way_to_start_the_command_gets_its_own_packages(others: Path) -> None:
    """Started as `teralog` or as `python -m teralog`, teralog imports its own packages.

    Packages of the same names are in the current folder, and in some cases first on the path.
    """
    (others / "a.log").write_text(REPORTS)
    script, module = [BIN / "teralog"], [sys.executable, "-m", "teralog"]
    for command, path in ((script, others), (module, others), (module, None)):
        parsed = run(others, *command, "parse", "a.log", "--json", path=path)
        assert parsed.returncode == 0, parsed.stderr
        assert json.loads(parsed.stdout)[0]["steps"] == 3
        doctor = run(others, *command, "doctor", "--json", path=path)
        clashes = [
            finding for finding in json.loads(doctor.stdout) if finding["topic"] == "name clash"
        ]
        assert [finding["ok"] for finding in clashes] == [True] * 4


def test_python_m_names_itself_in_its_help() -> None:
    """The help of `python -m teralog` shows a command that the user can type again."""
    shown = run(ROOT, sys.executable, "-m", "teralog", "plan", "--help")
    assert shown.stdout.startswith("Usage: python -m teralog plan ")


def test_supervisors_of_runs_get_their_own_packages(others: Path) -> None:
    """A run completes even if its folder contains other packages with the same names as teralog's.

    The folder is also on PYTHONPATH. The run's supervisor must still import teralog's packages.
    """
    (others / "here.yaml").write_text("scheduler: local\ngpus_per_node: 0\npython: ./program\n")
    (others / "program").write_text(f"#!/bin/bash\ncat << 'END'\n{REPORTS}END\n")
    (others / "program").chmod(0o755)
    (others / "c.yaml").write_text(CAMPAIGN + "include: [{framework: megatron, source: /nowhere}]")
    submitted = run(others, BIN / "teralog", "submit", "c.yaml", path=others)
    assert submitted.returncode == 0, submitted.stderr
    assert "1 run: 1 completed" in submitted.stderr


@pytest.mark.train
@pytest.mark.parametrize(
    ("run_of", "options"),
    [
        ("framework: gpt, launcher: torchrun", []),
        ("framework: hf_deepspeed, launcher: deepspeed", ["--rehearse"]),
    ],
)
def test_ranks_get_their_own_packages(tmp_path: Path, run_of: str, options: list[str]) -> None:
    """Ranks of trainings and rehearsals import teralog's packages, not others of the same names."""
    _packages(tmp_path)
    (tmp_path / "here.yaml").write_text("scheduler: local\ngpus_per_node: 0\n")
    (tmp_path / "c.yaml").write_text(CAMPAIGN + f"include: [{{{run_of}}}]")
    submitted = run(tmp_path, BIN / "teralog", "submit", "c.yaml", *options, path=tmp_path)
    output = "\n".join(path.read_text() for path in tmp_path.glob("results/**/output.log"))
    assert submitted.returncode == 0, submitted.stderr + output
