"""`teralog doctor` finds anything that hides or overwrites one of teralog's packages.

A distribution is what pip installs: it has a name, a version and files.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.doctor import findings
from orchestrator.doctor.packages import PACKAGES

ROOT = Path(findings.__file__).resolve().parents[2]


def test_another_distribution_that_ships_teralog_is_named(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """If another distribution contains a `teralog` package, the remedy is to uninstall it.

    This holds even if our `teralog` comes first on Python's path.
    """
    for number, file in enumerate(("teralog/__init__.py", "teralog/deep/module.py", "teralog.py")):
        site = install(tmp_path / f"site{number}", "impostor", "1.5", file)
        # Last on the path, so that our package is still imported.
        code = f"import sys; sys.path.append({str(site)!r})\n"
        (tmp_path / "sitecustomize.py").write_text(code)
        finding = examine(tmp_path, PYTHONPATH=tmp_path).one("name clash", "teralog")
        assert (finding.ok, finding.optional, finding.found) == (False, False, "impostor 1.5")
        assert (finding.remedy or "").startswith("pip uninstall impostor")


def test_a_distribution_that_overwrites_our_files_is_named(
    tmp_path: Path,
    examine: Callable[..., Any],
    install: Callable[..., Path],
    copy_packages: Callable[..., Path],
) -> None:
    """A distribution that installs files into teralog's folder is named."""
    site = copy_packages(tmp_path / "site")
    install(site, "impostor", "1.5", "parsers/more.py")
    examination = examine(tmp_path, PYTHONPATH=site)
    assert examination.one("name clash", "parsers").found == "impostor 1.5"
    assert examination.one("name clash", "orchestrator").ok


def test_packages_that_a_distribution_lists_are_believed(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """A distribution clashes if its metadata lists a `teralog` package, even if it lists no files.

    Editable installs by setuptools list no files of the package.
    """
    site = install(tmp_path / "site", "impostor", "1.5")
    (site / "impostor-1.5.dist-info" / "top_level.txt").write_text("other\nteralog\n")
    examination = examine(tmp_path, PYTHONPATH=site)
    assert examination.one("name clash", "teralog").found == "impostor 1.5"
    assert examination.one("name clash", "orchestrator").ok


def test_an_editable_distribution_is_looked_for_where_its_path_file_points(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """The packages of an editable install are found in the folder that its .pth file names."""
    project = tmp_path / "project"
    (project / "teralog").mkdir(parents=True)
    (project / "teralog" / "__init__.py").write_text("")
    site = install(tmp_path / "site", "impostor", "1.5", "impostor.pth")
    (site / "impostor.pth").write_text(f"import os\n{tmp_path / 'gone'}\n{project}\n")
    origin = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (site / "impostor-1.5.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    examination = examine(tmp_path, PYTHONPATH=site)
    assert examination.one("name clash", "teralog").found == "impostor 1.5"
    assert examination.one("name clash", "slurm_templates").ok


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_a_package_of_our_name_off_the_path_does_not_clash(
    tmp_path: Path, package: str, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """A foreign package called `orchestrator`, `parsers` or `slurm_templates` does not clash.

    Teralog imports these packages from its own folder, whatever comes first on Python's path.
    """
    site = install(tmp_path / "site", "impostor", "1.5", f"{package}/__init__.py")
    finding = examine(site, PYTHONPATH=site).one("name clash", package)
    assert (finding.ok, finding.found) == (True, str(ROOT / package / "__init__.py"))


def test_names_that_only_look_alike_do_not_clash(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """A nested package, a package with a longer name, or a data file does not clash with ours.

    E.g. the package neighbour.teralog, the package teralog_extra, or the file teralog.txt.
    """
    site = install(
        tmp_path / "site", "neighbour", "1.0",
        "neighbour/teralog/__init__.py", "teralog_extra/__init__.py", "teralog.txt",
        "my_teralog.py",
    )  # fmt: skip
    (tmp_path / "teralog").mkdir()  # without __init__.py our package takes precedence
    examination = examine(tmp_path, PYTHONPATH=site)
    assert all(each.ok for each in examination.findings if each.topic == "name clash")


@pytest.mark.parametrize(
    ("file", "shown"), [("teralog/__init__.py", "teralog"), ("teralog.py", "teralog.py")]
)
def test_another_teralog_in_front_of_ours_is_named(
    tmp_path: Path, file: str, shown: str, examine: Callable[..., Any]
) -> None:
    """If a foreign `teralog` comes before ours on Python's path, doctor shows where it is.

    Doctor shows a path, because no distribution contains the foreign `teralog`.
    """
    path = tmp_path / "mine" / file
    path.parent.mkdir(parents=True)
    path.write_text("")
    # A run's launcher would find this package, although the examining process did not.
    prelude = f"import sys, teralog; sys.path.insert(0, {str(tmp_path / 'mine')!r})\n"
    finding = examine(tmp_path, prelude=prelude).one("name clash", "teralog")
    assert (finding.ok, finding.found) == (False, str(tmp_path / "mine" / shown))
    assert f"remove {tmp_path / 'mine'} from PYTHONPATH" in (finding.remedy or "")


def test_another_teralog_in_the_working_folder_hides_ours_from_python_m(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    """Doctor reports a foreign `teralog` package in the working folder.

    `python -m`, which starts a run, would import it. The command `teralog` would not.
    """
    (tmp_path / "teralog").mkdir()
    (tmp_path / "teralog" / "__init__.py").write_text("")
    # As for an installed script, the working folder is not on the path of this process.
    prelude = "import sys; sys.path = [folder for folder in sys.path if folder]\n"
    finding = examine(tmp_path, prelude=prelude).one("name clash", "teralog")
    assert (finding.ok, finding.found) == (False, str(tmp_path / "teralog"))
    safe = examine(tmp_path, prelude=prelude, PYTHONSAFEPATH="1")
    assert safe.one("name clash", "teralog").ok


def test_a_copy_of_teralog_is_not_the_one_that_is_installed(
    tmp_path: Path, examine: Callable[..., Any], copy_packages: Callable[..., Path]
) -> None:
    """Doctor reports a copy of teralog that comes before the installed one on Python's path.

    A copy with a pyproject.toml is a checkout, and is not reported.
    """
    copy = copy_packages(tmp_path / "copy")
    examination = examine(tmp_path, PYTHONPATH=copy)
    assert examination.one("name clash", "teralog").found == str(copy / "teralog")
    (copy / "pyproject.toml").write_text('[project]\nname = "teralog"\n')
    checkout = examine(tmp_path, PYTHONPATH=copy)
    assert checkout.one("name clash", "teralog").found == str(copy / "teralog" / "__init__.py")
    assert checkout.one("name clash", "teralog").ok


def test_a_package_of_ours_that_is_missing_is_reported(
    tmp_path: Path, examine: Callable[..., Any], copy_packages: Callable[..., Path]
) -> None:
    """If one of teralog's packages is missing, doctor asks to install teralog again."""
    copy = copy_packages(tmp_path / "copy")
    shutil.rmtree(copy / "slurm_templates")
    finding = examine(tmp_path, "-S", PYTHONPATH=copy).one("name clash", "slurm_templates")
    assert (finding.ok, finding.found) == (False, None)
    assert "install teralog again" in (finding.remedy or "")


def test_a_deleted_working_folder_gives_no_traceback(
    tmp_path: Path, examine: Callable[..., Any]
) -> None:
    """If the shell's current folder was deleted, doctor shows no traceback."""
    gone = tmp_path / "gone"
    gone.mkdir()
    examination = examine(gone, prelude="import os; os.rmdir(os.getcwd())\n")
    assert all(each.ok for each in examination.findings if each.topic == "name clash")
