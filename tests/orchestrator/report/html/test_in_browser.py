"""Use the page of a campaign in a real browser, by mouse and by keyboard."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import background, column, points, tab_to, until, wait_for_rows

pytestmark = pytest.mark.browser

Written = Callable[..., Path]
Opened = Callable[..., Any]

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB."
PHONE = {"viewport": {"width": 375, "height": 800}}


def log(seconds: float, steps: int = 4) -> str:
    """Return the text of a log in which every step takes this many seconds."""
    return "".join(
        f"[teralog] iteration {number}/{steps} | step_seconds {seconds} | samples_per_second 8 "
        f"| loss {10 - number / steps} | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
        for number in range(1, steps + 1)
    )


def done(seconds: float) -> dict[str, Any]:
    """Return the values of a completed attempt for `reported`; its steps take this many seconds."""
    return {"log": log(seconds), "state": "COMPLETED"}


STAGES = "matrix: {strategy: [zero1, zero2, zero3], gpus_per_node: [1, 2]}\n"
# zero1 on one and two ranks, zero2, zero3; the last run has not begun.
ATTEMPTS = (
    done(2.0),
    done(1.0),
    done(3.0),
    done(10.0),
    {"log": OOM + "\n", "state": "FAILED"},
    None,
)
MARKUP = "<b>x</b></script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def stages(written: Written) -> Path:
    """Return the path of a page of six runs: four completed, one out of memory, one not started."""
    return written(STAGES, *ATTEMPTS)


def test_the_summary_counts_runs_by_outcome_and_names_the_best(stages: Path, opened: Opened):
    """The summary counts runs by outcome, names the best run, and explains the numbers."""
    page = opened(stages)
    text = page.locator("#summary").inner_text()
    assert "6 runs on cluster local" in text
    tiles = page.locator(".tile").all_inner_texts()
    assert [tile.split() for tile in tiles[:-1]] == [
        ["4", "completed"],
        ["1", "OOM"],
        ["1", "not", "started"],
    ]
    assert "best: zero1 gpus2" in tiles[-1]
    assert "Narayanan et al. 2021" in text


def test_clicks_on_a_heading_sort_then_reverse_then_undo(stages: Path, opened: Opened):
    """A first click sorts, a second reverses, and a third restores the order; dashes stay last."""
    page = opened(stages)
    heading = page.locator("#table thead button", has_text="step mean")
    heading.click()
    until(lambda: column(page, "step mean (s)") == ["1.00", "2.00", "3.00", "10.0", "—", "—"], page)
    assert page.locator("th[aria-sort=ascending]").count() == 1
    heading.click()
    until(lambda: column(page, "step mean (s)") == ["10.0", "3.00", "2.00", "1.00", "—", "—"], page)
    heading.click()
    until(lambda: column(page, "step mean (s)") == ["2.00", "1.00", "3.00", "10.0", "—", "—"], page)
    assert page.locator("th[aria-sort]").count() == 0


def test_words_filter_the_runs_and_the_plots(stages: Path, opened: Opened):
    """The reader can type words; then table and plots have only runs whose row has every word."""
    page = opened(stages)
    assert points(page, "TFLOPs/GPU against GPUs") == 4
    page.locator("#words").fill("zero2 completed")
    wait_for_rows(page, 2)
    assert column(page, "strategy") == ["zero2", "zero2"]
    assert page.locator("#count").inner_text() == "2 of 6 runs"
    until(lambda: points(page, "TFLOPs/GPU against GPUs") == 2, page)
    page.locator("#clear").click()
    wait_for_rows(page, 6)


def test_values_of_columns_filter_the_runs(stages: Path, opened: Opened):
    """The reader can choose values of several columns; the table then has only matching runs.

    A run matches if, in each of these columns, it has one of the chosen values.
    """
    page = opened(stages)
    page.locator(".choice > summary", has_text="strategy").click()
    page.get_by_label("zero1").check()
    page.get_by_label("zero3").check()
    wait_for_rows(page, 4)
    page.locator(".choice > summary", has_text="ended").click()
    page.get_by_label("completed").check()
    wait_for_rows(page, 2)
    assert column(page, "strategy") == ["zero1", "zero1"]
    assert page.locator(".choice[open]").count() == 1


def test_scaling_is_compared_to_the_fewest_gpus(stages: Path, opened: Opened):
    """Efficiency compares runs that differ only in GPUs; those with the fewest GPUs have 100 %."""
    page = opened(stages)
    assert points(page, "Scaling efficiency") == 4
    values = page.get_by_role("img", name="Scaling efficiency").evaluate(
        "plot => plot.data.filter(trace => trace.mode === 'markers')"
        ".map(trace => trace.y.map(Math.round))"
    )
    assert values == [[100, 200], [100, 30]]


@pytest.mark.parametrize(
    ("matrix", "colour"),
    [
        ("matrix: {strategy: [zero1, zero2]}", "strategy"),
        ("matrix: {gpus_per_node: [1, 2]}", "one"),
        ("matrix: {seed: [1, 2]}", "one"),
        # A value without a column is shown under the name of the run.
        ("matrix: {deepspeed: [{}, {comet: {name: x}}], strategy: [zero1]}", "one"),
    ],
)
def test_repeats_have_one_colour_until_another_is_chosen(
    written: Written, opened: Opened, matrix: str, colour: str
):
    """By default, repeats share a colour; the reader can choose to colour runs by `repeat`."""
    page = opened(written(f"{matrix}\nrepeats: 2\n", *[done(1.0)] * 4))
    select = page.locator("#colour")
    assert select.evaluate("select => select.selectedOptions[0].textContent") == colour
    assert "repeat" in select.locator("option").all_inner_texts()


def test_lines_go_through_the_median_of_repeats(written: Written, opened: Opened):
    """A plot's line goes through the median of repeats, even if one repeat is far from it."""
    seconds = (1.0, 2.0, 2.5, 4.0, 3.0, 9.0)
    path = written("matrix: {gpus_per_node: [1, 2]}\nrepeats: 3\n", *map(done, seconds))
    page = opened(path)
    assert points(page, "Scaling efficiency") == 6
    lines = page.get_by_role("img", name="Scaling efficiency").evaluate(
        "plot => plot.data.filter(trace => trace.mode === 'lines').map(trace => [trace.x, trace.y])"
    )
    ideal = [[1, 2], [100, 100]]
    assert lines == [[[1, 2, None], [100, 50, None]], ideal]


PLOTS = [
    "TFLOPs/GPU by configuration",
    "Distribution of step times",
    "Memory forecast by part",
    "Step time per iteration",
    "Loss per iteration",
]


def test_a_configuration_has_its_median_its_runs_and_their_range(written: Written, opened: Opened):
    """A plot of TFLOPs shows the runs of each configuration and their median.

    For each configuration, a text has the median and the range of the TFLOPs.
    """
    matrix = "matrix: {strategy: [ddp, zero1], seed: [1, 2, 3]}\n"
    page = opened(written(matrix, *map(done, (1.0, 4.0, 2.0, 8.0, 8.0, 8.0))))
    for title in PLOTS:
        assert points(page, title) >= 0
    plot = page.get_by_role("img", name="TFLOPs/GPU by configuration")
    dots, middles, values = plot.evaluate(
        "plot => plot.data.map(trace => [trace.x.length, trace.text])"
    )
    assert (dots[0], middles[0]) == (6, 2)
    middle, low, high = map(float, re.findall(r"[0-9.]+", values[1][0]))
    assert (low / middle, high / middle) == pytest.approx((0.5, 2.0), rel=2e-3)


def test_curves_have_the_colour_that_is_chosen_and_missing_ones_are_counted(
    written: Written, opened: Opened
):
    """Curves are coloured by strategy at first. A note reports how many runs have no loss curve."""
    silent = re.sub(r"[|] loss [0-9.]+ ", "| loss x ", log(2.0))
    attempts = [done(1.0), done(2.0), done(3.0), {"log": silent, "state": "COMPLETED"}]
    page = opened(written("matrix: {strategy: [ddp, zero1]}\nrepeats: 2\n", *attempts))
    assert points(page, "Step time per iteration") == 0
    colours = "plot => plot.data.map(trace => trace.line.color)"
    line_colours = page.get_by_role("img", name="Step time per iteration").evaluate(colours)
    assert [line_colours.count(colour) for colour in dict.fromkeys(line_colours)] == [2, 1]
    note = page.locator("figcaption", has_text="1 of 4 runs has no curve")
    assert note.count() == 2


@pytest.mark.parametrize("width", [1400, 1000])
def test_the_ends_of_runs_are_never_cut(stages: Path, opened: Opened, width: int):
    """In a narrow window, minor columns are hidden, so that the outcome is not cut off.

    A button shows the hidden columns.
    """
    page = opened(stages, viewport={"width": width, "height": 900})
    until(lambda: page.locator(".ended:visible").count() > 0, page)
    scroller = page.locator("#scroller").bounding_box()
    for badge in page.locator("#table .ended").all():
        box = badge.bounding_box()
        assert box["x"] + box["width"] <= scroller["x"] + scroller["width"]
    before = page.locator("#table thead th").count()
    if page.locator("#columns").is_visible():
        page.locator("#columns").click()
        assert page.locator("#table thead th").count() > before


def test_how_many_forecasts_of_memory_held_is_reported_of_one_run_too(
    written: Written, opened: Opened
):
    """A note counts the runs whose peak memory was within their forecast, e.g. 1 of 1."""
    page = opened(written("", done(1.0)))
    note = page.locator("figcaption", has_text="within the forecast")
    note.scroll_into_view_if_needed()
    assert note.inner_text().startswith(
        "Peaks within the forecast: 1 of 1. Each bar is a forecast. If the bar crosses"
    )


def test_a_run_has_a_view_of_its_own(stages: Path, opened: Opened):
    """A link opens the view of a run, and Escape closes it; the focus returns to where it was."""
    page = opened(stages)
    link = page.locator("#table tbody a").nth(4)
    address = link.get_attribute("href")
    link.click()
    page.locator("#run h1").wait_for()
    assert page.url.endswith(address)
    text = page.locator("#run").inner_text()
    assert f"OOM {OOM}" in text
    assert page.locator("#log").inner_text() == OOM
    assert not page.locator("#overview").is_visible()
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('href')") == address


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [(None, "The log is empty."), ({"state": "COMPLETED"}, "There is no log file.")],
    ids=["not begun", "completed"],
)
def test_a_deleted_log_differs_from_one_that_was_never_written(
    written: Written, opened: Opened, attempt: dict[str, Any] | None, sentence: str
):
    """If a run has ended and has no log file, its view reports that.

    For a run that has not started, the view reports that the log is empty.
    """
    page = opened(written("", attempt))
    page.locator("#table tbody a").click()
    page.locator("#run h1").wait_for()
    assert page.locator("h2:text-is('Log') + p").inner_text() == sentence


def test_an_address_opens_its_run(stages: Path, opened: Opened, tmp_path: Path):
    """A run's address opens the view of the run, with its sizes and links to other runs."""
    first = min(path for path in (tmp_path / "results").iterdir() if path.is_dir())
    page = opened(stages, f"#run-{first.name}")
    page.locator("#run h1").wait_for()
    assert page.locator(".pager a").count() >= 2
    sizes = page.locator(".sizes").inner_text()
    assert re.search(r"seq_length\s+64\n", sizes)
    page.locator("#back").click()
    page.locator("#table").wait_for()


def test_an_address_of_no_run_shows_all_runs(stages: Path, opened: Opened):
    """The address of an unknown run opens the page of all runs.

    A link may be older than the campaign.
    """
    page = opened(stages, "#run-000000000000")
    page.locator("#table").wait_for()
    assert len(column(page, "strategy")) == 6


def test_curves_shade_the_warm_up_and_name_what_they_leave_out(written: Written, opened: Opened):
    """A plot shades the warm-up. For a long run, a note reports which step reports are drawn.

    Of every 10 adjacent reports, the plot draws the one with the lowest and the one with the
    highest value.
    """
    page = opened(written("", {"log": log(1.0, steps=2000), "state": "COMPLETED"}))
    page.locator("#table tbody a").click()
    plot = page.locator("#run .plot").first
    plot.locator(".main-svg").first.wait_for()
    assert plot.evaluate("plot => [plot.layout.shapes[0].x0, plot.layout.shapes[0].x1]") == [
        0.5,
        1.5,
    ]
    note = page.locator("#run figcaption").first.inner_text()
    assert "warm-up, up to iteration 1" in note
    assert "These are the last 100 lines of" in page.locator("#run").inner_text()
    assert page.locator("#log").evaluate("log => log.scrollTop > 0")
    assert (
        "Of every 10 consecutive reports, only the lowest and the highest are drawn; "
        "there are 2,000 reports."
    ) in note


def test_markup_in_logs_and_labels_stays_text(written: Written, opened: Opened):
    """Markup in logs and labels stays text in the table, in the view of the run and in plots."""
    name = json.dumps(MARKUP)
    path = written(
        f"matrix: {{deepspeed: [{{}}, {{comet: {{name: {name}}}}}], strategy: [zero1]}}\n",
        done(1.0),
        {"log": f"{MARKUP}\n{log(1.0)}RuntimeError: {MARKUP}\n", "state": "FAILED"},
    )
    page = opened(path)
    assert points(page, "TFLOPs/GPU by configuration") == 2
    assert "_b_x" in page.locator(".ytick").nth(1).text_content()
    page.locator("#table tbody a").nth(1).click()
    page.locator("#log").wait_for()
    lines = page.locator("#log").inner_text().splitlines()
    assert (lines[0], lines[-1]) == (MARKUP, f"RuntimeError: {MARKUP}")
    assert "img src=x" in page.locator("#run h1").inner_text()
    assert page.locator("img").count() == 0
    assert page.title().endswith(" - stages")


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_the_page_is_as_dark_as_its_reader_likes_it(
    stages: Path, opened: Opened, scheme: str, is_dark: bool
):
    """The page is dark if the reader's system has dark colors; a button changes that.

    The reader's choice is stored.
    """
    page = opened(stages, color_scheme=scheme)
    assert (background(page) < 128) == is_dark
    page.locator("#theme").click()
    assert (background(page) < 128) != is_dark
    # The browser stores settings of a page after a while, and a reload may be faster.
    page.wait_for_timeout(500)
    page.reload()
    assert (background(page) < 128) != is_dark


def test_on_paper_the_page_is_light_and_has_no_buttons(stages: Path, opened: Opened):
    """A printed page is light, has no filters, and does not cut off content that scrolls."""
    page = opened(stages, color_scheme="dark")
    assert points(page, "TFLOPs/GPU against GPUs") == 4
    page.emulate_media(media="print")
    assert background(page) == 255
    assert not page.locator("#filters").is_visible()
    assert (
        page.evaluate("getComputedStyle(document.getElementById('scroller')).maxHeight") == "none"
    )
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_plots_fit_on_paper_whether_they_were_in_view_or_not(stages: Path, opened: Opened):
    """A printed plot is half a sheet wide, within its frame; on the screen it stays unchanged."""
    page = opened(stages)
    until(lambda: page.locator("figure .main-svg:visible").count() > 0, page)
    before = page.locator("figure").first.bounding_box()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = "cells => cells.map(cell => cell.offsetWidth)"
    figures = page.locator("figure:not(.empty)").count()
    until(
        lambda: page.locator(".svg-container").evaluate_all(widths) == [480] * figures,
        page,
    )
    page.emulate_media(media="print")
    assert page.locator(".plot").evaluate_all(
        """plots => plots.every(plot => [...plot.querySelectorAll(".main-svg")].every(
             drawn => drawn.getBoundingClientRect().height <= plot.offsetHeight))"""
    )
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(lambda: page.locator("figure").first.bounding_box() == before, page)


@pytest.mark.parametrize("view", ["overview", "run"])
def test_on_a_phone_nothing_but_tables_and_logs_scrolls_sideways(
    stages: Path, opened: Opened, view: str
):
    """On a screen of 375 pixels, only tables and logs scroll sideways."""
    page = opened(stages, **PHONE)
    points(page, "TFLOPs/GPU against GPUs")
    if view == "run":
        page.locator("#table tbody a").first.click()
        page.locator("#run .main-svg").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert (
        page.evaluate(
            """[...document.querySelectorAll("main:not([hidden]) > *, figure")]
        .filter((one) => one.getBoundingClientRect().right > 375).length"""
        )
        == 0
    )


def test_the_keyboard_alone_filters_sorts_and_opens(stages: Path, opened: Opened):
    """The keyboard can do everything that a mouse can do."""
    page = opened(stages)
    tab_to(page, "#words")
    page.keyboard.type("zero1")
    wait_for_rows(page, 2)
    tab_to(page, ".choice summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    wait_for_rows(page, 1)
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    assert page.locator(".choice[open]").count() == 0
    wait_for_rows(page, 2)
    tab_to(page, "th button")
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=ascending]").wait_for()
    assert column(page, "run") == sorted(column(page, "run"))
    tab_to(page, "tbody a")
    page.keyboard.press("Enter")
    page.locator("#run h1").wait_for()
    tab_to(page, "#run pre")
    page.keyboard.press("Escape")
    page.locator("#overview").wait_for()


@pytest.mark.parametrize(("form", "start"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_a_plot_is_saved_for_a_paper(stages: Path, opened: Opened, form: str, start: bytes):
    """A plot is saved as SVG or PNG, on white, even from a dark page."""
    page = opened(stages, color_scheme="dark")
    assert points(page, "TFLOPs/GPU against GPUs") == 4
    with page.expect_download() as saved:
        page.locator("figure button", has_text=form.upper()).first.click()
    assert saved.value.suggested_filename == f"stages-TFLOPs-GPU-against-GPUs.{form}"
    content = Path(saved.value.path()).read_bytes()
    assert content.startswith(start)
    if form == "svg":
        assert b"rgb(255, 255, 255)" in content
        assert b">GPUs<" in content


def test_without_scripts_the_page_shows_where_the_table_is(stages: Path, opened: Opened):
    """Without scripts, the page is not empty: it names the file of the table."""
    page = opened(stages, java_script_enabled=False)
    assert "report.md" in page.locator("noscript").inner_text()


def test_a_campaign_without_a_number_is_a_page_too(written: Written, opened: Opened):
    """If no run has measured numbers, a note replaces each plot."""
    page = opened(written("matrix: {seed: [1, 2]}\n", None, None))
    assert page.locator("#same").inner_text() == (
        "The same in all runs: strategy ddp, precision fp32, ended not started."
    )
    page.locator("figcaption", has_text="There are no numbers for this plot.").first.wait_for()
    assert not page.locator("figure.empty button").first.is_visible()
