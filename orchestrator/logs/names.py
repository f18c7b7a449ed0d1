"""Name the runs of logs, as short as they can be."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from parsers.summary.run import RunSummary


def log_name(summary: RunSummary) -> str:
    """Return what to call a run: its log, and the number of the run in it unless that is 0."""
    return f"{summary.path} #{summary.run}" if summary.run else summary.path


def shortly_named(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs with so much of the ends of their paths as tells the logs apart."""
    paths = {one.path: PurePath(one.path).parts for one in summaries}
    longest = max(map(len, paths.values()), default=1)
    count = next(
        (
            count
            for count in range(1, longest)
            if len({parts[-count:] for parts in paths.values()}) == len(paths)
        ),
        longest,
    )
    return [replace(one, path=str(PurePath(*paths[one.path][-count:]))) for one in summaries]
