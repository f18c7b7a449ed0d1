"""The command that shows one configuration over time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.common import (
    complain,
    json_option,
    open_campaign,
    print_json,
    refresh,
    results_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.campaign import PlannedRun
    from orchestrator.warmup import Warmup


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument("run")
@results_option
@json_option
def history(campaign: Path, run: str, *, results: Path, as_json: bool) -> None:
    """Show how fast a RUN of CAMPAIGN was over time, in all campaigns, and where that changed.

    CAMPAIGN is a campaign file, or a folder of results; RUN is given by id or label. Every attempt
    that completed counts which has the same parameters but for repeat and seed.
    """
    from orchestrator import history as told
    from orchestrator import submission
    from orchestrator.errors import UserError
    from orchestrator.past_runs import configuration, past_runs
    from orchestrator.tables import as_text

    planned, warmup = _planned(campaign, results)
    chosen = submission.choose(planned, [run])
    if len({configuration(one.run) for one in chosen}) > 1:
        several = ", ".join(one.run_id for one in chosen)
        raise UserError(f"{run!r} is the label of several runs; give the id of one: {several}")
    runs, unknown = past_runs(results, chosen[0].run, warmup)
    found = told.history(runs)
    if as_json:
        print_json(told.record(found))
    else:
        click.echo(as_text(told.table(found)))
        click.echo("\n".join(told.sentences(found)))
    if unknown:
        complain(f"not looked at, as this version does not know them: {', '.join(unknown)}")


def _planned(campaign: Path, results: Path) -> "tuple[Sequence[PlannedRun], Warmup]":
    from orchestrator.recorded import recorded_campaign
    from orchestrator.store import CampaignStore

    if campaign.is_dir():
        return recorded_campaign(CampaignStore(campaign.absolute()))
    loaded, store = open_campaign(campaign, results)
    refresh(loaded, store)
    return loaded.runs, loaded.warmup
