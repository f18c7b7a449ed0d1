"""The command that examines this machine."""

import sys

import click

from orchestrator.cli.shared.formats import format_option, print_table


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show every check, passed ones too.")
@format_option
def doctor(layout: str, *, everything: bool) -> None:
    """Show what teralog needs and this machine lacks, and what to do about it.

    Without --all, the format `text` contains only the checks that failed. Other formats contain
    every check.
    """
    from orchestrator.doctor.findings import (
        examine,
        finding_records,
        finding_table,
        findings_summary,
        problem_table,
    )

    findings = examine()
    brief = layout == "text" and not everything
    if brief and all(finding.ok for finding in findings):
        click.echo(findings_summary(findings))
        return
    hint = "; `teralog doctor --all` shows them" if brief else ""
    print_table(
        layout,
        lambda: problem_table(findings) if brief else finding_table(findings),
        lambda: finding_records(findings),
        sentences=[f"{findings_summary(findings)}{hint}"],
    )
    if not all(finding.ok or finding.optional for finding in findings):
        sys.exit(1)
