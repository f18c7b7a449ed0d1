"""Fixtures that write pages of campaigns, and open them in a real browser."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.report.html.write import report_html, tables_html
from orchestrator.store.campaign_store import CampaignStore

PUBLISHED = Path(__file__).parents[4] / "results" / "published"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def _needed(what: str, there: object, remedy: str) -> None:
    if there:
        return
    sentence = f"there is not a valid {what} here to test with; type: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture
def written(reported: Callable[..., Any], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the HTML page of a campaign, and returns the page's path.

    The function takes the arguments of `reported`: lines of the campaign file, and an attempt for
    each run.
    """
    _needed("plotly", importlib.util.find_spec("plotly"), "pip install 'teralog[html]'")

    def write(text: str, *attempts: dict[str, Any] | None) -> Path:
        campaign, runs, report = reported(text, *attempts)
        store = CampaignStore(tmp_path / "results")
        return store.write(
            "report.html", report_html(campaign, store, report, runs, store.other_runs(campaign))
        )

    return write


@pytest.fixture
def published(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the HTML page of a markdown file, and returns the page's path.

    The function takes the name of a file in results/published. If it gets a text too, it writes a
    file of this name with that text instead.
    """
    _needed("plotly", importlib.util.find_spec("plotly"), "pip install 'teralog[html]'")

    def write(name: str, text: str | None = None) -> Path:
        source = tmp_path / f"{name}.md"
        source.write_text(text or (PUBLISHED / source.name).read_text(encoding="utf-8"))
        page = source.with_suffix(".html")
        page.write_text(tables_html(source), encoding="utf-8")
        return page

    return write


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium without a window.

    Chromium is closed after each test module, because it keeps an event loop running.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    _needed("Chromium", program, "apt-get install chromium")
    _needed("playwright", importlib.util.find_spec("playwright"), "pip install playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a page in a new context of the browser.

    place: the end of the page's address, e.g. `#run-<id>`. options: the options of the context. At
    the end, the fixture asserts that the page requested no other address, and that no script
    failed.
    """
    asked: list[str] = []
    failed: list[str] = []
    contexts: list[Any] = []
    pages: list[Path] = []

    def open_page(path: Path, place: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        pages.append(path)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on(
            "console",
            lambda message: (
                failed.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.goto(f"{path.as_uri()}{place}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not failed
    own = ("blob:", "data:", *(path.as_uri() for path in pages))
    assert [address for address in asked if not address.startswith(own)] == []
