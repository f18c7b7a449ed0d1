"""Follow docs/adding-a-framework.md exactly: the framework that it adds passes all tests."""

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
BIN = Path(sys.executable).parent
# Tests of every framework, and tests that compare documents and packages with the code.
CONTRACTS = (
    "tests/orchestrator/frameworks/test_frameworks.py",
    "tests/orchestrator/frameworks/test_known_options.py",
    "tests/orchestrator/submit/test_scripts.py",
    "tests/orchestrator/campaign/test_parameters.py",
    "tests/orchestrator/campaign/test_schema.py",
    "tests/orchestrator/memory/test_fit.py::test_every_framework_that_places_a_run_gives_a_forecast",
    "tests/test_architecture.py",
    "tests/test_architecture_document.py",
    "tests/test_docs.py",
)

pytestmark = pytest.mark.timeout(600)


def blocks() -> dict[str, str]:
    """Return the contents of the files that docs/adding-a-framework.md shows, by path."""
    text = DOCUMENT.read_text(encoding="utf-8")
    pattern = r"^\*\*`(?P<path>[^`]+)`\*\*.*?^```\w+\n(?P<body>.*?)^```$"
    matches = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return {match["path"]: match["body"] for match in matches}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output."""
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout, with the framework of docs/adding-a-framework.md added."""
    folder = tmp_path_factory.mktemp("project")
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    files = blocks()
    line, entry = files.pop(TABLE).splitlines(keepends=True)
    table = folder / TABLE
    text = table.read_text(encoding="utf-8")
    text = text.replace("\nFRAMEWORKS:", f"{line}\nFRAMEWORKS:", 1)
    table.write_text(
        text.replace("    for framework in (\n", f"    for framework in (\n{entry}", 1)
    )
    for path, body in files.items():
        assert not (folder / path).exists()
        (folder / path).write_text(body, encoding="utf-8")
    for tool in ("record_scripts.py", "record_reference.py"):
        done = run(folder, sys.executable, f"tools/{tool}")
        assert done.returncode == 0, done.stderr
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    return folder


def run(folder: Path, *command: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a command in a copy of the project, with the copy's modules."""
    return subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_document_has_five_files() -> None:
    """The page shows five files: a module, the table of frameworks, a template and two samples."""
    assert list(blocks()) == [
        "orchestrator/frameworks/toy.py",
        TABLE,
        "slurm_templates/toy.sh.j2",
        "tests/scripts/toy-v100.yaml",
        "tests/data/logs/toy.log",
    ]


def test_added_framework_passes_all_contracts(project: Path) -> None:
    """With the added framework, the tests in CONTRACTS pass; at least ten of them are about it."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not train and not slurm")
    done = run(project, sys.executable, "-m", "pytest", *options, *CONTRACTS)
    assert done.returncode == 0, done.stdout
    only_toy = (*options, "-k", "toy", "--collect-only", *CONTRACTS)
    collected = run(project, sys.executable, "-m", "pytest", *only_toy)
    assert len(re.findall(r"\btoy\b", collected.stdout)) >= 10, collected.stdout


def test_added_framework_is_planned_and_rendered(project: Path, tmp_path: Path) -> None:
    """The added framework's campaign is planned with two launchers, on one node and on sixteen."""
    campaign = str(project / "tests" / "scripts" / "toy-v100.yaml")
    main = (sys.executable, "-c", "from orchestrator.cli.main import main; main()")
    planned = run(project, *main, "plan", campaign)
    assert planned.returncode == 0, planned.stderr
    assert "4 runs on v100" in planned.stdout
    rendered = run(project, *main, "render", campaign, "--results", str(tmp_path))
    assert rendered.returncode == 0, rendered.stderr
    assert len(list(tmp_path.glob("toy-v100/*/job.sh"))) == 4


@pytest.mark.parametrize(
    "command",
    [
        "ruff check .",
        "ruff format --check .",
        "lint-imports --no-logo --no-cache",
        "mypy orchestrator/frameworks",
    ],
)
def test_added_framework_passes_the_linters(command: str, project: Path) -> None:
    """The added files pass the linters; types are checked in the changed package only."""
    name, *arguments = command.split()
    done = run(project, BIN / name, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
