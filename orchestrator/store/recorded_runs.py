"""Read runs and campaigns back from their records, without the campaign file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.campaign.entry_problems import entry_problems
from orchestrator.campaign.expansion import Entry, make_run
from orchestrator.campaign.file import DEFAULT_WARMUP
from orchestrator.campaign.parameters import COMMON, DERIVED, MODEL_SIZES, option_names
from orchestrator.common.errors import UserError
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.submission import submitted_warmup
from parsers.summary.warmup import Warmup

# Values of a run.json that are not used directly: derived values, and the name of the preset,
# because run.json also contains the sizes of the preset.
_TOLD_OTHERWISE = DERIVED | {"model"}


def recorded_run(record: Mapping[str, Any]) -> Run | None:
    """Return the run that a run.json describes; None if this version cannot build the same run.

    There are three reasons for None: this version does not know the framework of the run; it
    does not accept a parameter; or the run that it builds has another id, because it does not
    know a recorded parameter.
    If the record lacks a parameter that a later version added, the parameter gets its default.
    """
    name = record.get("framework")
    if name not in FRAMEWORKS:
        return None
    parameter_names = option_names(name) | (COMMON - _TOLD_OTHERWISE)
    # The record also contains the parameters that were not given: their value is null.
    values = {
        key: value for key, value in record.items() if key in parameter_names and value is not None
    }
    values |= record.get("asked") or {}
    if record.get("model_choice"):
        values = {key: value for key, value in values.items() if key not in MODEL_SIZES}
        values["model"] = record["model_choice"]
    try:
        values["time_limit"] = _clock(record["time_limit_seconds"])
        entry = Entry("run.json", values)
        if entry_problems([entry]):
            return None
        made = make_run(entry, record["cluster"], record["repeat"])
        same = run_id(made) == record["run_id"]
        return replace(made, model_name=record["model"]) if same else None
    except (KeyError, TypeError, ValueError):
        return None


def _clock(seconds: int) -> str:
    """Format a number of seconds as a time limit in a campaign file: minutes:seconds."""
    return f"{seconds // 60}:{seconds % 60}"


def started_records(store: CampaignStore) -> list[dict[str, Any]]:
    """Return the run.json of all started runs. Raises UserError if no run was started."""
    records = store.run_records()
    if not records:
        raise UserError(
            f"{store.path}: contains no run that was started; give the folder of a campaign, e.g. "
            "results/my-campaign"
        )
    return records


def readable_records(store: CampaignStore) -> tuple[list[dict[str, Any]], list[str]]:
    """Return two lists: the run.json of the started runs, and a sentence for each damaged file.

    A run with a damaged file is not in the first list.
    """
    records: list[dict[str, Any]] = []
    damaged: list[str] = []
    for folder in store.run_folders():
        try:
            record = folder.started_record()
        except UserError as error:
            damaged += error.problems
        else:
            records += [record] if record else []
    return records, damaged


def recorded_campaign(
    store: CampaignStore, records: Sequence[Mapping[str, Any]] = ()
) -> tuple[list[PlannedRun], Warmup]:
    """Return the runs that were started in a campaign's folder, and the campaign's warm-up.

    The runs of the last submission come first, in the order of that submission.
    records: the run.json of the runs; if empty, they are read from the folder.
    Raises UserError if no run was started, or if this version cannot build one of the runs.
    """
    made = [(record, recorded_run(record)) for record in records or started_records(store)]
    unknown = [
        f"{store.path}: run {record['run_id']} has parameters that this version of teralog does "
        "not know"
        for record, run in made
        if run is None
    ]
    if unknown:
        raise UserError(*unknown)
    order = {identity: place for place, identity in enumerate(store.submitted_runs())}
    runs = [PlannedRun(run, record["run_id"], record["label"], ()) for record, run in made if run]
    runs.sort(key=lambda planned: order.get(planned.run_id, len(order)))
    return runs, warmup_of(store)


def warmup_of(store: CampaignStore) -> Warmup:
    """Return the warm-up of a campaign's last submission, or the default if none is recorded."""
    return submitted_warmup(store.path) or Warmup.parse(DEFAULT_WARMUP)


def campaign_stores(results: Path) -> list[CampaignStore]:
    """Return the stores of all campaigns under a folder of results, sorted by name."""
    folders = {path.parent.parent for path in results.absolute().glob("*/*/run.json")}
    return [CampaignStore(path) for path in sorted(folders)]
