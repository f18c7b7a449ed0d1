"""Name the runs of logs by the paths of the logs, as short as possible."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from parsers.summary.run import RunSummary


def log_name(summary: RunSummary) -> str:
    """Return the name of a run: the path of its log, e.g. `a.out`.

    Runs are numbered from 0, and the first run of a log has no number in its name. So the second
    run is called `a.out #1`.
    """
    return f"{summary.path} #{summary.run}" if summary.run else summary.path


def shortly_named(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs with short names: the last parts of their logs' paths, e.g. `job1/a.out`.

    All names have the same number of parts. This number is as small as possible, so that different
    logs still have different names.
    """
    paths = {summary.path: PurePath(summary.path).parts for summary in summaries}
    longest = max(map(len, paths.values()), default=1)
    count = next(
        (
            count
            for count in range(1, longest)
            if len({parts[-count:] for parts in paths.values()}) == len(paths)
        ),
        longest,
    )
    return [
        replace(summary, path=str(PurePath(*paths[summary.path][-count:]))) for summary in summaries
    ]
