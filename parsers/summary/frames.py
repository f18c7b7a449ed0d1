"""Build pandas frames of runs and steps: `runs_frame(read("slurm-123.out"))`."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from parsers.records import Step, Usage
from parsers.runs.run import LogRun
from parsers.summary.rows import (
    RUN_NAMES,
    STEP_NAMES,
    USAGE_NAMES,
    run_row,
    step_rows,
    usage_rows,
)
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

if TYPE_CHECKING:
    import pandas as pd

_FIRST = Warmup(rule="first")


def runs_frame(
    runs: Iterable[LogRun], warmup: Warmup = _FIRST, *, keep_skipped: bool = False
) -> "pd.DataFrame":
    """Return a frame with a row per run: the run's numbers.

    Its columns are `parsers.summary.rows.RUN_NAMES`. The numbers exclude the warm-up of each
    launch. Without `keep_skipped`, they also exclude reports that include a skipped update.
    """
    import pandas as pd

    rows = [run_row(summarise(run, warmup, keep_skipped=keep_skipped)) for run in runs]
    # The columns are named, because without a run no row has their names.
    return pd.DataFrame(rows, columns=list(RUN_NAMES))


def steps_frame(
    runs: Iterable[LogRun], warmup: Warmup = _FIRST, *, keep_skipped: bool = False
) -> "pd.DataFrame":
    """Return a frame with a row per step report of all runs.

    Its columns are `parsers.summary.rows.STEP_NAMES`. The column `counted` is true for reports that
    the numbers of `runs_frame` use.
    """
    import pandas as pd

    rows = [
        row for run in runs for row in step_rows(summarise(run, warmup, keep_skipped=keep_skipped))
    ]
    return with_numbers(pd.DataFrame(rows, columns=list(STEP_NAMES)), Step)


def usage_frame(runs: Iterable[LogRun]) -> "pd.DataFrame":
    """Return a frame with a row per report of memory or GPU use, and the columns `USAGE_NAMES`."""
    import pandas as pd

    rows = [row for run in runs for row in usage_rows(run)]
    return with_numbers(pd.DataFrame(rows, columns=list(USAGE_NAMES)), Usage)


def with_numbers(frame: "pd.DataFrame", record: type) -> "pd.DataFrame":
    """Convert the numeric columns of a frame to numeric types, even if all their values are absent.

    record: a record type. The columns with the names of its int and float fields are converted.
    """
    import pandas as pd

    numbers = (int, float, int | None, float | None)
    names = [field.name for field in fields(record) if field.type in numbers]
    return frame.assign(**{name: pd.to_numeric(frame[name]) for name in names})
