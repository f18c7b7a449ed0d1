"""The command that reads what runs have printed into tables for other programs."""

from pathlib import Path

import click

from orchestrator.cli.common import (
    campaign_argument,
    open_campaign,
    refresh_records,
    results_option,
    slurm_timeout_option,
)
from orchestrator.common.text import counted


@click.command()
@campaign_argument
@results_option
@slurm_timeout_option
def collect(campaign: Path, results: Path | None) -> None:
    """Read the logs of CAMPAIGN's runs; write steps.csv and runs.csv."""
    from orchestrator.collect.collected import collect_campaign
    from orchestrator.frames import collected_runs_frame, collected_steps_frame

    loaded, store = open_campaign(campaign, results)
    refresh_records(loaded, store)
    runs = collect_campaign(loaded, store)
    steps = collected_steps_frame(runs)
    for name, frame in (("steps.csv", steps), ("runs.csv", collected_runs_frame(runs))):
        click.echo(store.write(name, frame.to_csv(index=False)))
    logs = sum(run.log is not None for run in runs)
    read = f"read {counted(logs, 'log')} of {counted(len(runs), 'run')}"
    click.echo(f"{read}: {counted(len(steps), 'step')}", err=True)
