"""Check that the maps in the docs agree with the files of the repository."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES_PAGE = (ROOT / "docs" / "architecture.md").read_text()
CHANGES_PAGE = (ROOT / "docs" / "where-to-change.md").read_text()
PACKAGES = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for name in ("orchestrator", "parsers", "slurm_templates", "teralog")
    for path in (ROOT / name).rglob("__init__.py")
    if path.parent != ROOT / "orchestrator"
)
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    # Readers write the files of this section themselves.
    if path.name != "adding-a-framework.md"
)
FEWEST_ROWS = 20

_FOLDERS = "orchestrator|parsers|slurm_templates|teralog|tools|tests|docs|examples"
_PATH = re.compile(rf"(?<![\w/.])(?:{_FOLDERS})/(?:[\w.-]+/)*[\w.-]*\w")
_MODULE = re.compile(
    r"(?<![\w/.])(?:orchestrator|parsers|teralog(?!\.schema\.json))(?:\.[a-z_]\w*)+"
)


def section(title: str, page: str) -> list[list[str]]:
    """Return the rows of the table in a section of a page, without the header.

    Each row is a list of cells. title: the title of the section. page: the text of the page.
    """
    (text,) = re.findall(rf"^##? {title}\n(.*?)(?=^##? |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def is_module_or_name_in_one(dotted: str) -> bool:
    """Return whether a dotted name is a package, a module, or a name in the code of one of them."""
    *parents, name = dotted.split(".")
    path = ROOT.joinpath(*parents)
    if (path / name).is_dir() or (path / f"{name}.py").is_file():
        return True
    code = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return code.is_file() and re.search(rf"\b{name}\b", code.read_text()) is not None


def test_every_package_is_on_the_map() -> None:
    """The table "Packages" of docs/architecture.md has one row per package, and no other rows."""
    assert sorted(row[0].strip("`") for row in section("Packages", PACKAGES_PAGE)) == PACKAGES


@pytest.mark.parametrize("root", ["orchestrator", "parsers"])
def test_packages_are_in_the_order_of_the_layers(root: str) -> None:
    """docs/architecture.md lists packages in the order of pyproject.toml's layers, top first."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in pyproject["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [root]
    )
    layer = {name: number for number, names in enumerate(layers) for name in names.split(" | ")}
    packages = [row[0].strip("`").split("/") for row in section("Packages", PACKAGES_PAGE)]
    places = [layer[names[1]] for names in packages if names[0] == root and len(names) > 1]
    assert places == sorted(places)


def test_every_row_names_a_place_that_exists() -> None:
    """In the table "To change X, open Y", every Y is an existing file or folder."""
    rows = [
        row for row in section("To change X, open Y", CHANGES_PAGE) if not row[0].startswith("**")
    ]
    assert len(rows) >= FEWEST_ROWS
    for change, places in rows:
        named = re.findall(r"`([\w./-]+[/.][\w./-]+|parsers|slurm_templates)`", places)
        assert named, change
        assert [place for place in named if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_only_files_and_modules_that_exist(page: Path) -> None:
    """Each file and module that a page names exists; it was not renamed or removed."""
    text = page.read_text()
    paths = {match[0] for match in _PATH.finditer(text)}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    modules = {match[0] for match in _MODULE.finditer(text)}
    assert {module for module in modules if not is_module_or_name_in_one(module)} == set()
