"""Check the TFLOP/s of named models against their descriptions, and rows of a model together."""

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

# An explanation must be nearer than a count that is only accepted.
_NEAR = Fraction(1, 250)
_GIGA = 10**9


def named_model_flops(tables: Sequence[BenchmarkTable]) -> Iterator[TableFinding]:
    """Find TFLOP/s that do not follow from tokens/s and the model, or the model's other rows."""
    rated = rated_rows(tables)
    keys = keys_of_page(rated)
    right: dict[Group, Way] = {}
    odd: dict[NamedModel, list[RatedRow]] = {}
    for group, way in ways_of_page(rated, keys).items():
        rows = [one for one in rated if one.group == group]
        accepted = _accepted(rows, way, keys)
        right[group] = accepted[0]
        for one in rows:
            if one.model and not any(fits_way(one, each) for each in accepted):
                odd.setdefault(one.model, []).append(one)
    for model, rows in odd.items():
        explained = _explanations(model, rows, keys)
        for one in rows:
            yield _unlike_the_model(one, model, right[one.group], explained.get(one.row.line))
    named = {one.row.line for rows in odd.values() for one in rows}
    left = [one for one in rated if one.row.line not in named]
    for group in {one.group: None for one in left}:
        yield from _unequal([one for one in left if one.group == group])


def _unequal(rows: Sequence[RatedRow]) -> Iterator[TableFinding]:
    """Yield rows of one model whose FLOPs per token differ from those of most rows."""
    count, common = common_flops(rows)
    half = SLACK / 2
    near = NumberRange(common.low * (1 - half), common.high * (1 + half))
    unlike = [one for one in rows if not one.flops.meets(near)] if len(rows) > count else []
    alike = [one for one in rows if one not in unlike]
    for one in unlike:
        others = f"{len(alike)} other rows" if len(alike) > 1 else "another row"
        yield finding(
            one.row,
            FindingKind.UNEQUAL_FLOPS,
            f"{one.tflops.shown} at {one.rate.shown} implies {_implied(one)} GFLOPs per token, "
            f"but {others} of the same model (e.g. line {alike[0].row.line}) "
            f"{'imply' if len(alike) > 1 else 'implies'} {_giga(float(common.middle))}",
        )


def _accepted(rows: Sequence[RatedRow], way: Way | None, keys: Keys) -> list[Way]:
    """Return the ways to count FLOPs that give no finding, the correct one first.

    A title with only TFLOPs may mean hardware FLOPs, or attention with or without a causal mask.
    """
    model = rows[0].model
    if model is None or way is None:
        return []
    if rows[0].row.trains_adapters:
        return [Way(way.keys, (one,)) for one in (ADAPTERS, PACKED_ADAPTERS)]
    accepted = [way, *honest_ways(model, keys)]
    if not all(one.says_model_flops for one in rows):
        accepted += [each for one in COUNTED_KEYS for each in honest_ways(model, one)]
        accepted += [each for each in other_ways(model, keys) if _recomputes_only(each)]
    return accepted


def _recomputes_only(way: Way) -> bool:
    return len(way.differences) == 1 and way.differences[0].recomputes


def _explanations(model: NamedModel, odd: Sequence[RatedRow], keys: Keys) -> dict[int, Way]:
    """Return, by the row's line, a way to count FLOPs that gives the row's number, if known.

    The way that explains most rows comes first; of several, the one with the fewest differences.
    """
    explained: dict[int, Way] = {}
    left = list(odd)
    while left:
        candidates = [
            (
                sum(fits_way(one, way) for one in left),
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
        explained |= {one.row.line: way for one in left if fits_way(one, way)}
        left = [one for one in left if one.row.line not in explained]
    return explained


def _distance(model: NamedModel, rows: Sequence[RatedRow], way: Way) -> float | None:
    """Return the relative difference between a way to count and the rows that it explains.

    None if it explains no row.
    """
    distances = [
        abs(float(one.flops.middle) / flops_per_token(model, one.seq_length, way) - 1)
        for one in rows
        if fits_way(one, way, _NEAR)
    ]
    return sum(distances) / len(distances) if distances else None


def _unlike_the_model(
    one: RatedRow, model: NamedModel, way: Way, explanation: Way | None
) -> TableFinding:
    flops = flops_per_token(model, one.seq_length, way)
    likely = one.tflops.printed.rounded(one.tflops_if(flops))
    counter = f"; {way.counter}" if way.differences else ""
    if explanation is None:
        why = "no known way to count gives what is printed"
    else:
        how = explanation.counter or "a counter"
        also = "" if explanation.keys == way.keys else f", with {explanation.words},"
        why = f"{how}{also} gives {_giga(flops_per_token(model, one.seq_length, explanation))}"
    return finding(
        one.row,
        FindingKind.MODEL_FLOPS,
        f"{one.tflops.shown} at {one.rate.shown} implies {_implied(one)} GFLOPs per token, but "
        f"{model.name} has {_giga(flops)} at {one.seq_length} tokens ({way.words}{counter}), "
        f"which makes {likely} TFLOP/s; {why}",
    )


def _implied(one: RatedRow) -> str:
    return _giga(float(one.flops.middle))


def _giga(flops: float) -> str:
    return f"{flops / _GIGA:.4g}"
