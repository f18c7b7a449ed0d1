"""Find teralog's version, also if it is not installed."""

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from orchestrator.common import version as module
from orchestrator.common.errors import UserError
from orchestrator.common.version import version

DECLARED = tomllib.loads((module.CHECKOUT / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Make each call of `version` look again, in this test and after it."""
    version.cache_clear()
    yield
    version.cache_clear()


@pytest.fixture
def _not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python find no installed teralog."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert version() == metadata.version("teralog")


@pytest.mark.usefixtures("_not_installed")
def test_a_checkout_that_is_not_installed_has_the_version_that_it_declares() -> None:
    assert version() == DECLARED


@pytest.mark.parametrize("text", [None, "", "[project]", "[project"])
@pytest.mark.usefixtures("_not_installed")
def test_copied_packages_without_a_version_are_a_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """If packages were copied without a version, the error is a sentence, not a traceback."""
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    with pytest.raises(UserError, match="is not installed; install it with pip"):
        version()
