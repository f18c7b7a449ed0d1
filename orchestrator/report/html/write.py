"""Write the HTML page of a campaign, or of published tables."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.common.errors import UserError
from orchestrator.common.text import printable
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.joined_tables import join_tables
from orchestrator.report.html.detail import Detail, limits, make_detail
from orchestrator.report.html.document import document
from orchestrator.report.html.page import make_page
from orchestrator.report.html.tables_page import make_details, make_tables_page
from orchestrator.report.report import Report
from orchestrator.status.log_text import Tail, log_tail
from orchestrator.store.campaign_store import CampaignStore

# Texts in page.html, near its start and after its styles, that show what the page is about.
_OURS, _OF_RUNS, _OF_ROWS = (
    b'content="teralog report"',
    b" the table of runs</a>",
    b" the table of rows</a>",
)
_BEGIN = 1 << 16


def report_html(
    campaign: Campaign,
    store: CampaignStore,
    report: Report,
    runs: Sequence[Collected],
    gone: Sequence[str],
) -> str:
    """Return the page of a campaign; read the runs' scripts and the ends of their logs for it.

    gone: labels of runs that were measured and are no longer in the campaign file. Raises UserError
    if the library that draws the plots is not installed.
    """
    plotly = _plotly()
    page = make_page(campaign, report, runs, gone)
    return document(page, _details(campaign, store, runs), plotly)


def tables_html(file: Path) -> str:
    """Return the page of the tables in a markdown file.

    Raises UserError if the file has no tables, or if a comment sets an unknown value. Also raises
    UserError if the library that draws the plots is not installed. Raises OSError if the file
    cannot be read.
    """
    plotly, data, name = _plotly(), file.read_bytes(), printable(str(file))
    try:
        read = read_page(data)
    except UserError as error:
        raise UserError(*(f"{name}:{problem}" for problem in error.problems)) from None
    tables = join_tables(read)
    if not tables.rows:
        raise UserError(f"{name}: contains no table with rows, so there is nothing to show")
    findings = check_page(read)
    page = make_tables_page(name, printable(file.name), tables, findings)
    return document(page, make_details(name, tables, findings), plotly)


def refuse_foreign(place: Path, *, of_tables: bool) -> None:
    """Raise UserError if a new HTML page would replace a file that the user may want to keep.

    These files are:
    - a file that teralog did not write;
    - the page of a campaign, if the new page is a page of published tables;
    - a page of published tables, if the new page is the page of a campaign.

    place: the path of the new page. of_tables: whether the new page is a page of tables.
    """
    try:
        with place.open("rb") as file:
            begin = file.read(_BEGIN)
    except FileNotFoundError:
        return
    name = printable(str(place))
    if _OURS not in begin:
        raise UserError(f"{name}: exists, and teralog did not write it; move it elsewhere first")
    if of_tables and _OF_RUNS in begin:
        source = printable(place.with_suffix(".md").name)
        raise UserError(
            f"{name}: is the report of a campaign, and would be replaced by a page of tables; "
            f"copy {source} to another folder, and type `teralog report COPY --html`"
        )
    if not of_tables and _OF_ROWS in begin:
        raise UserError(
            f"{name}: is a page of published tables, and would be replaced by the report of a "
            "campaign; move the page elsewhere first"
        )


def _details(
    campaign: Campaign, store: CampaignStore, runs: Sequence[Collected]
) -> Iterator[Detail]:
    held = limits(len(runs))
    for run in runs:
        texts = store.run(run.planned.run_id).texts() if held.texts else None
        yield make_detail(campaign, run, texts, _tail(run, held.lines), held.steps)


def _tail(run: Collected, lines: int) -> Tail | None:
    if run.log is None:
        return None
    name = f"{run.planned.run_id}/{run.log.parent.name}/{run.log.name}"
    return log_tail(run.log, lines, name)


def _plotly() -> str:
    """Return the source of plotly.js. Raises UserError if plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError(
            "--html: plotly, which draws the plots, is not installed; "
            "type: pip install 'teralog[html]'"
        ) from None
    source: str = get_plotlyjs()
    return source
