"""Simulate how often `teralog history` is wrong, and how often it finds a real change.

`python tests/benchmarks/history_simulation.py [TRIALS]` prints the table of
docs/background/history.md. It makes TRIALS trials without a change of the speed. For each of two
sizes of a change, it makes TRIALS / 16 trials. As in `compare_simulation`, runs of one
configuration vary by 2 %, and allocations by 40 %.
"""

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.compare.history import run_history
from orchestrator.compare.past_runs import PastRun

ALLOCATION = math.log(1.4)
RUN = 0.02
SEED = 20261122


@dataclass(frozen=True)
class Cluster:
    """A simulated cluster that makes runs of one configuration, one after another.

    noise: a function of a random generator and a number of runs; it returns the logarithms of the
    runs' step times. together: how many runs share an allocation.
    """

    name: str
    runs: int
    noise: Callable[[random.Random, int], list[float]]
    together: int = 1

    @property
    def half(self) -> int:
        """Return how many runs precede the simulated change: half of all runs.

        The number is rounded down to whole allocations, so the speed does not change within an
        allocation.
        """
        return self.runs // self.together // 2 * self.together


def runs_before_change(cluster: Cluster, seed: int, gain: float) -> int | None:
    """Return how many runs precede the change that `teralog history` finds; None if it finds none.

    gain: how much longer steps take in the second half of the simulated runs, e.g. 0.05 for 5 %.
    """
    chance = random.Random(seed)
    times = [
        math.exp(log + (math.log1p(gain) if index >= cluster.half else 0.0))
        for index, log in enumerate(cluster.noise(chance, cluster.runs))
    ]
    runs = [
        PastRun(
            campaign="made-up",
            run_id=f"{index:012x}",
            label="",
            attempt=1,
            allocation=str(index // cluster.together),
            step_seconds=seconds,
        )
        for index, seconds in enumerate(times)
    ]
    turn = run_history(runs).shown
    return None if turn is None else runs.index(turn.first)


def normal(chance: random.Random, runs: int) -> list[float]:
    """Return the noise of each run: normally distributed, with a standard deviation of 2 %."""
    return [chance.gauss(0, RUN) for _ in range(runs)]


def heavy(chance: random.Random, runs: int) -> list[float]:
    """Return the noise of each run: normally distributed, but about one run in ten is disturbed.

    The standard deviation is 20 % for a disturbed run, and 2 % for any other run.
    """
    return [chance.gauss(0, RUN * (10 if chance.random() < 0.1 else 1)) for _ in range(runs)]


def in_allocations(together: int) -> Callable[[random.Random, int], list[float]]:
    """Return a function that makes noise: one part for each run, another for each allocation.

    The standard deviation is 2 % for the first part and 40 % for the second. An allocation has
    `together` runs.
    """

    def noise(chance: random.Random, runs: int) -> list[float]:
        levels = [chance.gauss(0, ALLOCATION) for _ in range(-(-runs // together))]
        return [levels[index // together] + chance.gauss(0, RUN) for index in range(runs)]

    return noise


def lasting(chance: random.Random, runs: int) -> list[float]:
    """Return the noise of each run: half the noise of the run before it, plus new noise.

    So a run after a slow run is often slow, too. The standard deviation of a run's noise is 2 %.
    """
    logs = [chance.gauss(0, RUN)]
    for _ in range(runs - 1):
        logs.append(0.5 * logs[-1] + chance.gauss(0, RUN * math.sqrt(0.75)))
    return logs


QUIET = [
    Cluster("7 runs", 7, normal),
    Cluster("8 runs", 8, normal),
    Cluster("12 runs", 12, normal),
    Cluster("20 runs", 20, normal),
    Cluster("8 runs, heavy tails", 8, heavy),
    Cluster("20 runs, heavy tails", 20, heavy),
    Cluster("24 runs, three in an allocation", 24, in_allocations(3), 3),
]
REAL = [Cluster("12 runs", 12, normal), Cluster("20 runs", 20, normal)]
TABLE = [
    *QUIET,
    Cluster("20 runs, half of the noise lasts", 20, lasting),
]


def main() -> None:
    """Print the table of the simulated histories."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    print("| runs | wrong, of no change | finds 5 % | finds 10 % | 5 %: place within 1 |")
    print("|---|--:|--:|--:|--:|")
    for cluster in TABLE:
        rates = []
        for gain in (0.0, 0.05, 0.1):
            count = trials // 16 if gain else trials
            places = [runs_before_change(cluster, SEED + trial, gain) for trial in range(count)]
            shown = [place for place in places if place is not None]
            rates.append(f"{100 * len(shown) / count:.1f}%")
            if gain == 0.05:
                near = sum(abs(place - cluster.half) <= cluster.together for place in shown)
                exact = f"{100 * near / len(shown):.1f}%" if shown else "—"
        print(f"| {cluster.name} | {' | '.join(rates)} | {exact} |", flush=True)


if __name__ == "__main__":
    main()
