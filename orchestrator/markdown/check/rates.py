"""How fast a row of a table says a run is, whichever way it says it: sequences per second."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.intervals import Interval
from orchestrator.markdown.meaning.table_rows import Number, PrintedRow
from orchestrator.markdown.meaning.units import Quantity

HALF = Fraction(1, 2)


class Rate(NamedTuple):
    """The number that says it, and the sequences per second of all GPUs that follow."""

    number: Number
    sequences_per_second: Interval


def rates(row: PrintedRow, units: Fraction = HALF) -> Iterator[Rate]:
    """Yield what follows from each time and rate of a row, where the sizes it takes are known.

    `units` is how far off a printed number may be, in units of its last digit.
    """
    batch = _count(row, Meaning.GLOBAL_BATCH_SIZE)
    for quantity, number in row.paces:
        pace = number.printed.interval(units)
        match quantity:
            case Quantity.SAMPLES_PER_SECOND:
                rate: Interval | None = pace
            case Quantity.TOKENS_PER_SECOND:
                length = _count(row, Meaning.SEQ_LENGTH)
                rate = pace / length if length else None
            case Quantity.ITERATIONS_PER_SECOND:
                rate = pace * batch if batch else None
            case _:
                rate = batch / pace if batch else None
        if number.per_gpu:
            world = _count(row, Meaning.WORLD_SIZE)
            rate = rate * world if rate and world else None
        if rate:
            yield Rate(number, rate)


def _count(row: PrintedRow, meaning: Meaning) -> Interval | None:
    number = row.numbers.get(meaning)
    return number.printed.interval() if number else None
