"""Find rows whose TFLOPs contradict the formula that the page's other rows imply.

The formula and the sequence length of a page may be unknown. But if all rows use the same formula,
TFLOPs · GPUs / (model size · sequences per second) is the same number in every row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.check.rates import HALF, rates
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkTable
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning, is_ours
from orchestrator.markdown.meaning.printed_numbers import NumberRange, most_common

# How many rows, and which part of all rows, must agree before another row is reported.
_FEWEST, _PART = 3, Fraction(3, 4)
# A smaller table is compared with all tables of its page.
_SMALL = 4
# So many sizes, so far apart, cannot agree by an exact formula. The page uses BigScience's.
_MANY_SIZES, _FAR_APART = 4, 8
# A row that differs by one of these factors is not reported: it was computed in another way, e.g.
# with another sequence length or without recomputation.
_OTHER_WAYS = tuple(Fraction(number) for number in ("1/4", "1/2", "3/4", "4/3", "2", "4"))
_GIBI = Fraction(2**30, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rated:
    """A row for which FLOPs / (parameters · sequences) can be computed.

    work: the sequences per second and GPU; multiplied by the sequence length if the table has a
    column of sequence lengths.
    """

    row: BenchmarkRow
    tflops: RowNumber
    size: RowNumber
    work: NumberRange

    def flops(self, *, exact_size: bool, units: Fraction = HALF) -> NumberRange:
        size = self.size.printed.interval(Fraction(0) if exact_size else HALF)
        return self.tflops.printed.interval(units) / (self.work * size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Agreement:
    """The value on which most rows agree: FLOPs / (parameters · sequences).

    rows: how many rows agree.
    flops: the range of the value.
    exact_size: True if the rows agree when each printed model size is taken as exact. False if they
        agree only when a model may have any size that rounds to its printed size.
    sizes: the model sizes of the rows that agree.
    """

    rows: int
    flops: NumberRange
    exact_size: bool
    sizes: frozenset[Fraction]

    def tells_of(self, size: Fraction) -> bool:
        """Return whether a row with this model size must have the FLOPs on which most rows agree.

        These FLOPs are per token and parameter. A row must have them in either of two cases:

        - The size is between the smallest and the largest size of the rows that agree.
        - The rows that agree have at least 4 sizes, the largest at least 8 times the smallest, and
          `exact_size` is true. So many sizes agree only if the page's formula uses nothing but the
          model size.

        Any other row may differ slightly, because an exact formula for FLOPs depends on more than
        the model size.
        """
        low, high = min(self.sizes), max(self.sizes)
        any_size = len(self.sizes) >= _MANY_SIZES and high >= low * _FAR_APART and self.exact_size
        return any_size or low <= size <= high


def tflops_unlike_the_others(tables: Sequence[BenchmarkTable]) -> Iterator[TableFinding]:
    """Find rows whose FLOPs / (parameters · sequences) differ from the value of most rows.

    This value is computed from TFLOPs, model size, speed and number of GPUs. A row is compared
    with the other rows of its table. If the table has fewer than 4 rows and they do not
    agree, the row is compared with all rows of the page.

    Tables written by `teralog report` are not checked. Their exact formula gives different
    values for different models, and for runs with and without recomputation.
    """
    rated = [_rated(table) for table in tables if not is_ours(table.columns.titles)]
    page = _agreement([row for rows in rated for row in rows])
    for rows in rated:
        own = _agreement(rows)
        if own and page and page.exact_size and page.flops.meets(own.flops):
            own = replace(own, sizes=own.sizes | page.sizes)
        agreement = own or (page if len(rows) < _SMALL else None)
        if agreement:
            yield from _unlike(rows, agreement)


def _rated(table: BenchmarkTable) -> list[_Rated]:
    rated = []
    for row in table.rows:
        size = row.numbers.get(Meaning.PARAMETERS)
        tflops = row.numbers.get(Meaning.TFLOPS_PER_GPU)
        world = row.numbers.get(Meaning.WORLD_SIZE)
        rate = next(rates(row), None)
        if size and tflops and world and rate:
            work = rate.sequences_per_second / world.printed.interval()
            length = row.numbers.get(Meaning.SEQ_LENGTH)
            # Only a column is used: a note may apply to only some sections of the page.
            if length and length.line is None:
                work *= length.printed.interval()
            rated.append(_Rated(row=row, tflops=tflops, size=size, work=work))
    return rated


def _agreement(rows: Sequence[_Rated]) -> _Agreement | None:
    """Return the FLOPs / (parameters · sequences) on which most rows agree: at least 3/4 of them.

    Returns None if fewer than 3/4 of the rows agree, or fewer than 3 rows.
    """
    if len(rows) < _FEWEST:
        return None
    for exact_size in (True, False):
        flops = [row.flops(exact_size=exact_size) for row in rows]
        count, common = most_common(flops)
        if count >= _FEWEST and count >= len(rows) * _PART:
            agreeing = (row for row, each in zip(rows, flops, strict=True) if each.meets(common))
            return _Agreement(
                rows=count,
                flops=common,
                exact_size=exact_size,
                sizes=frozenset(row.size.printed.value for row in agreeing),
            )
    return None


def _unlike(rows: Sequence[_Rated], agreement: _Agreement) -> Iterator[TableFinding]:
    common = agreement.flops
    for row in rows:
        own = row.flops(exact_size=agreement.exact_size)
        ratio = own / common
        if own.meets(common) or not agreement.tells_of(row.size.printed.value):
            continue
        if any(ratio.low <= way <= ratio.high for way in _OTHER_WAYS):
            continue
        wider = row.flops(exact_size=agreement.exact_size, units=Fraction(3, 2))
        likely = common.middle * row.work.middle * row.size.printed.value
        as_if_gibi = (own * NumberRange(_GIBI, _GIBI)).meets(common)
        why = " (a size in units of 2**30 would give the printed value)" if as_if_gibi else ""
        yield finding(
            row.row,
            FindingKind.TFLOPS,
            f"{row.tflops.shown}, but computed as in {agreement.rows} other rows it is "
            f"{row.tflops.printed.rounded(likely)}{why}",
            last_digit_only=wider.meets(common),
        )
