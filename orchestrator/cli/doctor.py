"""The command that looks at this machine."""

import sys

import click

from orchestrator.cli.common import format_option, print_table


@click.command()
@format_option
def doctor(layout: str) -> None:
    """Say what this machine has, what it lacks, and what to type."""
    from orchestrator.doctor.findings import examine, finding_records, finding_table

    findings = examine()
    print_table(
        layout,
        lambda: finding_table(findings),
        lambda: finding_records(findings),
    )
    if not all(finding.ok or finding.optional for finding in findings):
        sys.exit(1)
