"""The files and folders of the user's that a run's options name."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.frameworks import FRAMEWORKS
from orchestrator.model import Run

_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)


def user_paths(run: Run, folder: Path) -> dict[str, str]:
    """Return the paths that a run's options give, by option, absolute; `folder` is the campaign's.

    `~` and variables of the environment are those of whoever renders.
    """
    return {
        # Unlike Path.expanduser it leaves the home of somebody unknown as it is.
        name: str((folder / os.path.expanduser(os.path.expandvars(path))).absolute())  # noqa: PTH111
        for name, path in _given(run)
    }


def unset_variables(run: Run) -> Iterator[str]:
    """Yield a sentence for each path with a variable in it that the environment does not have."""
    for name, path in _given(run):
        yield from unset_in(name, path)


def unset_in(name: str, path: str | None) -> Iterator[str]:
    """Yield a sentence for each variable in a path that the environment does not have."""
    for variable in _VARIABLE.findall(os.path.expandvars(path or "")):
        yield f"{name}: {variable} of {path} is not set here"


def missing_files(run: Run, folder: Path) -> Iterator[str]:
    """Yield a sentence for each file that a run would open and that is not there."""
    for path in FRAMEWORKS[run.framework].files(user_paths(run, folder)):
        if not Path(path).exists():
            yield f"{path}: is not there"


def _given(run: Run) -> Iterator[tuple[str, str]]:
    framework = FRAMEWORKS[run.framework]
    for name in (*framework.paths, *framework.paths_or_names):
        path = getattr(run.options, name)
        if path is not None and (name in framework.paths or path.startswith((".", "/", "~", "$"))):
            yield name, path
