"""Check what packages contain, what importing them costs, and the files of the wheel.

import-linter checks who may import whom: the contracts are in pyproject.toml.
"""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("orchestrator", "parsers", "slurm_templates", "teralog")
FOLDERS = sorted(path.parent for name in PACKAGES for path in (ROOT / name).rglob("__init__.py"))
MOST_MODULES = 15


def relative(path: Path) -> str:
    """Return the path of a file, relative to the root of the repository."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "folder",
    [path for path in FOLDERS if path not in (ROOT / "parsers", ROOT / "teralog")],
    ids=relative,
)
def test_init_holds_one_sentence_and_no_code(folder: Path) -> None:
    """Each `__init__.py` contains no code, only one sentence with the purpose of the package."""
    (docstring,) = ast.parse((folder / "__init__.py").read_text()).body
    assert isinstance(docstring, ast.Expr)
    sentence = ast.literal_eval(docstring.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_package_is_small_enough_to_look_through(folder: Path) -> None:
    """A package has at most fifteen modules, so a reader finds a module by its name."""
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES


def test_every_folder_of_code_is_a_package() -> None:
    """Every folder with code has an `__init__.py`, so that the rules apply to it."""
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert folders == set(FOLDERS)


def test_parsers_read_is_loaded_when_it_is_asked_for() -> None:
    """`import parsers` loads no module of the package; `parsers.read` loads the module it needs."""
    code = """if True:
        import sys, parsers
        assert not any(name.startswith("parsers.") for name in sys.modules)
        assert parsers.read.__module__ == "parsers.runs.reading"
        assert all(callable(getattr(parsers, name)) for name in parsers.__all__)
        assert not hasattr(parsers, "write")
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_help_loads_nothing_heavy() -> None:
    """`teralog --help` imports no slow modules, because each command imports its own modules."""
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
    code = "import sys, teralog.__main__; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not heavy & set(done.stdout.split())


def modules_loaded(*command: str | Path, folder: Path) -> set[str]:
    """Return the modules of our packages that a teralog command imports."""
    code = """if True:
        import atexit, sys
        atexit.register(lambda: print("loaded:", *sys.modules, file=sys.stderr))
        from teralog.__main__ import main
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=folder, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    loaded = done.stderr.rpartition("loaded:")[2].split()
    return {name for name in loaded if name.partition(".")[0] in PACKAGES}


def test_plan_without_results_loads_no_log_formats_and_no_descriptions(tmp_path: Path) -> None:
    """`teralog plan` without results does not import the log formats: they have many patterns.

    It does not import `orchestrator.model` either: for most models, the parameters are computed
    from the model's sizes alone.
    """
    campaign = ROOT / "examples/colossalai-gpt-sweep.yaml"
    loaded = modules_loaded("plan", campaign, folder=tmp_path)
    assert "orchestrator.campaign.plan" in loaded
    assert not loaded & {"parsers.formats.table", "orchestrator.collect.collected"}
    assert not any(name.startswith("orchestrator.model") for name in loaded)


def test_help_loads_no_model(tmp_path: Path) -> None:
    """`teralog --help` does not import `orchestrator.model`, which counts a model's parameters."""
    loaded = modules_loaded("--help", folder=tmp_path)
    assert not any(name.startswith("orchestrator.model") for name in loaded)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel, and return it opened as a zip file."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True, timeout=300)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_ships_the_four_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """The wheel contains only the four packages.

    A folder with a common name such as `tests` must not get into the user's site-packages.
    """
    roots = {name.split("/")[0] for name in wheel.namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_ships_every_source_template_and_record(wheel: zipfile.ZipFile) -> None:
    """The wheel has all files of the four packages that git tracks: sources, templates and data."""
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(tracked) <= set(wheel.namelist())


def test_the_wheel_finds_its_own_packages(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """An installed teralog imports its own `parsers`, even if PYTHONPATH has another one first."""
    wheel.extractall(tmp_path / "site")
    (tmp_path / "parsers").mkdir()
    (tmp_path / "parsers" / "__init__.py").write_text("")
    code = "import teralog.__main__, parsers.runs as ours; print(ours.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'site'}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(tmp_path / "site" / "parsers" / "runs" / "__init__.py")
