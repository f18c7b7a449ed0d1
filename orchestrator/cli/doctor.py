"""The command that looks at this machine."""

import sys

import click

from orchestrator.cli.common import format_option, print_table


@click.command()
@format_option
def doctor(layout: str) -> None:
    """Say what this machine has, what it lacks, and what to type."""
    from orchestrator.doctor import findings as diagnosis

    findings = diagnosis.examine()
    print_table(
        layout,
        lambda: diagnosis.finding_table(findings),
        lambda: diagnosis.finding_records(findings),
    )
    if not all(finding.ok or finding.optional for finding in findings):
        sys.exit(1)
