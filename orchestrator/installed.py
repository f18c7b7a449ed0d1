"""What is installed in this environment, read from metadata alone: nothing is imported."""

import re
from dataclasses import dataclass
from importlib import metadata

DISTRIBUTION = "teralog"

# As metadata has them: submitit<1.6,>=1.5.4 and torch>=2.2; extra == 'train'
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?"
    r"\s*\(?(?P<specifier>(?:[<>=!~][^;@()]*?)?)\)?\s*(?:@[^;]*)?(?:;(?P<marker>.*))?"
)
_EXTRA = re.compile(r"""\bextra\s*==\s*["'](?P<extra>[^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a distribution asks for: `extra` is None where it always does."""

    name: str
    specifier: str
    extra: str | None


def requirements() -> tuple[Requirement, ...] | None:
    """Return what teralog asks for; None where teralog itself is not installed."""
    try:
        lines = metadata.requires(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    return tuple(parse_requirement(line) for line in lines or ())


def parse_requirement(line: str) -> Requirement:
    """Read one `Requires-Dist`, of whose marker only `extra == "..."` is understood.

    Raises ValueError where the line is no requirement.
    """
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is no requirement")
    extra = _EXTRA.search(match["marker"] or "")
    return Requirement(match["name"], match["specifier"].strip(), extra["extra"] if extra else None)


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution; None where it is not installed."""
    try:
        return metadata.version(name) or None
    except metadata.PackageNotFoundError:
        return None
