"""Build pandas frames of runs and steps.

In a column of measured numbers, an absent value is NaN, even if all values are absent. In other
columns, an absent value is None or NaN, as pandas chooses.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.campaign.campaign import load_campaign
from orchestrator.collect.collected import Collected, collect_campaign, collect_runs
from orchestrator.measure.summary import Summary
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.recorded_runs import recorded_campaign
from orchestrator.store.results_folder import folder_of, results_folder
from parsers.records import Step
from parsers.summary.frames import with_numbers

if TYPE_CHECKING:
    import pandas as pd

_Path = str | PathLike[str]


def runs(source: _Path, results: _Path | None = None) -> "pd.DataFrame":
    """Return one row per run: its parameters, state, outcome and measured numbers.

    source: a campaign file, or the folder of the campaign's results.
    results: the folder with the results of all campaigns; not used if `source` is a folder.
    `teralog.runs` lists the columns. Raises UserError if the campaign file has mistakes, or if
    the folder contains no run.
    """
    return collected_runs_frame(_collected(source, results))


def steps(source: _Path, results: _Path | None = None) -> "pd.DataFrame":
    """Return one row per run and reported iteration.

    source: a campaign file, or the folder of the campaign's results.
    results: the folder with the results of all campaigns; not used if `source` is a folder.
    `teralog.steps` lists the columns. Raises UserError if the campaign file has mistakes, or if
    the folder contains no run.
    """
    return collected_steps_frame(_collected(source, results))


def _collected(source: _Path, results: _Path | None) -> list[Collected]:
    if Path(source).is_dir():
        store = CampaignStore(Path(source).absolute())
        planned, warmup = recorded_campaign(store)
        return collect_runs(planned, warmup, store)
    campaign = load_campaign(Path(source))
    place = results_folder(folder_of(Path(source))) if results is None else Path(results)
    store = campaign_store(place, campaign.name)
    return collect_campaign(campaign, store)


def collected_steps_frame(runs: Sequence[Collected]) -> "pd.DataFrame":
    """Return one row per run and iteration, as the logs report them.

    Columns: run_id, label, the fields of `parsers.records.Step`, and `warmup`, which is true for
    the iterations of the warm-up. If the log contains only a rate, `step_seconds` is computed from
    the rate.
    """
    import pandas as pd

    rows = [
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **asdict(step),
            "step_seconds": seconds,
            "warmup": step.iteration <= launch.last_warmup,
        }
        for run in runs
        for launch in run.reports.launches
        for step, seconds in zip(launch.steps.steps(), launch.step_seconds, strict=True)
    ]
    names = ("run_id", "label", *(field.name for field in fields(Step)), "warmup")
    # The columns are named, because without a report no row has their names.
    frame = pd.DataFrame(rows, columns=list(names)).astype({"warmup": bool})
    return with_numbers(frame, Step)


def collected_runs_frame(runs: Sequence[Collected]) -> "pd.DataFrame":
    """Return one row per run.

    Columns: run_id, label, the parameters of the run and the values derived from them, state,
    outcome, the fields of `Summary`, and the values that only some frameworks measure.
    """
    import pandas as pd

    frame = pd.DataFrame(
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
    return with_numbers(frame, Summary)
