"""Who may import whom, and what is shipped: the house rules, kept by the syntax tree."""

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("orchestrator", "parsers", "slurm_templates")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# Which modules alone may import a library, in a module or in a function.
ALONE = {
    "submitit": {"orchestrator/local.py", "orchestrator/slurm.py"},
    "click": {f"orchestrator/cli/{path.name}" for path in (ROOT / "orchestrator/cli").glob("*.py")},
    "jinja2": {"orchestrator/scripts.py"},
    "torch": {
        f"orchestrator/workloads/{name}.py"
        for name in ("gpt", "gpt_model", "hf_gpt", "rank_process", "reporting")
    },
    "deepspeed": {"orchestrator/workloads/gpt.py"},
    "numpy": {f"orchestrator/{name}.py" for name in ("changes", "noise", "permutation_intervals")},
    "pandas": {"orchestrator/frames.py", "parsers/frames.py"},
    "plotly": {"orchestrator/html.py"},
    "yaml": {"orchestrator/yaml_files.py"},
}
ONLY_STANDARD_LIBRARY = tuple(
    f"orchestrator/{name}.py"
    for name in (
        "calibration",
        "choices",
        "errors",
        "flops",
        "formulas",
        "gpus",
        "html_report/groups",
        "html_report/series",
        "identity",
        "memory",
        "memory_activations",
        "memory_states",
        "model",
        "placement",
        "shape",
        "size_labels",
        "student",
    )
)


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def relative(path: Path) -> str:
    """Return a file's name from the root."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("library", ALONE)
def test_a_library_is_imported_only_where_its_seam_is(library: str) -> None:
    """What could be exchanged is touched in one place."""
    users = {
        relative(path)
        for path in FILES
        if any(name.split(".")[0] == library for name in imports(path))
    }
    assert users <= ALONE[library]


def test_parsers_import_nothing_of_ours_but_parsers() -> None:
    """They are usable alone, on any log."""
    for path in (ROOT / "parsers").rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & {
            "orchestrator",
            "slurm_templates",
        }


@pytest.mark.parametrize("name", ONLY_STANDARD_LIBRARY)
def test_values_and_formulas_need_only_the_standard_library(name: str) -> None:
    """A formula can be read, and used, without anything else."""
    foreign = {
        root
        for imported in imports(ROOT / name)
        if (root := imported.split(".")[0]) not in sys.stdlib_module_names
    }
    assert foreign <= {"orchestrator"}


def test_nobody_imports_the_command_line() -> None:
    """It is a skin; what it calls does not know it."""
    for path in FILES:
        if path.parent.name != "cli":
            assert "orchestrator.cli" not in set(imports(path))


def test_the_workloads_stand_alone() -> None:
    """The folder of training programs can be copied to another machine, and run there."""
    for path in (ROOT / "orchestrator" / "workloads").glob("*.py"):
        ours = {name for name in imports(path) if name.split(".")[0] == "orchestrator"}
        assert all(name.startswith("orchestrator.workloads") for name in ours)


@pytest.mark.parametrize("package", ["orchestrator", "slurm_templates"])
def test_a_package_s_init_holds_a_docstring_only(package: str) -> None:
    """The names of the packages are generic: importing one must do nothing."""
    body = ast.parse((ROOT / package / "__init__.py").read_text()).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)


def test_parsers_read_is_loaded_when_it_is_asked_for() -> None:
    """`import parsers` alone does nothing, either."""
    code = """if True:
        import sys, parsers
        assert not any(name.startswith("parsers.") for name in sys.modules)
        assert parsers.read.__module__ == "parsers.reading"
        assert not hasattr(parsers, "write")
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_help_loads_nothing_heavy() -> None:
    """`teralog --help` is instant because what a command needs is imported in the command."""
    heavy = {
        "pandas",
        "numpy",
        "pydantic",
        "submitit",
        "jinja2",
        "yaml",
        "rich",
        "torch",
        "psutil",
        "plotly",
    }
    code = "import sys, orchestrator.cli; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not heavy & set(done.stdout.split())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, really built."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True, timeout=300)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_ships_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Names as plain as these must not bring anything along."""
    roots = {name.split("/")[0] for name in wheel.namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_ships_every_source_template_and_record(wheel: zipfile.ZipFile) -> None:
    """What works in a checkout works installed."""
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(tracked) <= set(wheel.namelist())
