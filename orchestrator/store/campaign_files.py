"""Find campaign files in folders, without reading them in full."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.common.text import named
from orchestrator.store.results_folder import RESULTS

_NAME = re.compile(r"^name:", re.MULTILINE)
# A cluster profile has none of these keys. A campaign file with mistakes counts, too.
_RUNS = re.compile(r"^(?:defaults|matrix|include):", re.MULTILINE)
_SUFFIXES = (".yaml", ".yml")
_MOST_BYTES = 200_000


def is_campaign_file(path: Path) -> bool:
    """Return whether a file looks like a campaign file.

    That is a YAML file with the key `name`, and with `defaults`, `matrix` or `include`.
    """
    if path.suffix not in _SUFFIXES or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    return bool(_NAME.search(text) and _RUNS.search(text))


def campaign_files(folder: Path, *, depth: int = 0) -> Iterator[Path]:
    """Yield the campaign files of a folder, sorted by name, then those of its subfolders.

    Subfolders are searched up to `depth` levels down. Hidden folders and folders named `results`
    are left out.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    yield from (path for entry in entries if is_campaign_file(path := folder / entry.name))
    for subfolder in entries if depth else ():
        own = not subfolder.name.startswith(".") and subfolder.name != RESULTS
        if own and subfolder.is_dir(follow_symlinks=False):
            yield from campaign_files(folder / subfolder.name, depth=depth - 1)


def only_campaign_file() -> Path:
    """Return the campaign file in the current directory.

    Raises UserError if there is none, or more than one.
    """
    files = list(campaign_files(Path()))
    if len(files) == 1:
        return files[0]
    if not files:
        raise UserError(
            "CAMPAIGN: the current directory contains no campaign file; give a path, or write a "
            "file with `teralog init`"
        )
    names = named([str(path) for path in files], "other")
    raise UserError(
        f"CAMPAIGN: the current directory contains several campaign files ({names}); "
        "give the path of one"
    )
