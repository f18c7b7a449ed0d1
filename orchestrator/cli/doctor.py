"""The command that looks at this machine."""

import sys

import click

from orchestrator.cli.common import json_option, print_objects


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what this machine has, what it lacks, and what to type."""
    from orchestrator.common.tables import as_text
    from orchestrator.doctor import findings as diagnosis

    findings = diagnosis.examine()
    if as_json:
        print_objects(diagnosis.records(findings))
    else:
        click.echo(as_text(diagnosis.table(findings)))
    if not all(finding.ok or finding.optional for finding in findings):
        sys.exit(1)
