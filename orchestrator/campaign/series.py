"""Find the series of runs for `give_up`, and the runs that are given up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ParameterSeries:
    """Runs that differ only in one parameter, sorted by their value of this parameter."""

    parameter: str
    values: tuple[Any, ...]
    run_ids: tuple[str, ...]

    def before(self, run_id: str) -> tuple[str, ...]:
        """Return the ids of the runs that come before the run `run_id` in this series."""
        return self.run_ids[: self.run_ids.index(run_id)]

    def given_up(self, run_id: str, failed: Callable[[str], bool]) -> str | None:
        """Return a sentence on why the run `run_id` must not start; None if it may start.

        It must not start if a run before it in the series has failed. failed: a function that
        returns whether the run with a given id failed.
        """
        for other, value in zip(self.before(run_id), self.values, strict=False):
            if failed(other):
                return f"given up: {self.parameter}={value} failed"
        return None


def all_series(parameter: str, runs: Iterable[tuple[str, str, Any]]) -> dict[str, ParameterSeries]:
    """Return the series of each run, by the run's id.

    A series consists of the runs that differ at most in `parameter`.
    runs: for each run, its id, a text of its other parameters, and its value of `parameter`.
        Two runs are in the same series if their texts are equal.
    """
    groups: dict[str, list[tuple[Any, str]]] = {}
    for run_id, rest, value in runs:
        groups.setdefault(rest, []).append((value, run_id))
    series_of_runs = {}
    for members in groups.values():
        values, run_ids = zip(*sorted(members), strict=True)
        series_of_runs.update(dict.fromkeys(run_ids, ParameterSeries(parameter, values, run_ids)))
    return series_of_runs
