"""The command that makes the table of a campaign, or a page of HTML of a published one's tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from orchestrator.cli.common import (
    filter_option,
    for_people,
    format_option,
    open_campaign,
    print_table,
    refresh_records,
    results_option,
    slurm_timeout_option,
)
from orchestrator.common.text import printable

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign
    from orchestrator.collect.collected import Collected
    from orchestrator.report.report import Report
    from orchestrator.store.campaign_store import CampaignStore


@click.command()
@click.argument(
    "campaign", metavar="CAMPAIGN|PAGE.md", type=click.Path(dir_okay=False, path_type=Path)
)
@results_option
@slurm_timeout_option
@click.option(
    "--by-node",
    is_flag=True,
    help="Print a table of nodes instead, which shows a slow one; write nothing.",
)
@click.option(
    "--html",
    "as_html",
    is_flag=True,
    help="Write report.html too: tables and plots. Of PAGE.md, its tables as PAGE.html.",
)
@format_option
@filter_option
@click.option(
    "--sort",
    "by",
    metavar="COLUMN,...",
    help="By these, titles or names; from high to low after a hyphen, as -tflops_per_gpu.",
)
@click.option(
    "--update",
    metavar="PAGE.md",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Put the table into a page of your own, between two comments.",
)
def report(
    campaign: Path,
    results: Path,
    *,
    by_node: bool,
    as_html: bool,
    layout: str,
    only: str | None,
    by: str | None,
    update: Path | None,
) -> None:
    """Print the table of CAMPAIGN; write report.md, report.csv and report.json.

    Of PAGE.md, a page of tables, it writes PAGE.html with --html, and nothing else.
    """
    if campaign.suffix.lower() == ".md":
        _of_tables(campaign, as_html=as_html)
        return
    from datetime import datetime

    from orchestrator.collect.collected import collect_campaign
    from orchestrator.report.missing import left_out
    from orchestrator.report.report import make_report
    from orchestrator.report.sort_and_filter import arranged

    if by_node and (as_html or only is not None or by is not None or update):
        raise click.UsageError("--by-node prints another table, and goes with --format alone")
    loaded, store = open_campaign(campaign, results)
    refresh_records(loaded, store)
    if by_node:
        _print_nodes(loaded, store, layout)
        return
    if as_html:
        from orchestrator.report.html.write import refuse_foreign

        refuse_foreign(store.path / "report.html", of_tables=False)
    collected = collect_campaign(loaded, store)
    whole = make_report(loaded, collected, datetime.now().astimezone().date().isoformat())
    made, runs = arranged(loaded, whole, collected, only=only, by=by)
    written = [_update(update, loaded, made)] if update else []
    gone = store.other_runs(loaded)
    written.append(_write(loaded, store, made, runs, gone, as_html=as_html))
    _print(loaded, made, runs, layout)
    for sentence in (*left_out(loaded, collected, gone), *written):
        click.echo(sentence, err=True)


def _of_tables(page: Path, *, as_html: bool) -> None:
    """Write the page of HTML that a published page's tables make, beside it."""
    context = click.get_current_context()
    useless = [
        option.opts[0]
        for option in context.command.params
        if option.name not in ("campaign", "as_html")
        and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]
    if useless:
        raise click.UsageError(
            f"{', '.join(useless)}: of a campaign's runs, and {page} is a page of tables; "
            "only --html goes with it"
        )
    if not as_html:
        raise click.UsageError(
            f"{page} is a page of tables; with --html they become a page of HTML beside it"
        )
    from orchestrator.common.files import write_text
    from orchestrator.report.html.write import refuse_foreign, tables_html

    made, place = tables_html(page), page.with_suffix(".html")
    refuse_foreign(place, of_tables=True)
    write_text(place, made)
    click.echo(f"wrote {printable(str(place))}", err=True)


def _update(page: Path, campaign: "Campaign", report: "Report") -> str:
    """Put the report between its marks in a page of the user's own; return what was done."""
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


def _write(
    campaign: "Campaign",
    store: "CampaignStore",
    report: "Report",
    runs: "Sequence[Collected]",
    gone: Sequence[str],
    *,
    as_html: bool,
) -> str:
    """Write the files of the report; return what was done."""
    from orchestrator.common.files import json_text
    from orchestrator.common.tables import as_csv
    from orchestrator.report.report import report_json, report_markdown

    page = store.write("report.md", report_markdown(campaign, report, runs, gone))
    store.write("report.csv", as_csv(report.table))
    store.write("report.json", json_text(report_json(campaign, report, runs)))
    others = ".csv and .json"
    if as_html:
        from orchestrator.report.html.write import report_html

        store.write("report.html", report_html(campaign, store, report, runs, gone))
        others = ".csv, .json and .html"
    return f"wrote {page}, and {others} beside it"


def _print(
    campaign: "Campaign", report: "Report", runs: "Sequence[Collected]", layout: str
) -> None:
    from orchestrator.report.report import report_json

    if layout == "text" and for_people():
        from orchestrator.report.terminal import show_report

        show_report(campaign, report, runs)
        return
    whole = report_json(campaign, report, runs)
    print_table(
        layout,
        lambda: report.table,
        lambda: whole["runs"],
        values=lambda: report.table,
        whole=whole,
        sentences=[report.provenance],
    )


def _print_nodes(campaign: "Campaign", store: "CampaignStore", layout: str) -> None:
    """Print the table of nodes.

    It stands under `report` and not under `status`, for it is a result: the same step times from
    the same logs, put together by where they were measured.
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
