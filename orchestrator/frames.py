"""Runs and steps as pandas frames, for notebooks and for CSV."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from orchestrator.collection import Collected
from orchestrator.metrics import step_seconds
from orchestrator.model import sizes
from orchestrator.warmup import Warmup
from parsers.records import Step

if TYPE_CHECKING:
    import pandas as pd


def steps_frame(runs: Sequence[Collected], warmup: Warmup) -> "pd.DataFrame":
    """Return one row per run and iteration, as the logs report them.

    Columns: run_id, label, the fields of `parsers.records.Step`, and `warmup`, which is true for
    the iterations that the numbers leave out. `step_seconds` is worked out from the rate where
    the log gives only that.
    """
    import pandas as pd

    rows = [
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **asdict(step),
            "step_seconds": step_seconds(step, run.planned.run),
            "warmup": step.iteration <= warmup.last_iteration(run.planned.run.training.train_iters),
        }
        for run in runs
        for step in run.steps
    ]
    names = ("run_id", "label", *(field.name for field in fields(Step)), "warmup")
    # Named, for without a report there is no row to take them from.
    return pd.DataFrame(rows, columns=list(names))


def runs_frame(runs: Sequence[Collected]) -> "pd.DataFrame":
    """Return one row per run: identity, label, sizes, state, outcome, `Summary`, measures."""
    import pandas as pd

    return pd.DataFrame(
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **sizes(run.planned.run),
            "state": run.state,
            "outcome": run.outcome,
            **asdict(run.summary),
            **run.measures,
        }
        for run in runs
    )
