"""Find the results folder of a campaign file, and other folders with results of the campaign."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.store.campaign_store import CampaignStore, campaign_store

RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another folder with results of a campaign.

    runs: the ids of the campaign's runs that were started in that folder.
    """

    store: CampaignStore
    runs: tuple[str, ...]

    @property
    def results(self) -> Path:
        """The results folder that contains the campaign's folder: the value for `--results`."""
        return self.store.path.parent


def folder_of(file: Path) -> Path:
    """Return the folder of a campaign file; for a symbolic link, the folder of its target."""
    return file.resolve().parent


def results_folder(folder: Path) -> Path:
    """Return the results folder for the campaign files in `folder`.

    This is the nearest folder named `results` in `folder` or in its parents. The search ends at
    the root of the git repository that contains `folder`. Outside a repository, it ends at the
    home directory. If `folder` is in neither, only `folder` is searched. If the search finds
    nothing, the result is the path `results` in `folder`. The function does not create this
    folder.
    """
    return next(_existing(folder), folder.resolve() / RESULTS)


def elsewhere(name: str, run_ids: Iterable[str], used: Path, folder: Path) -> list[Elsewhere]:
    """Return the folders with started runs of a campaign, outside the results folder `used`.

    name: the campaign's name. run_ids: the ids of its runs. folder: the folder of its file.

    The search covers the folders named `results` in `folder`, in the current directory, and in
    the parents of both. Parents are searched up to the root of the git repository or to the
    home directory. The current directory is searched because an earlier version of teralog
    wrote its results there.
    """
    near = (*_existing(folder), *_existing(Path.cwd()))
    folders = dict.fromkeys(results for results in near if results.resolve() != used.resolve())
    stores = [campaign_store(folder, name) for folder in folders]
    ids = tuple(run_ids) if any(store.path.is_dir() for store in stores) else ()
    others = [
        Elsewhere(store, tuple(run for run in ids if store.run(run).attempts()))
        for store in stores
        if store.path.is_dir()
    ]
    return [other for other in others if other.runs]


def _existing(folder: Path) -> Iterator[Path]:
    """Yield the existing folders named `results` in a folder and its parents, nearest first."""
    for parent in _searched(folder.resolve()):
        # Unlike Path.is_dir, this is false for a folder without permission to read.
        if os.path.isdir(parent / RESULTS):  # noqa: PTH112
            yield parent / RESULTS


def _searched(folder: Path) -> list[Path]:
    """Return a folder and its parents, up to the root of the git repository that contains it.

    Outside a repository, the list ends at the home directory. If the folder is in neither, the
    list contains only the folder.
    """
    upwards = [folder, *folder.parents]
    repositories = (parent for parent in upwards if os.path.exists(parent / ".git"))  # noqa: PTH110
    last = next(repositories, None)
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111  (Path.home() may raise)
    if last is None and home in upwards:
        last = home
    return upwards[: upwards.index(last) + 1] if last else [folder]
