"""Find the campaigns of a folder, and the states of their runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.campaign.campaign import load_campaign
from orchestrator.common.errors import UserError
from orchestrator.common.tables import Column, Table, make_table
from orchestrator.status.table import run_statuses, word
from orchestrator.store.campaign_files import campaign_files
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.recorded_runs import campaign_stores
from orchestrator.store.results_folder import folder_of, results_folder

# Campaign files are found in subfolders of subfolders, but a whole home directory is not searched.
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class KnownCampaign:
    """A campaign file, or a results folder without a campaign file.

    name: the campaign's name; None if there is a campaign file, but it cannot be read.
    states: the number of runs in each state, as recorded by the last command that asked Slurm.
        If there is a campaign file, a run that has ended is counted by its outcome instead.
    results: the campaign's folder of results, which need not exist; None if `name` is None.
    problem: the first mistake in the campaign file or in the records; None if there is none.
    """

    name: str | None
    file: Path | None
    states: Counter[str]
    results: Path | None
    problem: str | None = None

    @property
    def other_name(self) -> str | None:
        """The campaign's name; None if the file has the same name (without its suffix)."""
        return None if self.file and self.file.stem == self.name else self.name

    @property
    def text(self) -> str:
        """The first mistake in the campaign's files, or else the number of runs in each state."""
        counts = ", ".join(f"{count} {what}" for what, count in self.states.items())
        return self.problem or counts


def known_campaigns(folder: Path, results: Path | None) -> list[KnownCampaign]:
    """Return the campaigns whose files or results are in a folder.

    Campaign files are also searched in subfolders, down to two levels.
    results: the results folder of all campaigns. If it is None, the results folder of each
    campaign is found from the place of its file.
    """
    campaigns = [_of_file(file, results) for file in campaign_files(folder, depth=_DEPTH)]
    results_in_use = {campaign.results for campaign in campaigns}
    place = results or results_folder(folder)
    return [
        *campaigns,
        *(campaign for campaign in _of_results(place) if campaign.results not in results_in_use),
    ]


def _of_file(file: Path, results: Path | None) -> KnownCampaign:
    try:
        campaign = load_campaign(file)
    except UserError as error:
        problem = error.problems[0].removeprefix(f"{file}: ")
        return KnownCampaign(None, file, Counter(), None, problem)
    store = campaign_store(results or results_folder(folder_of(file)), campaign.name)
    try:
        states = Counter(map(word, run_statuses(campaign, store)))
    except UserError as error:
        return KnownCampaign(campaign.name, file, Counter(), store.path, error.problems[0])
    return KnownCampaign(campaign.name, file, states, store.path)


def _of_results(results: Path) -> Iterator[KnownCampaign]:
    for store in campaign_stores(results):
        name = store.path.name
        try:
            yield KnownCampaign(name, None, _recorded_states(store), store.path)
        except UserError as error:
            yield KnownCampaign(name, None, Counter(), store.path, error.problems[0])


def _recorded_states(store: CampaignStore) -> Counter[str]:
    runs = store.submitted_runs() or [record["run_id"] for record in store.run_records()]
    return Counter(store.run(run).state().lower().replace("_", " ") for run in runs)


_COLUMNS: tuple[Column[KnownCampaign], ...] = (
    Column("file", "file", lambda row: str(row.file) if row.file else None),
    Column("campaign", "name", lambda row: row.other_name),
    Column("runs", "runs", lambda row: row.states.total() or None),
    Column("states", "states", lambda row: row.text),
)


def campaigns_table(campaigns: Sequence[KnownCampaign]) -> Table:
    """Return a table with a row for each campaign."""
    return make_table(_COLUMNS, campaigns)


def campaign_records(campaigns: Sequence[KnownCampaign]) -> list[dict[str, Any]]:
    """Return one JSON object for each campaign."""
    return [
        {
            "name": campaign.name,
            "file": str(campaign.file) if campaign.file else None,
            "runs": campaign.states.total() or None,
            "states": dict(campaign.states),
            "results": str(campaign.results) if campaign.results else None,
            "problem": campaign.problem,
        }
        for campaign in campaigns
    ]
