"""Shorten curves so that they fit on a page."""

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.html.series import series

FINITE = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}"))


def test_a_short_curve_is_whole():
    """A curve with fewer points than the limit keeps all points that have a value."""
    curve = series([(1, 0.5), (2, None), (3, 0.25)], 4)
    assert (curve.x, curve.y) == ((1, 3), (0.5, 0.25))
    assert (curve.reports, curve.every, curve.not_finite) == (2, 1, 0)


def test_a_thinned_curve_keeps_its_outliers():
    """In a shortened curve, one slow step among a thousand stays visible."""
    points = [(place, 9.0 if place == 500 else 1.0) for place in range(1, 1001)]
    curve = series(points, 10)
    assert (500, 9.0) in zip(curve.x, curve.y, strict=True)
    assert (curve.reports, curve.every) == (1000, 200)


def test_values_that_are_not_numbers_are_counted():
    """A curve cannot show a NaN or an infinite value, so their number is reported."""
    curve = series([(1, math.nan), (2, 1.0), (3, math.inf)], 4)
    assert (curve.x, curve.reports, curve.not_finite) == ((2,), 3, 2)


@given(st.lists(FINITE, max_size=200), st.integers(1, 20).map(lambda half: 2 * half))
def test_a_thinned_curve_holds_reports_only_and_few_of_them(values: list[float], limit: int):
    """A shortened curve has only points of the original curve, in order, and at most `limit` + 2.

    It has the first and the last point, one with the lowest and one with the highest value.
    """
    points = list(enumerate(values))
    curve = series(points, limit)
    kept = list(zip(curve.x, curve.y, strict=True))
    assert set(kept) <= set(points)
    assert list(curve.x) == sorted(set(curve.x))
    assert len(kept) <= limit + 2
    if values:
        assert {min(values), max(values)} <= set(curve.y)
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    if len(values) <= limit:
        assert kept == points
