"""Find the user's files and folders in a run's options, and report missing ones."""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.common.paths import absolute, unset_in
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run


def user_paths(run: Run, folder: Path) -> dict[str, str]:
    """Return the absolute path of each file or folder that a run's options name, by option.

    folder: the folder of the campaign file, to which paths are relative. `~` and environment
    variables are replaced by the values that they have in this process.
    """
    return {name: absolute(path, folder) for name, path in _given(run)}


def unset_variables(run: Run) -> Iterator[str]:
    """Yield a sentence for each unset environment variable in the paths of a run's options."""
    for name, path in _given(run):
        yield from unset_in(name, path)


def missing_files(run: Run, folder: Path) -> Iterator[str]:
    """Yield a sentence for each missing file that a run would open."""
    for path in FRAMEWORKS[run.framework].start.files(user_paths(run, folder)):
        if not Path(path).exists():
            yield f"{path}: does not exist"


def _given(run: Run) -> Iterator[tuple[str, str]]:
    framework = FRAMEWORKS[run.framework]
    for name in (*framework.start.paths, *framework.start.paths_or_names):
        path = getattr(run.options, name)
        if path is not None and (
            name in framework.start.paths or path.startswith((".", "/", "~", "$"))
        ):
            yield name, path
