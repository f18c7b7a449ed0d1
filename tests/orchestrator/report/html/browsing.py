"""Helpers for tests of a page in a browser: read the page's table, wait for changes, press keys."""

import re
from collections.abc import Callable
from typing import Any


def column(page: Any, title: str) -> list[str]:
    """Return the visible cells of one column of the table, from top to bottom."""
    titles = [text.replace("\n", " ") for text in page.locator("#table thead th").all_inner_texts()]
    return page.locator(
        f"#table tbody tr > :nth-child({titles.index(title) + 1})"
    ).all_inner_texts()


def until(holds: Callable[[], bool], page: Any) -> None:
    """Wait until `holds` returns true; raise AssertionError after about a minute.

    The browser has its own way of waiting, but the page's Content-Security-Policy forbids it.
    """
    for _ in range(600):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never held")


def wait_for_rows(page: Any, rows: int) -> None:
    """Wait until the table has this many rows."""
    until(lambda: page.locator("#table tbody tr").count() == rows, page)


def points(page: Any, title: str) -> int:
    """Return how many markers a plot has drawn; points of lines do not count."""
    plot = page.locator(
        "figure", has=page.locator("h3", has_text=re.compile(f"^{re.escape(title)}$"))
    )
    plot.scroll_into_view_if_needed()
    plot.locator(".main-svg").first.wait_for()
    return plot.locator(".plot").evaluate(
        "plot => plot.data.filter(trace => trace.mode === 'markers')"
        ".flatMap(trace => trace.x).length"
    )


def background(page: Any) -> int:
    """Return how bright the page is, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(re.findall(r"[0-9]+", colour)[0])


def tab_to(page: Any, selector: str) -> None:
    """Press the tab key until an element has the focus; assert that the focus is visible."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style == "solid"
            return
    raise AssertionError(f"the keyboard does not reach {selector}")
