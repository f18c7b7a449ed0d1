"""Name the runs of logs, as short as they can be."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parsers.summary.run import RunSummary


def log_name(summary: RunSummary) -> str:
    """Return what to call a run: its log, and the number of the run in it unless that is 0."""
    return f"{summary.path} #{summary.run}" if summary.run else summary.path


def below_common_folder(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs with paths as short as they can be: without the folder that all are in."""
    try:
        common = os.path.commonpath({Path(one.path).parent for one in summaries})
    except ValueError:  # none at all, or relative and absolute ones
        return list(summaries)
    return [replace(one, path=os.path.relpath(one.path, common)) for one in summaries]
