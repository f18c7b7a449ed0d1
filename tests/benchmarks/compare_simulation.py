"""Simulate how often a comparison is wrong, and how often it finds a real difference.

On the simulated cluster, the speed of allocations varies by 40 %, and the speed of equal runs by
2 % (standard deviations). The speed of an allocation also drifts from run to run. Each design of an
experiment is tried TRIALS times without a difference between A and B. Then it is tried TRIALS times
with each of two differences in speed. `python tests/benchmarks/compare_simulation.py [TRIALS]`
prints the table of docs/background/compare.md.
"""

import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.compare.verdict import Comparison, Timing, Verdict, compare_timings

ALLOCATION = math.log(1.4)
RUN = 0.02
DRIFT = 0.05
SEED = 20261121

Noise = Callable[[random.Random], float]
Sides = tuple[list[Timing], list[Timing]]


def normal(spread: float) -> Noise:
    """Return a function that makes normally distributed noise.

    The noise is added to the logarithm of a speed. spread: its standard deviation.
    """
    return lambda chance: chance.gauss(0, spread)


_OF_A_RUN = normal(RUN)
_OF_ALLOCATIONS = normal(ALLOCATION), normal(ALLOCATION)


def heavy(spread: float) -> Noise:
    """Return a function that makes noise in which about one value in ten is disturbed.

    The noise is normally distributed and added to the logarithm of a speed. spread: its standard
    deviation. A disturbed value is drawn with ten times that deviation, as if another job disturbed
    the run.
    """
    return lambda chance: chance.gauss(0, spread * (10 if chance.random() < 0.1 else 1))


def steady(chance: random.Random) -> Callable[[], float]:
    """Return a drift, i.e. a function that returns by how much the speed changes from run to run.

    The change is always the same, 5 % up or 5 % down; which of the two is random.
    """
    pace = chance.choice((-DRIFT, DRIFT))
    return lambda: pace


def wandering(chance: random.Random) -> Callable[[], float]:
    """Return a drift, i.e. a function that returns by how much the speed changes from run to run.

    Each change is random, with a standard deviation of 5 %.
    """
    return lambda: chance.gauss(0, DRIFT)


def still(chance: random.Random) -> Callable[[], float]:
    """Return a drift, i.e. a function of changes of the speed, whose changes are all 0."""
    return lambda: 0.0


@dataclass(frozen=True)
class Design:
    """A design of an experiment: runs that compare A and B on a simulated cluster.

    make: a function that simulates the experiment. Its arguments are a random generator and the
    logarithm of the factor by which A is faster than B. It returns the runs of A and the runs of B.
    """

    name: str
    make: Callable[[random.Random, float], Sides]

    def verdict(self, seed: int, gain: float) -> Comparison:
        """Simulate an experiment in which A is faster by `gain`; return the comparison of its runs.

        gain: a fraction, e.g. 0.05 for 5 %.
        """
        return compare_timings(*self.make(random.Random(seed), math.log1p(gain)))


def interleaved(
    blocks: int,
    drift: Callable[[random.Random], Callable[[], float]],
    *,
    allocations: bool = True,
    noise: Noise = _OF_A_RUN,
) -> Callable[[random.Random, float], Sides]:
    """Return a design: runs in blocks of A B B A or B A A B.

    allocations: if true, each block has its own allocation; if false, all blocks have the same one.
    drift: makes, for each allocation, a function that returns the change of the speed from run to
    run.
    noise: makes the noise of a run.
    """

    def make(chance: random.Random, gain: float) -> Sides:
        sides: Sides = ([], [])
        level, step = 0.0, drift(chance)
        for block in range(blocks):
            if allocations or not block:
                level, step = chance.gauss(0, ALLOCATION), drift(chance)
            for place, side in enumerate(chance.choice(((0, 1, 1, 0), (1, 0, 0, 1)))):
                level += step()
                speed = math.exp(level + noise(chance) + gain * (side == 0))
                where = str(block) if allocations else "one"
                sides[side].append(Timing(speed, where, block, place))
        return sides

    return make


def apart(
    count: int,
    other: int,
    noises: tuple[Noise, Noise] = _OF_ALLOCATIONS,
) -> Callable[[random.Random, float], Sides]:
    """Return a design: `count` runs of A and `other` runs of B, each in a separate allocation.

    noises: the functions that make the noise of a run of A, and of a run of B.
    """

    def make(chance: random.Random, gain: float) -> Sides:
        return (
            [Timing(math.exp(noises[0](chance) + gain), f"a{i}") for i in range(count)],
            [Timing(math.exp(noises[1](chance)), f"b{i}") for i in range(other)],
        )

    return make


def in_a_row(count: int) -> Callable[[random.Random, float], Sides]:
    """Return a design with a common mistake: A and B are in different allocations, not interleaved.

    One allocation has `count` runs of A, another has `count` runs of B.
    """

    def make(chance: random.Random, gain: float) -> Sides:
        sides: Sides = ([], [])
        for side in (0, 1):
            level, step = chance.gauss(0, ALLOCATION), wandering(chance)
            for place in range(count):
                level += step()
                speed = math.exp(level + chance.gauss(0, RUN) + gain * (side == 0))
                sides[side].append(Timing(speed, str(side), None, place))
        return sides

    return make


def designs() -> list[Design]:
    """Return the designs of experiments to simulate."""
    wide, narrow = normal(ALLOCATION), normal(ALLOCATION / 4)
    return [
        *(
            Design(f"{blocks} blocks, steady drift", interleaved(blocks, steady))
            for blocks in (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20)
        ),
        *(
            Design(f"{blocks} blocks, wandering drift", interleaved(blocks, wandering))
            for blocks in (6, 8, 12, 16, 20)
        ),
        Design(
            "8 blocks in one allocation, steady drift", interleaved(8, steady, allocations=False)
        ),
        Design(
            "8 blocks in one allocation, wandering", interleaved(8, wandering, allocations=False)
        ),
        Design("8 blocks, steady drift, heavy tails", interleaved(8, steady, noise=heavy(RUN))),
        Design("8 and 8 runs in two allocations", in_a_row(8)),
        *(
            Design(f"{count} and {other} runs, an allocation each", apart(count, other))
            for count, other in (
                (3, 3),
                (4, 4),
                (5, 5),
                (6, 6),
                (8, 8),
                (4, 12),
                (1, 49),
                (10, 10),
                (16, 16),
            )
        ),
        Design("8 and 8 runs, heavy tails", apart(8, 8, (heavy(0.1), heavy(0.1)))),
        Design("16 and 16 runs, heavy tails", apart(16, 16, (heavy(0.1), heavy(0.1)))),
        Design("4 and 12 runs, A scatters four times as much", apart(4, 12, (wide, narrow))),
        Design("8 and 8 runs, A scatters four times as much", apart(8, 8, (wide, narrow))),
        Design("12 and 4 runs, A scatters four times as much", apart(12, 4, (wide, narrow))),
    ]


def share(design: Design, gain: float, trials: int, seed: int = SEED) -> Counter[Verdict]:
    """Simulate `trials` experiments of a design, and return how often each verdict occurred.

    gain: how much faster A is than B, e.g. 0.05 for 5 %.
    """
    verdicts = (design.verdict(seed + trial, gain).verdict for trial in range(trials))
    return Counter(verdicts)


def main() -> None:
    """Print for each design how often it is wrong, and how often it finds a real difference."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("| design | wrong, of no difference | finds 5 % | finds 20 % | wrong side |")
    print("|---|--:|--:|--:|--:|")
    for design in designs():
        none, small, large = (share(design, gain, trials) for gain in (0.0, 0.05, 0.2))
        wrong = none[Verdict.FASTER] + none[Verdict.SLOWER]
        sides = small[Verdict.SLOWER] + large[Verdict.SLOWER]
        print(
            f"| {design.name} | {wrong / trials:.1%} | {small[Verdict.FASTER] / trials:.1%} "
            f"| {large[Verdict.FASTER] / trials:.1%} | {sides / 2 / trials:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
