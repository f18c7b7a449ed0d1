"""The command that looks for what is wrong in tables that people wrote."""

import sys
from pathlib import Path

import click

from orchestrator.cli.common import complain, json_option, print_objects
from orchestrator.common.text import counted


@click.command("check-tables")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="What the tables were measured on, as V100-SXM2; rows that are slow for it are named too.",
)
@json_option
def check_tables(files: tuple[Path, ...], gpu: str | None, as_json: bool) -> None:
    """Name what contradicts itself in the tables of markdown files; none is changed.

    Exit 1 where there is a finding, or a file that cannot be read.
    """
    from dataclasses import asdict

    from orchestrator.common.errors import UserError
    from orchestrator.markdown.check.page import Checked, check_document
    from orchestrator.markdown.check.peaks import gpus_called

    measured_on = gpus_called(gpu) if gpu else []
    checked: list[Checked] = []
    for file in files:
        try:
            checked.append(check_document(str(file), file.read_bytes(), measured_on))
        except OSError as error:
            complain(f"teralog: {file}: {error.strerror}")
        except UserError as error:
            for problem in error.problems:
                complain(f"teralog: {file}:{problem}")
    findings = [finding for one in checked for finding in one.findings]
    if as_json:
        print_objects([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{finding.file}:{finding.line}: {finding.message}")
    tables = sum(one.tables for one in checked)
    last_digit = sum(finding.last_digit_only for finding in findings)
    click.echo(
        f"{counted(len(findings), 'finding')}, {last_digit} of the last digit only, in "
        f"{counted(tables, 'table')} of {counted(len(checked), 'file')}",
        err=True,
    )
    if findings or len(checked) < len(files):
        sys.exit(1)
