"""Resolve paths that users write: relative to a file, with `~` and variables."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)


def absolute(path: str, folder: Path) -> str:
    """Return the absolute path for a path that a user wrote, which may be relative to `folder`."""
    # Unlike Path.expanduser, it leaves the home of an unknown user as it is.
    return str((folder / os.path.expanduser(os.path.expandvars(path))).absolute())  # noqa: PTH111


def unset_in(name: str, path: str | None) -> Iterator[str]:
    """Yield a sentence for each variable in a path that is not set in the environment.

    name: the option or key that contains the path; each sentence begins with this name.
    """
    for variable in _VARIABLE.findall(os.path.expandvars(path or "")):
        yield (
            f"{name}: the variable {variable} in {path} is not set here; set it, or write the "
            "whole path"
        )
