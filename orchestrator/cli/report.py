"""The command that makes the table of a campaign, or an HTML page of published tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from orchestrator.cli.shared.arguments import campaign_argument, campaign_argument_of
from orchestrator.cli.shared.formats import (
    check_format,
    format_option,
    print_json,
    print_table,
    table_text,
)
from orchestrator.cli.shared.opened_campaign import open_campaign, refresh_records
from orchestrator.cli.shared.options import (
    filter_option,
    json_option,
    results_option,
    slurm_timeout_option,
)
from orchestrator.cli.shared.terminal import for_people
from orchestrator.common.text import counted, printable

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign
    from orchestrator.collect.collected import Collected
    from orchestrator.report.report import Report
    from orchestrator.store.campaign_store import CampaignStore

# The format for each suffix of a file; None is the HTML page, which is not printed.
_SUFFIXES = {
    ".txt": "text",
    ".md": "markdown",
    ".csv": "csv",
    ".json": "json",
    ".tex": "latex",
    ".parquet": "parquet",
    ".html": None,
}


@click.command()
@campaign_argument_of("[CAMPAIGN|PAGE.md]")
@results_option
@slurm_timeout_option
@click.option("--runs", "singly", is_flag=True, help="List repeats and seeds as separate rows.")
@click.option(
    "--by-node",
    is_flag=True,
    help="Print a table of the nodes, to find slow nodes; write nothing.",
)
@click.option(
    "--html",
    "as_html",
    is_flag=True,
    help="Write the files of --write, and report.html with tables and plots. If you give PAGE.md "
    "instead of a campaign, only write PAGE.html.",
)
@click.option(
    "--write",
    is_flag=True,
    help="Write report.md, report.csv and report.json into the campaign's folder of results.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table to FILE instead of printing it, in the format of its suffix (.txt, .md, "
    ".csv, .json, .tex, .parquet, .html) or of --format.",
)
@format_option
@filter_option
@click.option(
    "--sort",
    "by",
    metavar="COLUMN,...",
    help="Sort by these columns; a - before a name gives descending order, e.g. -tflops_per_gpu.",
)
@click.option(
    "--update",
    metavar="PAGE.md",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table into this page, e.g. README.md, between two comments with the name "
    "of the campaign.",
)
def report(
    campaign: Path,
    results: Path | None,
    *,
    singly: bool,
    by_node: bool,
    as_html: bool,
    write: bool,
    output: Path | None,
    layout: str,
    only: str | None,
    by: str | None,
    update: Path | None,
) -> None:
    """Print the table of CAMPAIGN; write it with --write, -o, --update or --html.

    `submit` writes the report when all runs of a campaign have ended. For PAGE.md, a page with
    tables, --html writes PAGE.html; no other option applies.
    """
    if campaign.suffix.lower() == ".md":
        _of_tables(campaign, as_html=as_html)
        return
    from orchestrator.collect.collected import collect_campaign
    from orchestrator.report.configurations import report_for_people
    from orchestrator.report.missing import left_out
    from orchestrator.report.report import make_report
    from orchestrator.report.sort_and_filter import arranged
    from orchestrator.report.write import today, write_report

    table_options = (singly, as_html, only is not None, by is not None, update, write, output)
    if by_node and any(table_options):
        raise click.UsageError(
            "--by-node prints its own table: of the other options, use only --format, --results "
            "and --slurm-timeout"
        )
    if only is not None and (write or as_html):
        option = "--html" if as_html else "--write"
        raise click.UsageError(
            f"{option} writes the report of all runs, but --filter leaves some out; write the "
            f"chosen runs with `-o FILE{'.html' if as_html else '.md'}`"
        )
    file_layout = _file_layout(output, layout) if output else None
    loaded, store = open_campaign(campaign, results)
    if output:
        _refuse_foreign_file(output, campaign, loaded.name, file_layout)
        _refuse_full_report(output, store, filtered=only is not None)
    refresh_records(loaded, store)
    if by_node:
        _print_nodes(loaded, store, layout)
        return
    if as_html:
        from orchestrator.report.html.write import refuse_foreign

        refuse_foreign(store.path / "report.html", of_tables=False)
    collected = collect_campaign(loaded, store)
    whole = make_report(loaded, collected, today())
    made, runs = arranged(loaded, whole, collected, only=only, by=by)
    both = Reports(made, report_for_people(loaded, made, runs, singly=singly, by=by))
    written = [_update(update, loaded, both.for_people)] if update else []
    gone = store.other_runs(loaded)
    if output:
        if file_layout is None:
            from orchestrator.report.html.write import refuse_foreign, report_html

            refuse_foreign(output, of_tables=False)
            text: str | bytes = report_html(loaded, store, made, runs, gone)
        else:
            text = _formatted(table_text, loaded, both, runs, file_layout)
        written.append(_write_file(output, text))
    else:
        _print(loaded, both, runs, layout)
    for sentence in (*left_out(loaded, collected, gone), *written):
        click.echo(sentence, err=True)
    # Files are written last, so that the table is printed even if they cannot be written.
    if write or as_html:
        click.echo(write_report(loaded, store, made, runs, gone, as_html=as_html), err=True)


def _file_layout(file: Path, layout: str) -> str | None:
    """Return the format in which to write a file; None for an HTML page.

    If the user typed `--format`, the result is the value of this option. Otherwise, the suffix of
    the file decides. Raises UsageError if no format has this suffix.
    """
    context = click.get_current_context()
    if context.get_parameter_source("layout") is ParameterSource.COMMANDLINE:
        return layout
    suffix = file.suffix.lower()
    if suffix not in _SUFFIXES:
        raise click.UsageError(
            f"-o {printable(str(file))}: no format has the suffix {printable(suffix)!r}; end the "
            f"name in {', '.join(_SUFFIXES)}, or add --format"
        )
    suffix_layout = _SUFFIXES[suffix]
    if suffix_layout is not None:
        check_format(suffix_layout, to_terminal=False)
    return suffix_layout


def _refuse_full_report(file: Path, store: "CampaignStore", *, filtered: bool) -> None:
    """Raise UserError if a filtered table would overwrite the full report."""
    from orchestrator.common.errors import UserError

    place = file.resolve()
    if filtered and place.parent == store.path.resolve() and place.stem == "report":
        raise UserError(
            f"{file}: is the file of the full report, but --filter leaves some runs out; give "
            "another file"
        )


def _refuse_foreign_file(file: Path, campaign: Path, name: str, layout: str | None) -> None:
    """Raise UserError if `file` is the campaign file, or a markdown page of the user.

    A markdown file that begins with a table is overwritten, because `report` writes such files.

    campaign, name: the path and the name of the campaign. layout: the format of the new file.
    """
    from orchestrator.common.errors import UserError

    shown = printable(str(file))
    if not file.is_file():
        return
    if file.samefile(campaign):
        raise UserError(f"{shown}: is the campaign file; give another file")
    text = file.read_text(encoding="utf-8", errors="replace").removeprefix(f"# {name}\n\n")
    if layout == "markdown" and text and not text.startswith("|"):
        raise UserError(
            f"{shown}: exists, and teralog did not write it; give another file, or write the table "
            f"into this page with --update {shown}"
        )


def _write_file(file: Path, text: str | bytes) -> str:
    """Write a report into a file that the user named; return the sentence "wrote FILE"."""
    from orchestrator.common.files import disk_errors, replacing

    with disk_errors(file, "give another file"), replacing(file.resolve()) as temporary:
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
    return f"wrote {printable(str(file))}"


def _of_tables(page: Path, *, as_html: bool) -> None:
    """Write the tables of a markdown page into an HTML page in the same folder.

    Raises UsageError if the user did not give `--html`, or gave an option that does not apply
    to a markdown page.
    """
    context = click.get_current_context()
    useless = [
        option.opts[0]
        for option in context.command.params
        if option.name not in ("campaign", "as_html")
        and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]
    if useless:
        raise click.UsageError(
            f"{', '.join(useless)}: applies only to a campaign, and {page} is a page of tables; "
            "for a page, use no option except --html"
        )
    if not as_html:
        raise click.UsageError(
            f"{page} is a page of tables; add --html to write it as an HTML page next to it"
        )
    from orchestrator.common.files import write_text
    from orchestrator.report.html.write import refuse_foreign, tables_html

    made, place = tables_html(page), page.with_suffix(".html")
    refuse_foreign(place, of_tables=True)
    write_text(place, made)
    click.echo(f"wrote {printable(str(place))}", err=True)


def _update(page: Path, campaign: "Campaign", report: "Report") -> str:
    """Replace the text between two comments in the user's page by the table of a report.

    The comments contain the name of the campaign. Returns a sentence: the page was updated, or was
    up to date. Raises UserError if the page lacks the comments.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.markdown.document.report_marks import with_report
    from orchestrator.markdown.document.write import overwrite
    from orchestrator.report.report import table_markdown

    old = page.read_bytes()
    try:
        new = with_report(old, campaign.name, table_markdown(report))
    except UserError as error:
        raise UserError(*(f"{page}:{problem}" for problem in error.problems)) from None
    if new == old:
        return f"{page}: is up to date"
    overwrite(page, new)
    return f"updated {page}"


@dataclass(frozen=True, slots=True)
class Reports:
    """Two reports of the same runs: `of_runs` for JSON and CSV, and `for_people` for reading.

    `of_runs` has a row for each run. `for_people` has a row for each configuration, unless the user
    asks for separate runs or sorts by the repeat or the seed.
    """

    of_runs: "Report"
    for_people: "Report"


def _print(
    campaign: "Campaign", reports: Reports, runs: "Sequence[Collected]", layout: str
) -> None:
    if layout == "text" and for_people():
        from orchestrator.report.terminal import show_report

        show_report(reports.for_people, runs)
        return
    _formatted(print_table, campaign, reports, runs, layout)


def _formatted(
    make: Callable[..., Any],
    campaign: "Campaign",
    reports: Reports,
    runs: "Sequence[Collected]",
    layout: str,
) -> Any:
    """Print a report, or return it as text or bytes, in one of FORMATS.

    make: `print_table` to print the report, or `table_text` to return it. layout: the format.
    """
    from orchestrator.report.json_report import report_json

    whole = report_json(campaign, reports.of_runs, runs)
    return make(
        layout,
        lambda: reports.for_people.table,
        lambda: whole["runs"],
        values=lambda: reports.of_runs.table,
        whole=whole,
        sentences=[reports.for_people.provenance],
    )


def _print_nodes(campaign: "Campaign", store: "CampaignStore", layout: str) -> None:
    """Print a table of nodes with the step times of the runs, grouped by node.

    The command `report` prints this table, not `status`, because step times are results of the
    runs' logs.
    """
    from orchestrator.common.tables import as_records
    from orchestrator.status.slow_nodes import HOW_MADE, node_speeds, node_table
    from orchestrator.status.step_times import timed_runs
    from orchestrator.status.table import run_statuses

    timed = timed_runs(campaign, store, run_statuses(campaign, store))
    table = node_table(node_speeds(timed))
    sentences = [HOW_MADE]
    print_table(
        layout, lambda: table, lambda: as_records(table), values=lambda: table, sentences=sentences
    )


@click.command()
@campaign_argument
@results_option
@slurm_timeout_option
@json_option("the files and the numbers of logs, runs and steps")
def collect(campaign: Path, results: Path | None, as_json: bool) -> None:
    """Read the logs of CAMPAIGN's runs; write steps.csv and runs.csv."""
    from orchestrator.collect.collected import collect_campaign
    from orchestrator.frames import collected_runs_frame, collected_steps_frame

    loaded, store = open_campaign(campaign, results)
    refresh_records(loaded, store)
    runs = collect_campaign(loaded, store)
    steps = collected_steps_frame(runs)
    frames = (("steps.csv", steps), ("runs.csv", collected_runs_frame(runs)))
    files = [str(store.write(name, frame.to_csv(index=False))) for name, frame in frames]
    logs = sum(run.log is not None for run in runs)
    if as_json:
        print_json({"files": files, "logs": logs, "runs": len(runs), "steps": len(steps)})
        return
    click.echo("\n".join(files))
    read = f"read {counted(logs, 'log')} of {counted(len(runs), 'run')}"
    click.echo(f"{read}: {counted(len(steps), 'step')}", err=True)
