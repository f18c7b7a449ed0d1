"""Check the TFLOP/s of rows that name their model.

The TFLOP/s are compared with the FLOPs in the description of the model, and with other rows
of the same model.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkTable
from orchestrator.markdown.meaning.flops_per_token import (
    SLACK,
    RatedRow,
    common_flops,
    fits_way,
    keys_of_page,
    rated_rows,
    ways_of_page,
)
from orchestrator.markdown.meaning.printed_numbers import NumberRange
from orchestrator.markdown.meaning.ways_to_count import (
    ADAPTERS,
    COUNTED_KEYS,
    PACKED_ADAPTERS,
    Group,
    Way,
    flops_per_token,
    honest_ways,
    other_ways,
)
from orchestrator.model.counting import Keys
from orchestrator.model.named import NamedModel

# The largest relative difference of an explanation. It is smaller than that of accepted counts.
_NEAR = Fraction(1, 250)
_GIGA = 10**9


def named_model_flops(tables: Sequence[BenchmarkTable]) -> Iterator[TableFinding]:
    """Find rows whose TFLOP/s contradict their tokens/s.

    TFLOP/s divided by tokens/s are the FLOPs per token. They are compared with the FLOPs per token
    of the published model that the row names. Rows without a contradiction are then compared with
    each other, if they name the same model.
    """
    rated = rated_rows(tables)
    keys = keys_of_page(rated)
    right: dict[Group, Way] = {}
    odd: dict[NamedModel, list[RatedRow]] = {}
    for group, way in ways_of_page(rated, keys).items():
        rows = [rated_row for rated_row in rated if rated_row.group == group]
        accepted = _accepted(rows, way, keys)
        right[group] = accepted[0]
        for rated_row in rows:
            if rated_row.model and not any(fits_way(rated_row, each) for each in accepted):
                odd.setdefault(rated_row.model, []).append(rated_row)
    for model, rows in odd.items():
        explained = _explanations(model, rows, keys)
        for rated_row in rows:
            yield _unlike_the_model(
                rated_row, model, right[rated_row.group], explained.get(rated_row.row.line)
            )
    named = {rated_row.row.line for rows in odd.values() for rated_row in rows}
    left = [rated_row for rated_row in rated if rated_row.row.line not in named]
    for group in {rated_row.group: None for rated_row in left}:
        yield from _unequal([rated_row for rated_row in left if rated_row.group == group])


def _unequal(rows: Sequence[RatedRow]) -> Iterator[TableFinding]:
    """Yield a finding for each row whose FLOPs per token differ from the most common value.

    rows: rows that should have equal FLOPs per token, because they name the same model.
    """
    count, common = common_flops(rows)
    half = SLACK / 2
    near = NumberRange(common.low * (1 - half), common.high * (1 + half))
    unlike = [row for row in rows if not row.flops.meets(near)] if len(rows) > count else []
    alike = [rated_row for rated_row in rows if rated_row not in unlike]
    for rated_row in unlike:
        others = f"{len(alike)} other rows" if len(alike) > 1 else "another row"
        yield finding(
            rated_row.row,
            FindingKind.UNEQUAL_FLOPS,
            f"{rated_row.tflops.shown} at {rated_row.rate.shown} implies "
            f"{_implied(rated_row)} GFLOPs per token, "
            f"but {others} of the same model (e.g. line {alike[0].row.line}) "
            f"{'imply' if len(alike) > 1 else 'implies'} {_giga(float(common.middle))}",
        )


def _accepted(rows: Sequence[RatedRow], way: Way | None, keys: Keys) -> list[Way]:
    """Return the ways to count FLOPs that are accepted as correct for rows of one model.

    Messages compare a row with the first of these ways. If a column's title is only "TFLOPs",
    its numbers may be hardware FLOPs, and may count attention with or without a causal mask. So
    the ways for these counts are accepted, too.
    """
    model = rows[0].model
    if model is None or way is None:
        return []
    if rows[0].row.trains_adapters:
        return [Way(way.keys, (difference,)) for difference in (ADAPTERS, PACKED_ADAPTERS)]
    accepted = [way, *honest_ways(model, keys)]
    if not all(rated_row.says_model_flops for rated_row in rows):
        accepted += [
            each for counted_keys in COUNTED_KEYS for each in honest_ways(model, counted_keys)
        ]
        accepted += [each for each in other_ways(model, keys) if _recomputes_only(each)]
    return accepted


def _recomputes_only(way: Way) -> bool:
    return len(way.differences) == 1 and way.differences[0].recomputes


def _explanations(model: NamedModel, odd: Sequence[RatedRow], keys: Keys) -> dict[int, Way]:
    """Find out how the wrong TFLOP/s of rows may have been computed.

    The result maps the line number of a row to the way to count FLOPs that explains the row. A way
    explains a row if it gives the row's FLOPs per token. Rows that no known way explains are left
    out.

    The way that explains most rows is chosen first, then the way that explains most of the
    remaining rows, and so on. If several ways explain the same number of rows, the one with the
    fewest differences from the model's description is chosen. Other attention
    keys than `keys` count as one more difference.

    odd: the rows with wrong TFLOP/s. keys: the attention keys that the page counts.
    """
    explained: dict[int, Way] = {}
    left = list(odd)
    while left:
        candidates = [
            (
                sum(fits_way(rated_row, way) for rated_row in left),
                -len(way.differences) - (way.keys != keys),
                -distance,
                way,
            )
            for way in other_ways(model, keys)
            if (distance := _distance(model, left, way)) is not None
        ]
        if not candidates:
            break
        way = max(candidates, key=lambda each: each[:3])[3]
        explained |= {rated_row.row.line: way for rated_row in left if fits_way(rated_row, way)}
        left = [rated_row for rated_row in left if rated_row.row.line not in explained]
    return explained


def _distance(model: NamedModel, rows: Sequence[RatedRow], way: Way) -> float | None:
    """Return the mean relative difference between the FLOPs per token of rows and those by `way`.

    Only rows that `way` explains are used. For such a row, the two numbers are equal, except for
    rounding and a tolerance of 0.4 %. Returns None if `way` explains no row.
    """
    distances = [
        abs(float(rated_row.flops.middle) / flops_per_token(model, rated_row.seq_length, way) - 1)
        for rated_row in rows
        if fits_way(rated_row, way, _NEAR)
    ]
    return sum(distances) / len(distances) if distances else None


def _unlike_the_model(
    rated_row: RatedRow, model: NamedModel, way: Way, explanation: Way | None
) -> TableFinding:
    flops = flops_per_token(model, rated_row.seq_length, way)
    likely = rated_row.tflops.printed.rounded(rated_row.tflops_if(flops))
    counter = f"; {way.counter}" if way.differences else ""
    if explanation is None:
        why = "no known way to count FLOPs gives the printed value"
    else:
        how = explanation.counter or "a formula"
        also = "" if explanation.keys == way.keys else f", with {explanation.words},"
        why = (
            f"{how}{also} gives {_giga(flops_per_token(model, rated_row.seq_length, explanation))}"
        )
    return finding(
        rated_row.row,
        FindingKind.MODEL_FLOPS,
        f"{rated_row.tflops.shown} at {rated_row.rate.shown} implies {_implied(rated_row)} "
        f"GFLOPs per token, but {model.name} has {_giga(flops)} at {rated_row.seq_length} "
        f"tokens ({way.words}{counter}), so {likely} TFLOP/s would be right; {why}",
    )


def _implied(rated_row: RatedRow) -> str:
    return _giga(float(rated_row.flops.middle))


def _giga(flops: float) -> str:
    return f"{flops / _GIGA:.4g}"
