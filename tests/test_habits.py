"""Check the configuration of the git hooks."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / ".pre-commit-config.yaml"


def test_pre_commit_accepts_its_configuration() -> None:
    """`pre-commit validate-config` accepts .pre-commit-config.yaml."""
    command = [sys.executable, "-m", "pre_commit", "validate-config", CONFIG]
    subprocess.run(command, check=True, timeout=60)


def test_hooks_run_tools_of_the_environment() -> None:
    """Each git hook runs a tool that is installed in .venv.

    So only pyproject.toml sets the version of each tool.
    """
    repositories = yaml.safe_load(CONFIG.read_text())["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    beside_python = Path(sys.executable).parent
    for hook in repositories[0]["hooks"]:
        folder, name = Path(hook["entry"].split()[0]).parent, Path(hook["entry"].split()[0]).name
        assert folder == Path(".venv/bin"), hook["id"]
        assert (beside_python / name).is_file(), hook["id"]
