"""The command that lists campaigns."""

from pathlib import Path

import click

from orchestrator.cli.shared.formats import format_option, print_table
from orchestrator.cli.shared.options import results_option


@click.command("list")
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path()
)
@results_option
@format_option
def list_campaigns(folder: Path, results: Path | None, layout: str) -> None:
    """List the campaigns of FOLDER and the states of their runs.

    FOLDER is the current directory by default. The command reads the campaign files in FOLDER and
    up to two levels below it, and the folder of results. The command does not ask Slurm, but
    `teralog status` does.
    """
    from orchestrator.status.known_campaigns import (
        campaign_records,
        campaigns_table,
        known_campaigns,
    )

    campaigns = known_campaigns(folder, results)
    if not campaigns and layout == "text":
        click.echo(
            f"{folder}: contains no campaign file and no results; `teralog init` writes a campaign",
            err=True,
        )
        return
    print_table(layout, lambda: campaigns_table(campaigns), lambda: campaign_records(campaigns))
