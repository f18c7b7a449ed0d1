"""What contradicts itself in tables of benchmarks that people wrote: suggestions, nothing mended.

A printed number stands for all that round to it. Two numbers contradict one another if nothing can
be both. A rule that could be wrong about a table because it does not know enough stays silent:
after one false alarm nobody reads the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from orchestrator.hardware.gpus import Gpu, matching
from orchestrator.markdown.check.changes import (
    fitting,
    follows_from_any,
    in_order,
    misfits,
    nearest,
    plain_number,
    read_change,
)
from orchestrator.markdown.check.findings import Finding, Kind, finding
from orchestrator.markdown.check.formulas import unlike_the_others
from orchestrator.markdown.check.peaks import named_gpus, peak_tflops, usual_tflops
from orchestrator.markdown.check.products import global_batch_size, world_size
from orchestrator.markdown.check.rates import rates
from orchestrator.markdown.check.sizes import tells_of_other_models, wrong_size
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.intervals import Interval, Printed
from orchestrator.markdown.meaning.table_rows import PrintedRow, PrintedTable, read_tables

# The mean of rates is not the rate of the mean time: such averages differ by this part at most.
_AVERAGES = Fraction(1, 100)
# The cells of a column, each with its row.
_Cells = Sequence[tuple[PrintedRow, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in a document, in the order of its lines, and in how many tables."""

    findings: tuple[Finding, ...]
    tables: int


def check_document(file: str, data: bytes, gpus: Sequence[Gpu] = ()) -> Checked:
    """Return what is wrong in the tables of a markdown document.

    `gpus`: which the tables were measured on, for then it is said too which rows are slow; where
    there are none, the GPUs that the page names give the peak. Raises UserError where a comment
    sets what cannot be set.
    """
    tables = read_tables(file, data)
    gpt_only = not tells_of_other_models(data)
    named = named_gpus(data)
    found: list[Finding] = []
    for table in tables:
        measured_on = gpus or (matching(table.gpu) if table.gpu else named)
        for row in table.rows:
            found += global_batch_size(row)
            found += world_size(row)
            found += throughput(row)
            found += tflops_range(row, measured_on, judge_tuning=bool(gpus))
            found += model_size(row) if gpt_only else ()
    found += relative_changes(tables)
    found += tflops_unlike_the_others(tables)
    found.sort(key=lambda one: one.line)
    return Checked(findings=tuple(found), tables=len(tables))


def throughput(row: PrintedRow) -> Iterator[Finding]:
    """Times and rates of one row are of one run: seconds · samples/s is the global batch size.

    To a hundredth: they may be averages, each of its own.
    """
    found = list(rates(row))
    world = row.numbers.get(Meaning.WORLD_SIZE)
    for index in range(1, len(found)):
        first, other = found[0], found[index]
        one = first.sequences_per_second * Interval(1 - _AVERAGES, 1 + _AVERAGES)
        two = other.sequences_per_second
        if one.meets(two):
            continue
        # A rate may be of one GPU without saying so.
        if world and any(
            (each * world.printed.interval()).meets(rest)
            for number, each, rest in ((first.number, one, two), (other.number, two, one))
            if not number.per_gpu
        ):
            continue
        wider = [rate.sequences_per_second for rate in rates(row, Fraction(3, 2))]
        yield finding(
            row,
            Kind.THROUGHPUT,
            f"{first.number.shown} makes {float(one.middle):.4g} sequences per second, "
            f"but {other.number.shown} makes {float(two.middle):.4g}",
            last_digit_only=wider[0].meets(wider[index]),
        )


def tflops_range(row: PrintedRow, gpus: Sequence[Gpu], *, judge_tuning: bool) -> Iterator[Finding]:
    """No GPU does more than its peak; what is far from usual is a bug, or badly tuned."""
    number = row.numbers.get(Meaning.TFLOPS_PER_GPU)
    if number is None or not gpus:
        return
    low, high = (number.printed.interval().low, number.printed.interval().high)
    peak, usual = peak_tflops(gpus), usual_tflops(gpus)
    names = " or ".join(dict.fromkeys(gpu.model for gpu in gpus))
    if peak is not None and low > peak:
        total = "; if it is of all GPUs, the title should say so"
        yield finding(
            row,
            Kind.TFLOPS_ABOVE_PEAK,
            f"{number.shown} is above the peak of {names}, {peak:g}{total}",
        )
    elif usual and low > usual.too_high:
        yield finding(
            row,
            Kind.TFLOPS_TOO_HIGH,
            f"{number.shown} is above {usual.too_high:g}, which no training reaches on {names}: "
            "look for a bug in the calculation",
        )
    elif usual and judge_tuning and high < usual.mistuned:
        yield finding(
            row,
            Kind.TFLOPS_MISTUNED,
            f"{number.shown} is below {usual.mistuned:g}: badly tuned for {names}",
        )


def model_size(row: PrintedRow) -> Iterator[Finding]:
    """A size is its shape's number of parameters in 10**9."""
    wrong = wrong_size(row)
    if wrong is None:
        return
    layers, hidden = (
        row.numbers[meaning].shown for meaning in (Meaning.NUM_LAYERS, Meaning.HIDDEN_SIZE)
    )
    why = " (it counts in 2**30, not in 10**9)" if wrong.is_gibi else ""
    yield finding(
        row,
        Kind.MODEL_SIZE,
        f"{wrong.number.shown}, but {layers} and {hidden} make {wrong.likely}{why}",
        last_digit_only=wrong.last_digit_only,
    )


def relative_changes(tables: Sequence[PrintedTable]) -> Iterator[Finding]:
    """A change in a cell follows from its number and that of another row in its column.

    Which row is meant, nobody says: one that fits anywhere under this title, in any table, is taken
    to be it, and only where there is none the nearest row above is held against it.
    """
    columns: dict[str, list[_Cells]] = {}
    for table in tables:
        for index, title in enumerate(table.titles):
            cells = [(row, row.cells[index]) for row in table.rows if index < len(row.cells)]
            columns.setdefault(title, []).append(cells)
    for title, same_title in columns.items():
        yield from _changes_below(title, same_title)


def tflops_unlike_the_others(tables: Sequence[PrintedTable]) -> Iterator[Finding]:
    """TFLOPs follow from size, speed and GPUs in the same way in every row."""
    for unlike in unlike_the_others(tables):
        why = " (the size in 2**30 would give what is printed)" if unlike.as_if_gibi else ""
        yield finding(
            unlike.row,
            Kind.TFLOPS,
            f"{unlike.tflops.shown}, but worked out as in {unlike.agreeing} other rows it is "
            f"{unlike.likely}{why}",
            last_digit_only=unlike.last_digit_only,
        )


def _changes_below(title: str, columns: Sequence[_Cells]) -> Iterator[Finding]:
    changes = [
        [(row, change) for row, text in cells if (change := read_change(text, title))]
        for cells in columns
    ]
    if not any(changes):
        return
    numbers = [_numbers_of(cells) for cells in columns]
    everywhere = in_order(number for column in numbers for _, number in column)
    for changed, column in zip(changes, numbers, strict=True):
        for row, change in changed:
            partner = nearest(column, row.line)
            if partner is None or follows_from_any(change, everywhere):
                continue
            line, number = partner
            wrong = misfits(change, number)
            said = " and ".join(misfit.said for misfit in wrong)
            follows = " and ".join(misfit.follows for misfit in wrong)
            fits = fitting(change)
            hint = f"; both would follow from {_shown(fits)} there" if fits else ""
            yield finding(
                row,
                Kind.RELATIVE_CHANGE,
                f"{title} {change.text} says {said}, but from {_shown(number)} (line {line}) "
                f"it is {follows}{hint}",
                last_digit_only=all(misfit.last_digit_only for misfit in wrong),
            )


def _numbers_of(cells: _Cells) -> list[tuple[int, Printed]]:
    """Return line and number of every cell that holds one, 0 left out."""
    numbers = ((row.line, plain_number(text)) for row, text in cells)
    return [(line, number) for line, number in numbers if number and number.value]


def _shown(number: Printed) -> str:
    return number.rounded(number.value)
