"""`teralog doctor` on packages that are installed, too old, or missing for an extra."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.doctor.findings import Finding
from orchestrator.doctor.packages import needed_packages


def test_a_package_of_too_old_a_version_counts_as_missing(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """If a package is too old, doctor shows its version and how to install the required version."""
    (needed,) = [each for each in needed_packages() or () if each.name == "jinja2"]
    findings = examine(tmp_path, PYTHONPATH=install(tmp_path / "site", "jinja2", "1.2.3"))
    finding = findings.one("package", "jinja2")
    assert (finding.ok, finding.optional, finding.found) == (False, False, "1.2.3")
    assert finding.remedy == f"pip install 'jinja2{needed.requirement.specifier}'"


def test_a_package_that_is_not_installed_is_missing(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """The remedy installs the missing package; a package of an extra is optional."""
    site = install(
        tmp_path / "site", "teralog", "9.9",
        train="Provides-Extra: train",
        dev="Provides-Extra: dev",
        core="Requires-Dist: nobody-has-this<2,>=1",
        extra='Requires-Dist: nor_this[with]>=3 ; extra == "train"',
        other="Requires-Dist: only-for-tests; extra == 'dev'",
    )  # fmt: skip
    findings = examine(tmp_path, PYTHONPATH=site)
    assert findings.one("package", "teralog").found == "9.9"
    assert findings.one("package", "nobody-has-this") == Finding(
        "package", "nobody-has-this", False, False, None, "pip install 'nobody-has-this<2,>=1'"
    )
    assert findings.one("extra train", "nor_this") == Finding(
        "extra train", "nor_this", False, True, None, "pip install 'teralog[train]'"
    )
    assert findings.one("extra train", "all packages").found == "0 of 1 packages"
    assert "only-for-tests" not in {finding.name for finding in findings.findings}


def test_an_extra_is_complete_with_its_last_package(
    tmp_path: Path, examine: Callable[..., Any], install: Callable[..., Path]
) -> None:
    """An extra is incomplete if one of its two packages is too old or missing.

    If both packages are new enough, doctor shows no command to install the extra.
    """
    site = install(tmp_path / "site", "accelerate", "99.0")
    install(site, "transformers", "0.1")
    half = examine(tmp_path, PYTHONPATH=site)
    assert half.one("extra hf", "accelerate").ok
    assert half.one("extra hf", "transformers").found == "0.1"
    assert half.one("extra hf", "all packages") == Finding(
        "extra hf", "all packages", False, True, "1 of 2 packages", "pip install 'teralog[hf]'"
    )
    shutil.rmtree(site / "transformers-0.1.dist-info")
    whole = examine(tmp_path, PYTHONPATH=install(site, "transformers", "99.0"))
    assert whole.one("extra hf", "all packages") == Finding(
        "extra hf", "all packages", True, True, "2 of 2 packages", None
    )


def test_sources_that_are_not_installed_are_distinguished_from_a_checkout(
    tmp_path: Path, examine: Callable[..., Any], copy_packages: Callable[..., Path]
) -> None:
    """If teralog is not installed, doctor asks to install it, because its metadata is missing.

    For a checkout, the command contains the path of the checkout.
    """
    copy = copy_packages(tmp_path / "a copy")
    # -S leaves out installed packages, and with them teralog's own metadata.
    bare = examine(tmp_path, "-S", PYTHONPATH=copy).all("package", "teralog")
    assert [(each.ok, each.optional, each.found) for each in bare] == [(False, False, None)]
    assert bare[0].remedy == "pip install -e <teralog's folder>"
    (copy / "pyproject.toml").write_text('[project]\nname = "teralog"\n')
    checkout = examine(tmp_path, "-S", PYTHONPATH=copy).one("package", "teralog")
    assert checkout.remedy == f"pip install -e '{copy}'"
