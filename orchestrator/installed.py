"""What is installed in this environment, read from metadata alone: nothing is imported."""

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "teralog"


@dataclass(frozen=True, slots=True)
class Needed:
    """A package that teralog asks for, always or (`extra`) with one of its extras."""

    requirement: "Requirement"
    extra: str | None

    @property
    def name(self) -> str:
        """The package's name."""
        return self.requirement.name

    @property
    def installed(self) -> str | None:
        """The version that is installed; None where none is."""
        return installed_version(self.name)

    @property
    def satisfied(self) -> bool:
        """Whether the version that is installed is one that is asked for."""
        version = self.installed
        specifier = self.requirement.specifier
        return version is not None and specifier.contains(version, prereleases=True)


def needed_packages() -> tuple[Needed, ...] | None:
    """Return what teralog asks for here; None where teralog itself is not installed."""
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    # Where teralog is not installed this is not either, and that much is to be said.
    from packaging.requirements import Requirement

    extras: list[str] = distribution.metadata.get_all("Provides-Extra") or []
    return tuple(
        needed
        for line in distribution.requires or ()
        if (needed := _asked_for(Requirement(line), extras)) is not None
    )


def _asked_for(requirement: "Requirement", extras: list[str]) -> Needed | None:
    """Return a package with the first extra that asks for it; None where none does here."""
    marker = requirement.marker
    for extra in (None, *extras):
        if marker is None or marker.evaluate({"extra": extra or ""}):
            return Needed(requirement, extra)
    return None


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; None where it is not installed."""
    try:
        return metadata.version(name) or None
    except metadata.PackageNotFoundError:
        return None
