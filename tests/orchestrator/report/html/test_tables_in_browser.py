"""Use the page of published tables in a real browser, by mouse and by keyboard."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import background, column, points, tab_to, until, wait_for_rows

pytestmark = pytest.mark.browser

Published = Callable[..., Path]
Opened = Callable[..., Any]

PAGES = {"gpt2-experiments": 64, "oneflow-megatron-lm": 8, "deepspeed-cifar": 6}
PHONE = {"viewport": {"width": 375, "height": 800}}
MARKUP = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def gpt2(published: Published) -> Path:
    """Return the page of the eleven GPT-2 tables."""
    return published("gpt2-experiments")


@pytest.mark.parametrize(("name", "rows"), PAGES.items())
def test_all_rows_of_all_tables_are_in_one(
    published: Published, opened: Opened, name: str, rows: int
):
    """One table has the rows of all tables, in the order of their lines in the source."""
    page = opened(published(name))
    lines = [int(line.removesuffix(" ★")) for line in column(page, "line")]
    assert len(lines) == rows
    assert lines == sorted(lines)
    assert page.locator("#count").inner_text() == f"{rows} rows"


def test_sizes_are_sorted_as_numbers_and_shown_as_printed(gpt2: Path, opened: Opened):
    """Sizes are sorted as numbers: 7.5B is less than 18B.

    Rows without TFLOPs come last, in ascending and in descending order.
    """
    page = opened(gpt2)
    page.locator("#table thead button", has_text=re.compile("^Size$")).click()
    until(lambda: column(page, "Size")[0] == "7.5B", page)
    assert column(page, "Size")[-1] == "206B"
    heading = page.locator("#table thead button", has_text=re.compile("^TFLOPs$"))
    heading.click()
    until(lambda: column(page, "TFLOPs")[0] == "1.5", page)
    heading.click()
    until(lambda: column(page, "TFLOPs")[0] == "64.2", page)
    assert column(page, "TFLOPs")[-1] == "—"


def test_a_number_that_compares_is_sorted_by_itself(published: Published, opened: Opened):
    """Cells with a number and text in parentheses are sorted by the number alone."""
    page = opened(published("oneflow-megatron-lm"))
    page.locator("#table thead button", has_text="Throughput").click()
    until(lambda: column(page, "Throughput (samples/s)")[0] == "89(↓14.4%)", page)
    assert column(page, "Throughput (samples/s)")[-1] == "742(↑3.4%)"


def test_tables_and_outcomes_filter_rows_and_plots(gpt2: Path, opened: Opened):
    """The filters by table and by outcome apply to the rows and to the plots."""
    page = opened(gpt2)
    page.locator(".choice > summary", has_text="table").first.click()
    page.get_by_role("checkbox", name="scattered embeddings").check()
    wait_for_rows(page, 11)
    assert points(page, "TFLOPs against GPUs") == 10
    page.locator(".choice > summary", has_text="Outcome").click()
    page.get_by_role("checkbox", name="OOM").check()
    wait_for_rows(page, 1)
    assert page.locator("#table .ended.bad").inner_text() == "OOM"
    figure = page.locator("figure", has_text="TFLOPs against GPUs")
    until(lambda: "There are no numbers" in figure.inner_text(), page)


def test_a_row_has_a_view_of_its_own(gpt2: Path, opened: Opened):
    """The view of a row has its cells, its file and line, and its contradictions.

    It has no sections for logs and curves.
    """
    page = opened(gpt2)
    link = page.locator("#table tbody a", has_text="16").first
    assert link.get_attribute("href") == "#line-16"
    link.click()
    page.locator("#run h1").wait_for()
    assert page.url.endswith("#line-16")
    text = page.locator("#run").inner_text()
    assert "gpt2-experiments.md:16" in text
    assert "DP 4 = 16; Global batch 16" in text
    assert page.locator("#run h2").all_inner_texts() == [
        "Values outside the table",
        "Findings of check-tables",
    ]
    titles = page.locator("#run dl.cells dt").all_inner_texts()
    assert "Step time (s)" in titles
    # Only other tables have this column.
    assert "ZeRO stage" not in titles
    assert page.locator("#run figure, #run pre").count() == 0
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#line-16"


def test_an_address_opens_its_row(gpt2: Path, opened: Opened):
    """The address of a row opens its view, with its outcome and a link to the previous row."""
    page = opened(gpt2, "#line-149")
    page.locator("#run h1").wait_for()
    assert page.locator("#run .ended").inner_text() == "OOM"
    page.locator(".pager a", has_text="previous").click()
    until(lambda: page.url.endswith("#line-148"), page)
    page.locator("#back").click()
    page.locator("#table").wait_for()


def test_a_page_without_plots_has_no_place_for_them(published: Published, opened: Opened):
    """Without plots, the page has no empty space for them."""
    page = opened(published("deepspeed-cifar"))
    assert not page.locator("#plots").is_visible()
    page.locator("#table tbody a").first.click()
    page.locator("#run h1").wait_for()
    assert page.locator("#run h2").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_as_dark_as_its_reader_likes_it(gpt2: Path, opened: Opened, scheme: str):
    """The page is dark if the reader's system has dark colors; a button changes that."""
    page = opened(gpt2, color_scheme=scheme)
    assert (background(page) < 128) == (scheme == "dark")
    page.locator("#theme").click()
    assert (background(page) < 128) != (scheme == "dark")


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_nothing_but_the_table_scrolls_sideways(
    published: Published, opened: Opened, name: str
):
    """On a phone, only the table scrolls sideways.

    The page is never wider than the screen, even with an open filter or in the view of a row.
    """
    page = opened(published(name), **PHONE)
    wide = "document.documentElement.scrollWidth"
    for choice in page.locator(".choice").all():
        choice.locator("summary").click()
        assert page.evaluate(wide) == 375
        assert (
            choice.locator("> div").evaluate("element => element.getBoundingClientRect().left") >= 0
        )
        choice.locator("summary").click()
    page.locator("#table tbody a").first.click()
    page.locator("#run h1").wait_for()
    assert page.evaluate(wide) == 375


def test_the_keyboard_alone_filters_sorts_and_opens(gpt2: Path, opened: Opened):
    """The keyboard can do everything that a mouse can do."""
    page = opened(gpt2)
    tab_to(page, "#words")
    page.keyboard.type("scattered oom")
    wait_for_rows(page, 1)
    page.keyboard.press("Control+A")
    page.keyboard.type("offload")
    until(lambda: page.locator("#count").inner_text() != "1 of 64 rows", page)
    tab_to(page, ".choice summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.locator(".choice[open]").count() == 0
    tab_to(page, "th[data-column='1'] button")
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=ascending]").wait_for()
    tab_to(page, "tbody a")
    page.keyboard.press("Enter")
    page.locator("#run h1").wait_for()
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()


def test_a_plot_has_no_button_that_sends_it_away(gpt2: Path, opened: Opened):
    """The buttons of a plot only move and zoom it; none sends it to Plotly's cloud."""
    page = opened(gpt2)
    assert points(page, "TFLOPs against GPUs") > 50
    titles = (
        page.locator("figure")
        .first.locator(".modebar-btn")
        .evaluate_all("elements => elements.map(element => element.dataset.title)")
    )
    assert titles == ["Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]


def test_a_click_on_a_point_opens_its_row(gpt2: Path, opened: Opened):
    """A click on a point of a plot opens the row of this point."""
    page = opened(gpt2)
    points(page, "TFLOPs against GPUs")
    plot = page.get_by_role("img", name="TFLOPs against GPUs")
    plot.evaluate("plot => plot.emit('plotly_click', { points: [{ customdata: 4 }] })")
    page.locator("#run h1").wait_for()
    assert page.url.endswith("#line-16")


def test_markup_in_a_page_stays_text(published: Published, opened: Opened):
    """Markup in headings, titles and cells stays text everywhere on the page.

    The test looks at the table, the view of a row, the filters and the plots.
    """
    sizes = "".join(f"| {gpus} | {MARKUP} | {gpus}.5 |\n" for gpus in (8, 16))
    path = published(
        "markup", f"# {MARKUP}\n\n| GPUs | {MARKUP} | TFLOPs |\n|---|---|---|\n{sizes}"
    )
    page = opened(path)
    assert page.title() == MARKUP
    assert page.locator("h1").first.inner_text() == MARKUP
    assert page.locator("#same").inner_text() == (
        f"The same in all rows: table {MARKUP}, {MARKUP} {MARKUP}."
    )
    assert points(page, "TFLOPs against GPUs") == 2
    page.locator("#table tbody a").first.click()
    page.locator("#run h1").wait_for()
    assert MARKUP in page.locator("#run").inner_text()
    assert page.locator("img").count() == 0


def test_without_scripts_the_page_names_its_source(gpt2: Path, opened: Opened):
    """Without scripts, the page names its markdown source, which needs no scripts."""
    page = opened(gpt2, java_script_enabled=False)
    assert "read gpt2-experiments.md in the same folder" in page.locator("noscript").inner_text()
