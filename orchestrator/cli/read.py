"""The commands that read what runs have printed."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.common import (
    campaign_argument,
    open_campaign,
    refresh,
    results_option,
)

if TYPE_CHECKING:
    from orchestrator.campaign import Campaign
    from orchestrator.store import CampaignStore


@click.command()
@campaign_argument
@results_option
def collect(campaign: Path, results: Path) -> None:
    """Read the logs of CAMPAIGN's runs; write steps.csv and runs.csv."""
    from orchestrator import collection, frames

    loaded, store = open_campaign(campaign, results)
    refresh(loaded, store)
    runs = collection.collect(loaded, store)
    steps = frames.steps_frame(runs, loaded.warmup)
    for name, frame in (("steps.csv", steps), ("runs.csv", frames.runs_frame(runs))):
        click.echo(store.write(name, frame.to_csv(index=False)))
    logs = sum(run.log is not None for run in runs)
    click.echo(f"read {logs} logs of {len(runs)} runs: {len(steps)} steps", err=True)


@click.command()
@campaign_argument
@results_option
@click.option(
    "--by-node",
    is_flag=True,
    help="Print a table of nodes instead, which shows a slow one; write nothing.",
)
@click.option("--html", "as_html", is_flag=True, help="Write report.html too: tables and plots.")
def report(campaign: Path, results: Path, *, by_node: bool, as_html: bool) -> None:
    """Print the table of CAMPAIGN; write report.md, report.csv and report.json."""
    from datetime import datetime

    from orchestrator import collection, reports
    from orchestrator.files import json_text
    from orchestrator.tables import as_csv, as_text

    loaded, store = open_campaign(campaign, results)
    refresh(loaded, store)
    if by_node:
        _print_nodes(loaded, store)
        return
    runs = collection.collect(loaded, store)
    made = reports.make_report(loaded, runs, datetime.now().astimezone().date().isoformat())
    gone = store.other_runs(loaded)
    page = store.write("report.md", reports.report_markdown(loaded, made, runs, gone))
    store.write("report.csv", as_csv(made.table))
    store.write("report.json", json_text(reports.report_json(loaded, made, runs)))
    others = ".csv and .json"
    if as_html:
        from orchestrator import html

        store.write("report.html", html.report_html(loaded, store, made, runs))
        others = ".csv, .json and .html"
    click.echo(as_text(made.table))
    click.echo(made.provenance)
    click.echo(f"wrote {page}, and {others} beside it", err=True)


def _print_nodes(campaign: "Campaign", store: "CampaignStore") -> None:
    """Print the table of nodes.

    It stands under `report` and not under `status`, for it is a result: the same step times from
    the same logs, put together by where they were measured.
    """
    from orchestrator import node_speeds, statuses, step_timing
    from orchestrator.tables import as_text

    timed = step_timing.timed_runs(campaign, statuses.run_statuses(campaign, store))
    click.echo(as_text(node_speeds.table(node_speeds.node_speeds(timed))))
    click.echo(node_speeds.HOW_MADE)
