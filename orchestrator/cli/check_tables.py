"""The command that looks for what is wrong in tables that people wrote."""

import sys
from pathlib import Path

import click

from orchestrator.cli.common import complain, json_option, print_objects
from orchestrator.common.text import counted, printable


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
    from orchestrator.markdown.check.findings import TableFinding
    from orchestrator.markdown.check.page import check_page
    from orchestrator.markdown.check.peaks import gpus_called
    from orchestrator.markdown.meaning.benchmark_pages import read_page

    measured_on = gpus_called(gpu) if gpu else []
    findings: list[tuple[str, TableFinding]] = []
    tables = read = 0
    for file in files:
        try:
            page = read_page(file.read_bytes())
        except OSError as error:
            complain(f"teralog: {file}: {error.strerror}")
        except UserError as error:
            for problem in error.problems:
                complain(f"teralog: {file}:{problem}")
        else:
            name = printable(str(file))
            findings += ((name, finding) for finding in check_page(page, measured_on))
            tables, read = tables + len(page.tables), read + 1
    if as_json:
        print_objects([{"file": name, **asdict(finding)} for name, finding in findings])
    else:
        for name, finding in findings:
            click.echo(f"{name}:{finding.line}: {finding.message}")
    last_digit = sum(finding.last_digit_only for _, finding in findings)
    click.echo(
        f"{counted(len(findings), 'finding')}, {last_digit} of the last digit only, in "
        f"{counted(tables, 'table')} of {counted(read, 'file')}",
        err=True,
    )
    if findings or read < len(files):
        sys.exit(1)
