"""docs/adding-a-framework.md is true to the letter: whoever follows it has a framework."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "adding-a-framework.md"
TABLE = "orchestrator/frameworks/table.py"
NEEDED = ("orchestrator", "parsers", "slurm_templates", "tools", "tests", "pyproject.toml")


def blocks() -> dict[str, str]:
    """Return what the document says that files hold, by path."""
    text = DOCUMENT.read_text(encoding="utf-8")
    pattern = r"^\*\*`(?P<path>[^`]+)`\*\*.*?^```\w+\n(?P<body>.*?)^```$"
    found = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return {match["path"]: match["body"] for match in found}


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project in which the document was followed."""
    folder = tmp_path_factory.mktemp("project")
    for name in NEEDED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    files = blocks()
    imported, entry = files.pop(TABLE).splitlines(keepends=True)
    table = folder / TABLE
    text = table.read_text(encoding="utf-8")
    text = text.replace("\nFRAMEWORKS:", f"{imported}\nFRAMEWORKS:", 1)
    table.write_text(
        text.replace("    for framework in (\n", f"    for framework in (\n{entry}", 1)
    )
    for path, body in files.items():
        assert not (folder / path).exists()
        (folder / path).write_text(body, encoding="utf-8")
    done = run(folder, "tools/record_scripts.py")
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a copy of the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_document_names_a_module_a_line_a_template_and_two_samples():
    assert list(blocks()) == [
        "orchestrator/frameworks/toy.py",
        TABLE,
        "slurm_templates/toy.sh.j2",
        "tests/scripts/toy-v100.yaml",
        "tests/data/logs/toy.log",
    ]


def test_a_framework_that_was_added_so_keeps_the_contract(followed: Path):
    tests = (
        "tests/orchestrator/frameworks/test_frameworks.py",
        "tests/orchestrator/submit/test_scripts.py",
    )
    done = run(
        followed, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, "-k", "toy"
    )
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= 10


def test_a_framework_that_was_added_so_is_planned_and_rendered(followed: Path, tmp_path: Path):
    campaign = str(followed / "tests" / "scripts" / "toy-v100.yaml")
    main = ("-c", "from orchestrator.cli.main import main; main()")
    planned = run(followed, *main, "plan", campaign)
    assert planned.returncode == 0, planned.stderr
    assert "4 runs on v100" in planned.stdout
    rendered = run(followed, *main, "render", campaign, "--results", str(tmp_path))
    assert rendered.returncode == 0, rendered.stderr
    assert len(list(tmp_path.glob("toy-v100/*/job.sh"))) == 4


def test_the_modules_that_were_added_so_are_well_typed_and_styled(followed: Path):
    module = "orchestrator/frameworks/toy.py"
    assert run(followed, "-m", "ruff", "check", module).returncode == 0
    assert run(followed, "-m", "ruff", "format", "--check", module).returncode == 0
    typed = run(followed, "-m", "mypy", module)
    assert typed.returncode == 0, typed.stdout
