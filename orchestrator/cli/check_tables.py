"""The command that finds contradictions in tables that people wrote."""

import sys
from pathlib import Path

import click

from orchestrator.cli.shared.formats import format_option, print_table
from orchestrator.cli.shared.terminal import complain
from orchestrator.common.text import counted, printable


@click.command("check-tables")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="GPU model of the tables, e.g. V100-SXM2. Also report rows that are slow for this GPU.",
)
@format_option
def check_tables(files: tuple[Path, ...], gpu: str | None, layout: str) -> None:
    """Find contradictions in the tables of markdown files; change nothing.

    Exits with 1 if there is a finding, or if a file cannot be read.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.common.tables import Column, as_records, make_table
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
            if not page.tables:
                complain(f"teralog: {name}: has no table")
            findings += ((name, finding) for finding in check_page(page, measured_on))
            tables, read = tables + len(page.tables), read + 1
    columns: tuple[Column[tuple[str, TableFinding]], ...] = (
        Column("file", "file", lambda row: row[0]),
        Column("line", "line", lambda row: row[1].line),
        Column("kind", "kind", lambda row: row[1].kind),
        Column("message", "message", lambda row: row[1].message),
        Column("last digit only", "last_digit_only", lambda row: row[1].last_digit_only),
    )
    table = make_table(columns, findings)
    # As text each finding is a line that editors can jump to.
    lines = [f"{name}:{finding.line}: {finding.message}" for name, finding in findings]
    if layout != "text":
        print_table(layout, lambda: table, lambda: as_records(table), values=lambda: table)
    elif lines:
        click.echo("\n".join(lines))
    last_digit = sum(finding.last_digit_only for _, finding in findings)
    if read:
        click.echo(
            f"{counted(len(findings), 'finding')} in {counted(tables, 'table')} of "
            f"{counted(read, 'file')}; findings about the last digit only: {last_digit}",
            err=True,
        )
    if findings or read < len(files):
        sys.exit(1)
