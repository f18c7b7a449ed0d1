"""The page of a campaign as one HTML file: what is read for it, and what it is made of."""

from collections.abc import Iterator, Sequence

from orchestrator.campaign import Campaign
from orchestrator.collection import Collected
from orchestrator.errors import UserError
from orchestrator.html_report.detail import Detail, limits, make_detail
from orchestrator.html_report.document import document
from orchestrator.html_report.page import make_page
from orchestrator.log_tails import Tail, log_tail
from orchestrator.reports import Report
from orchestrator.store import CampaignStore


def report_html(
    campaign: Campaign, store: CampaignStore, report: Report, runs: Sequence[Collected]
) -> str:
    """Return the page; reads the runs' scripts and the ends of their logs.

    Raises UserError where the library that draws its plots is not installed.
    """
    plotly = _plotly()
    page = make_page(campaign, report, runs, store.other_runs(campaign))
    return document(page, _details(campaign, store, runs), plotly)


def _details(
    campaign: Campaign, store: CampaignStore, runs: Sequence[Collected]
) -> Iterator[Detail]:
    held = limits(len(runs))
    for run in runs:
        texts = store.run(run.planned.run_id).texts()
        yield make_detail(campaign, run, texts, _tail(run, held.lines), held.steps)


def _tail(run: Collected, lines: int) -> Tail | None:
    if run.log is None:
        return None
    name = f"{run.planned.run_id}/{run.log.parent.name}/{run.log.name}"
    return log_tail(run.log, lines, name)


def _plotly() -> str:
    """Return the source of plotly.js."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError(
            "--html: plotly, which draws the plots, is not installed; "
            "type: pip install 'teralog[html]'"
        ) from None
    source: str = get_plotlyjs()
    return source
