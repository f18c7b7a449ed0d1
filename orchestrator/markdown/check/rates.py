"""Compute sequences per second from each speed in a row of a table."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.printed_numbers import NumberRange
from orchestrator.markdown.meaning.units import Quantity

HALF = Fraction(1, 2)
# The mean of rates is not the rate of the mean time: they differ by at most this part.
_AVERAGES = Fraction(1, 100)


class Rate(NamedTuple):
    """A printed time or rate, and the sequences per second of all GPUs computed from it."""

    number: RowNumber
    sequences_per_second: NumberRange


def rates(row: BenchmarkRow, units: Fraction = HALF) -> Iterator[Rate]:
    """Compute sequences per second from every time and every rate in a row.

    A time or a rate is left out if the row lacks a size that the computation needs, e.g. the global
    batch size. units: the possible rounding error of a printed number, in units of its last digit.
    """
    batch = _count(row, Meaning.GLOBAL_BATCH_SIZE)
    for quantity, number in row.paces:
        pace = number.printed.interval(units)
        match quantity:
            case Quantity.SAMPLES_PER_SECOND:
                rate: NumberRange | None = pace
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


def throughput(row: BenchmarkRow) -> Iterator[TableFinding]:
    """Find times and rates of one row that contradict each other.

    All times and rates of a row describe the same run: seconds · samples/s is the global batch
    size. A difference of one percent is accepted, because the page may have averaged the times and
    the rates separately.
    """
    row_rates = list(rates(row))
    world = row.numbers.get(Meaning.WORLD_SIZE)
    for index in range(1, len(row_rates)):
        first, other = row_rates[0], row_rates[index]
        first_speed = first.sequences_per_second * NumberRange(1 - _AVERAGES, 1 + _AVERAGES)
        other_speed = other.sequences_per_second
        if first_speed.meets(other_speed):
            continue
        # A rate may be of one GPU although its column does not state this.
        if world and any(
            (each * world.printed.interval()).meets(rest)
            for number, each, rest in (
                (first.number, first_speed, other_speed),
                (other.number, other_speed, first_speed),
            )
            if not number.per_gpu
        ):
            continue
        wider = [rate.sequences_per_second for rate in rates(row, Fraction(3, 2))]
        yield finding(
            row,
            FindingKind.THROUGHPUT,
            f"{first.number.shown} means {float(first_speed.middle):.4g} sequences per second, "
            f"but {other.number.shown} means {float(other_speed.middle):.4g}",
            last_digit_only=wider[0].meets(wider[index]),
        )


def _count(row: BenchmarkRow, meaning: Meaning) -> NumberRange | None:
    number = row.numbers.get(meaning)
    return number.printed.interval() if number else None
