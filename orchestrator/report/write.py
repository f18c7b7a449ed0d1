"""Write the report of a campaign into its folder of results."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected, collect_campaign
from orchestrator.common.files import json_text
from orchestrator.common.tables import as_csv
from orchestrator.report.configurations import report_for_people
from orchestrator.report.json_report import report_json
from orchestrator.report.report import Report, make_report, report_markdown
from orchestrator.store.campaign_store import CampaignStore


def today() -> str:
    """Return today's date for a report."""
    return datetime.now().astimezone().date().isoformat()


def write_report(
    campaign: Campaign,
    store: CampaignStore,
    report: Report,
    runs: Sequence[Collected],
    gone: Sequence[str],
    *,
    as_html: bool = False,
) -> str:
    """Write report.md, report.csv and report.json, optionally report.html.

    Returns a sentence with the names of the files. Raises UserError if a file cannot be written.
    gone: labels of runs that were measured and are no longer in the campaign file.
    """
    for name, text in _texts(campaign, report, runs, gone).items():
        store.write(name, text)
    others = "report.csv and report.json"
    if as_html:
        # Only this page needs plotly.
        from orchestrator.report.html.write import report_html

        store.write("report.html", report_html(campaign, store, report, runs, gone))
        others = "report.csv, report.json and report.html"
    return f"wrote {store.path / 'report.md'}, and {others} in the same folder"


def renew_report(campaign: Campaign, store: CampaignStore) -> str | None:
    """Read the logs of all runs, and write the report if it changed.

    Returns a sentence about the report; None if it did not change. Raises UserError if a file
    cannot be written.
    """
    runs = collect_campaign(campaign, store)
    report = make_report(campaign, runs, today())
    gone = store.other_runs(campaign)
    texts = _texts(campaign, report, runs, gone)
    if all(_holds(store.path / name, text) for name, text in texts.items()):
        return None
    return write_report(campaign, store, report, runs, gone)


def _texts(
    campaign: Campaign, report: Report, runs: Sequence[Collected], gone: Sequence[str]
) -> dict[str, str]:
    """Return the texts of the report's files, by the files' names."""
    return {
        "report.md": report_markdown(
            campaign, report_for_people(campaign, report, runs), runs, gone
        ),
        "report.csv": as_csv(report.table),
        "report.json": json_text(report_json(campaign, report, runs)),
    }


def _holds(file: Path, text: str) -> bool:
    """Return whether a file can be read and contains exactly this text."""
    with suppress(OSError):
        return file.read_bytes() == text.encode()
    return False
