"""The command that shows one configuration over time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.arguments import runs_argument
from orchestrator.cli.shared.formats import format_option, print_table
from orchestrator.cli.shared.opened_campaign import open_campaign, refresh_records
from orchestrator.cli.shared.options import results_option, slurm_timeout_option
from orchestrator.cli.shared.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.campaign.campaign import PlannedRun
    from orchestrator.store.campaign_store import CampaignStore
    from parsers.summary.warmup import Warmup


@click.command()
@runs_argument("[CAMPAIGN] RUN", single=True, folders=True)
@results_option
@slurm_timeout_option
@format_option
def history(campaign: Path, runs: tuple[str, ...], *, results: Path | None, layout: str) -> None:
    """Show how fast RUN of CAMPAIGN was over time, and when its speed changed.

    CAMPAIGN is a campaign file, or a folder of results; RUN is given by id or label. The command
    reads all completed attempts with the same parameters as RUN, in all campaigns. Only the
    parameters repeat and seed may differ.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.compare.history import (
        history_record,
        history_sentences,
        history_table,
        run_history,
    )
    from orchestrator.compare.past_runs import configuration, past_runs
    from orchestrator.submit.selection import choose

    planned, warmup, store, damaged = _planned(campaign, results)
    for problem in damaged:
        complain(f"not read: {problem}")
    chosen = choose(planned, runs)
    if len({configuration(planned_run.run) for planned_run in chosen}) > 1:
        several = ", ".join(planned_run.run_id for planned_run in chosen)
        raise UserError(
            f"{runs[0]!r} is the label of several runs; give the id of one of them: {several}"
        )
    past = past_runs(results or store.path.parent, chosen[0].run, warmup)
    result = run_history(past.runs)
    record = history_record(result)
    print_table(
        layout,
        lambda: history_table(result),
        lambda: record["runs"],
        whole=record,
        sentences=history_sentences(result),
    )
    for problem in past.damaged:
        if problem not in damaged:
            complain(f"not read: {problem}")
    if past.unknown:
        complain(
            f"not read, because this version of teralog does not know their parameters: "
            f"{', '.join(past.unknown)}"
        )


def _planned(
    campaign: Path, results: Path | None
) -> "tuple[Sequence[PlannedRun], Warmup, CampaignStore, Sequence[str]]":
    """Return four things: a campaign's runs, its warm-up, its results folder, and problems.

    Each problem is a sentence about a record that cannot be read or brought up to date. campaign:
    the path of a campaign file or of a results folder.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.store.campaign_store import CampaignStore
    from orchestrator.store.recorded_runs import readable_records, recorded_campaign

    if campaign.is_dir():
        of_folder = CampaignStore(campaign.absolute())
        records, damaged = readable_records(of_folder)
        return *recorded_campaign(of_folder, records), of_folder, damaged
    loaded, store = open_campaign(campaign, results)
    try:
        refresh_records(loaded, store)
    except UserError as error:
        return loaded.runs, loaded.warmup, store, error.problems
    return loaded.runs, loaded.warmup, store, ()
