"""Shorten curves for a page, and note how many values were left out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of a log: the values `y` at the iterations `x`.

    reports: how many step reports contain a value.
    every: 1 if each report has its own point. Otherwise, how many consecutive reports are shown as
        two points: their lowest and their highest value.
    not_finite: how many values are nan or inf, which a curve cannot show.
    """

    x: tuple[int, ...]
    y: tuple[float, ...]
    reports: int
    every: int
    not_finite: int


def series(points: Iterable[tuple[int, float | None]], limit: int) -> Curve:
    """Return a curve of at most `limit` points, plus its first and its last point.

    If there are more points, they are grouped, and each group keeps its lowest and its highest
    value. So outliers stay visible, and every shown value is from the log.
    """
    shown_points = [(x, y) for x, y in points if y is not None]
    finite = [(x, y) for x, y in shown_points if math.isfinite(y)]
    every = 1 if len(finite) <= limit else math.ceil(len(finite) / (limit // 2))
    kept = finite if every == 1 else _extremes(finite, every)
    return Curve(
        tuple(x for x, _ in kept),
        tuple(float(f"{y:.6g}") for _, y in kept),
        len(shown_points),
        every,
        len(shown_points) - len(finite),
    )


def _extremes(points: list[tuple[int, float]], every: int) -> list[tuple[int, float]]:
    values = [y for _, y in points]
    kept = {0, len(points) - 1}
    for begin in range(0, len(points), every):
        places = range(begin, min(begin + every, len(points)))
        kept |= {min(places, key=values.__getitem__), max(places, key=values.__getitem__)}
    return [points[place] for place in sorted(kept)]
