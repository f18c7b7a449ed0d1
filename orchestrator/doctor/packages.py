"""Find installed packages, and packages whose names clash with teralog's own.

Versions are read only from metadata: nothing is imported. A clash is another distribution that
overwrites teralog's files, or anything else that Python imports as `teralog`.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata, util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "teralog"


@dataclass(frozen=True, slots=True)
class Needed:
    """A package that teralog requires.

    extra: the optional feature of teralog that requires the package, as in `pip install
        teralog[EXTRA]`; None if teralog always requires it.
    """

    requirement: "Requirement"
    extra: str | None

    @property
    def name(self) -> str:
        """The package's name."""
        return self.requirement.name

    @property
    def installed(self) -> str | None:
        """The installed version; None if the package is not installed."""
        return installed_version(self.name)

    @property
    def satisfied(self) -> bool:
        """Whether the installed version meets the requirement."""
        version = self.installed
        specifier = self.requirement.specifier
        return version is not None and specifier.contains(version, prereleases=True)


def needed_packages() -> tuple[Needed, ...] | None:
    """Return the packages that teralog requires on this machine.

    Returns None if teralog is not installed.
    """
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    # If teralog is not installed, this may be missing too, and doctor must still report that.
    from packaging.requirements import Requirement

    extras: list[str] = distribution.metadata.get_all("Provides-Extra") or []
    return tuple(
        needed
        for line in distribution.requires or ()
        if (needed := _asked_for(Requirement(line), extras)) is not None
    )


def _asked_for(requirement: "Requirement", extras: list[str]) -> Needed | None:
    """Return the package of a requirement; None if teralog does not require it on this machine.

    For example, teralog may require a package only with some versions of Python.
    requirement: a package and its accepted versions, from teralog's metadata.
    extras: the names of all extras of teralog, as in `pip install teralog[EXTRA]`. The result
        contains the first extra that requires the package, or None if teralog always requires it.
    """
    marker = requirement.marker
    for extra in (None, *extras):
        if marker is None or marker.evaluate({"extra": extra or ""}):
            return Needed(requirement, extra)
    return None


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(name) or None
    except metadata.PackageNotFoundError:
        return None


PACKAGES = (DISTRIBUTION, "orchestrator", "parsers", "slurm_templates")

# As pip writes it: {"dir_info": {"editable": true}, "url": "file:///home/user/project"}
_EDITABLE = re.compile(r'"editable"\s*:\s*true')
_FOLDER = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Clash:
    """A problem with one of teralog's packages: something replaces it, or it is missing.

    found: what replaces the package: a file, or a distribution with its version. None if the
        package is missing from teralog's installation.
    remedy: what the user can type or change.
    """

    found: str | None
    remedy: str


def clashes(package: str, others: Iterable[str]) -> Iterator[Clash]:
    """Yield a clash for each file or distribution that replaces one of teralog's packages.

    Also yields a clash if the package is missing from teralog's installation.
    package: the name of the package.
    others: the other distributions that install a package of this name, each as `name version`.
    """
    for other in others:
        name = other.split(" ", maxsplit=1)[0]
        yield Clash(other, f"pip uninstall {name}, or keep teralog in an environment of its own")
    if not own_file(package).is_file():
        yield Clash(None, f"{package} is missing from this installation; install teralog again")
    if package != DISTRIBUTION:
        # teralog imports this package from its own folder, even if others have the same name.
        return
    origins = (_origin(util.find_spec(package)), file_for_python_m(package))
    for origin in dict.fromkeys(origin for origin in origins if origin is not None):
        if not _is_ours(origin):
            what, root = _what_and_root(origin)
            yield Clash(
                str(what),
                f"rename {what.name}, or work in another folder and remove {root} from PYTHONPATH",
            )


def own_file(package: str) -> Path:
    """Return the path of the `__init__.py` of one of teralog's packages, in this installation."""
    return _FOLDER / package / "__init__.py"


def file_for_python_m(package: str) -> Path | None:
    """Return the file that `python -m` would import for a package; None if it would find none.

    Python looks in the current folder first. Launchers such as torch.distributed.run start the
    training program of a run with `python -m`.
    """
    first = [] if sys.flags.safe_path else [""]
    return _origin(PathFinder.find_spec(package, [*first, *sys.path]))


def others_that_ship() -> dict[str, tuple[str, ...]]:
    """Return for each of teralog's packages the other distributions that clash with it.

    A distribution clashes with `teralog` if it installs a package called `teralog`. It clashes with
    another package, e.g. `parsers`, if it installs a package of that name into the folder that
    contains teralog. Each distribution is given as `name version`. Reads the metadata of all
    installed distributions.
    """
    shipped = metadata.packages_distributions()
    beside = {each.metadata["Name"] for each in metadata.distributions(path=[str(_FOLDER)])}
    named = {package: beside.intersection(shipped.get(package, ())) for package in PACKAGES}
    named[DISTRIBUTION].update(shipped.get(DISTRIBUTION, ()))
    for distribution in metadata.distributions():
        _, *editable = import_folders(distribution)
        if any(holds(folder, DISTRIBUTION) for folder in editable):
            named[DISTRIBUTION].add(distribution.metadata["Name"])
    return {package: tuple(_with_versions(names)) for package, names in named.items()}


def _with_versions(names: Iterable[str | None]) -> Iterator[str]:
    others = {name for name in names if name and name.lower() != DISTRIBUTION}
    return (f"{name} {installed_version(name) or ''}".strip() for name in sorted(others))


def import_folders(distribution: metadata.Distribution) -> Iterator[Path]:
    """Yield the folders from which the packages of a distribution are imported.

    The first is the folder in which the distribution is installed. For an editable install, the
    folders that its .pth files list come next.
    """
    site = Path(str(distribution.locate_file("")))
    yield site
    if not _EDITABLE.search(distribution.read_text("direct_url.json") or ""):
        return
    for line in (distribution.read_text("RECORD") or "").splitlines():
        path_file = site / line.split(",", maxsplit=1)[0]
        if path_file.suffix == ".pth":
            try:
                text = path_file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            yield from (site / name for name in text.splitlines() if name)


def holds(folder: Path, package: str) -> bool:
    """Return whether `folder` contains a package or module called `package`.

    A subfolder of this name must contain `__init__.py`. Without this file, Python prefers a package
    of the same name in any other folder on the path.
    """
    return _origin(PathFinder.find_spec(package, [str(folder)])) is not None


def is_checkout(folder: Path) -> bool:
    """Return whether a folder is a checkout of teralog's sources."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(project.get("project", {}).get("name") == DISTRIBUTION)


def _origin(spec: ModuleSpec | None) -> Path | None:
    return Path(spec.origin).resolve() if spec and spec.origin else None


def _what_and_root(origin: Path) -> tuple[Path, Path]:
    what = origin.parent if origin.stem == "__init__" else origin
    return what, what.parent


def _is_ours(origin: Path) -> bool:
    _, root = _what_and_root(origin)
    return root in _own_roots() or is_checkout(root)


def _own_roots() -> tuple[Path, ...]:
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return (_FOLDER,)
    return tuple(folder.resolve() for folder in import_folders(distribution))
