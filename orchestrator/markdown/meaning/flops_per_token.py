"""Compute the FLOPs per token that rows of performance tables imply, and how a page counts FLOPs.

TFLOP/s per GPU divided by tokens/s per GPU are FLOPs per token, whatever the batch and the
parallelism.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from orchestrator.markdown.meaning.benchmark_pages import BenchmarkTable
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning, title_key
from orchestrator.markdown.meaning.printed_numbers import NumberRange, Printed, most_common
from orchestrator.markdown.meaning.units import Quantity
from orchestrator.markdown.meaning.ways_to_count import (
    COUNTED_KEYS,
    Group,
    Way,
    flops_per_token,
    honest_ways,
)
from orchestrator.model.counting import Keys
from orchestrator.model.named import NamedModel

_TERA = 10**12
# The largest accepted relative difference. TFLOP/s and tokens/s may be averages over different
# steps, and programs often leave out routers.
SLACK = Fraction(1, 100)
# The usual count of model FLOPs, for pages without a row that shows another count.
_USUAL: Keys = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedRow:
    """A row that names its model, and whose FLOPs per token can be computed.

    group: a key that is equal for all rows that should have equal FLOPs per token.
    model: the published model; None if the named model is unknown.
    tflops: TFLOP/s per GPU.
    rate: the printed number from which `tokens` was computed.
    tokens: tokens/s per GPU.
    flops: FLOPs per token: `tflops` divided by `tokens`.
    """

    row: BenchmarkRow
    group: Group
    model: NamedModel | None
    seq_length: int
    tflops: RowNumber
    rate: RowNumber
    tokens: NumberRange
    flops: NumberRange

    @property
    def says_model_flops(self) -> bool:
        """Whether the column's title states that recomputation is not counted."""
        return Meaning.MODEL_TFLOPS_PER_GPU in self.row.numbers

    def tflops_if(self, flops: float) -> Fraction:
        """Compute the TFLOP/s per GPU from the row's speed, if a token takes `flops` FLOPs."""
        return self.tokens.middle * Fraction(flops) / _TERA


def rated_rows(tables: Iterable[BenchmarkTable]) -> list[RatedRow]:
    """Return the rows that name a model, and from which FLOPs per token can be computed."""
    return [rated for table in tables for row in table.rows if (rated := rated_row(row))]


def rated_row(row: BenchmarkRow) -> RatedRow | None:
    """Return a row with its FLOPs per token; None if they cannot be computed from the row."""
    length = row.numbers.get(Meaning.SEQ_LENGTH)
    numbers = list(_tflops(row))
    if length is None or len(numbers) != 1:
        return None
    group, speed = group_of(row, length.whole), tokens_per_second_per_gpu(row)
    if group is None or speed is None:
        return None
    rate, tokens = speed
    work = numbers[0].printed.interval() / tokens
    return RatedRow(
        row=row,
        group=group,
        model=row.model,
        seq_length=length.whole,
        tflops=numbers[0],
        rate=rate,
        tokens=tokens,
        flops=NumberRange(work.low * _TERA, work.high * _TERA),
    )


def tokens_per_second_per_gpu(row: BenchmarkRow) -> tuple[RowNumber, NumberRange] | None:
    """Return a row's printed speed, and the range of tokens/s per GPU that follows from it.

    Returns None if the speed or a needed size is unknown. Some programs round the sequences per
    second of all GPUs to a whole number before they compute tokens/s per GPU. If the printed
    tokens/s per GPU may come from such a program, the range includes this rounding error.
    """
    length, world = (row.numbers.get(each) for each in (Meaning.SEQ_LENGTH, Meaning.WORLD_SIZE))
    batch = row.numbers.get(Meaning.GLOBAL_BATCH_SIZE)
    for quantity, number in sorted(row.paces, key=lambda pace: not pace[1].per_gpu):
        speed = number.printed.interval()
        by = world.printed.interval() if world else None
        match quantity:
            case Quantity.TOKENS_PER_SECOND if number.per_gpu:
                unit = Fraction(length.whole, world.whole) if length and world else Fraction(0)
                coarse = unit and (number.printed.value / unit).denominator == 1
                unit = max(number.printed.unit, unit) if coarse else number.printed.unit
                return number, Printed(number.printed.value, unit).interval()
            case Quantity.TOKENS_PER_SECOND if by:
                return number, speed / by
            case Quantity.SAMPLES_PER_SECOND if length and (by or number.per_gpu):
                tokens = speed * length.printed.interval()
                return number, tokens if number.per_gpu or not by else tokens / by
            case Quantity.STEP_SECONDS if length and batch and by:
                return number, batch.printed.interval() * length.printed.interval() / speed / by
    return None


def keys_of_page(rated: Sequence[RatedRow]) -> Keys:
    """Return which attention keys most rows of a page include in their FLOPs.

    The result is "full" (all keys), "window" (only the keys in a window) or "causal" (only the
    keys that the causal mask leaves visible). If the rows do not show which keys are included,
    the result is "window".
    """
    fitting = Counter[Keys]()
    for rated_row in rated:
        counts = {keys: _fits(rated_row, keys) for keys in COUNTED_KEYS}
        # A row that agrees with every choice does not show which one the page uses.
        if not all(counts.values()):
            fitting.update(keys for keys, fits in counts.items() if fits)
    return max((_USUAL, *COUNTED_KEYS), key=lambda keys: fitting[keys]) if fitting else _USUAL


def ways_of_page(rated: Sequence[RatedRow], keys: Keys | None = None) -> Mapping[Group, Way]:
    """Return how to count the FLOPs of each published model on a page.

    The result maps the `group` of rows to a way. The way counts all parts of the model. It
    counts a layer of multi-token prediction only if more rows then agree with the model's FLOPs
    per token.

    keys: which attention keys count; None for the keys that most rows of the page count.
    """
    keys = keys or keys_of_page(rated)
    ways = {}
    for group in {rated_row.group: None for rated_row in rated}:
        rows = [rated_row for rated_row in rated if rated_row.group == group and rated_row.model]
        if rows and rows[0].model:
            ways[group] = max(
                honest_ways(rows[0].model, keys),
                key=lambda way: sum(fits_way(rated_row, way) for rated_row in rows),
            )
    return ways


def fits_way(rated_row: RatedRow, way: Way, slack: Fraction = SLACK) -> bool:
    """Return whether this way to count FLOPs gives the FLOPs per token of a row.

    Rounding is allowed, and a relative difference of up to `slack`.
    """
    if rated_row.model is None:
        return False
    flops = Fraction(flops_per_token(rated_row.model, rated_row.seq_length, way))
    return rated_row.flops.meets(NumberRange(flops * (1 - slack), flops * (1 + slack)))


def common_flops(rated: Sequence[RatedRow]) -> tuple[int, NumberRange]:
    """Return the largest number of rows that agree on their FLOPs per token, and the agreed range.

    Rows agree if their FLOPs per token are equal, except for the rounding of the printed numbers
    and a difference of up to 1 %. At least one row is required.
    """
    half = SLACK / 2
    return most_common(
        NumberRange(rated_row.flops.low * (1 - half), rated_row.flops.high * (1 + half))
        for rated_row in rated
    )


def group_of(row: BenchmarkRow, seq_length: int) -> Group | None:
    """Return a key that is equal for all rows that should have equal FLOPs per token.

    It consists of the model's name, the sequence length, and whether only adapters are trained.
    Returns None if the row names no model.
    """
    name = row.model_name
    if name is None:
        return None
    return title_key(name).removeprefix("model"), seq_length, row.trains_adapters


def _fits(rated_row: RatedRow, keys: Keys) -> bool:
    if rated_row.model is None or rated_row.row.trains_adapters:
        return False
    return any(fits_way(rated_row, way) for way in honest_ways(rated_row.model, keys))


def _tflops(row: BenchmarkRow) -> Iterator[RowNumber]:
    for meaning in (Meaning.MODEL_TFLOPS_PER_GPU, Meaning.TFLOPS_PER_GPU):
        if number := row.numbers.get(meaning):
            yield number
