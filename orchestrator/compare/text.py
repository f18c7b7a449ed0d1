"""Show comparisons of runs as a table, in sentences and as JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.common.tables import DASH, Column, Style, Table, make_table, shown
from orchestrator.common.text import counted, printable
from orchestrator.compare.intervals import mean_and_variance, pairs_suffice
from orchestrator.compare.measured_run import MeasuredRun, crowded_lines, trouble_lines
from orchestrator.compare.pairing import Pairing
from orchestrator.compare.sample_size import blocks_to_find
from orchestrator.compare.verdict import Comparison, Timing, Verdict, compare_timings

_RATIO = Style(digits=4)
_SHORT = Style(digits=2)
# By chance, all runs of A are faster or all are slower than all runs of B: with 2 runs each in 33 %
# of cases, with 3 runs each in 10 %.
_FEWEST_APART = 3
_FEWEST_BLOCKS = next(count for count in range(2, 100) if pairs_suffice(count))
# Users do not run more blocks than this for a comparison, and smaller differences do not matter.
_MOST_BLOCKS, _LEAST_PART = 200, 0.001


@dataclass(frozen=True, slots=True)
class Compared:
    """A pairing (the runs of A and of B), and the comparison of their speeds.

    per: what the speed counts per second: `steps` or `tokens`.
    """

    pairing: Pairing
    comparison: Comparison
    per: str

    @property
    def is_measured(self) -> bool:
        """Whether A and B both have a run with a speed."""
        return self.comparison.ratio is not None

    @property
    def troubled(self) -> list[MeasuredRun]:
        """The runs of both sides that have no speed."""
        return [run for run in (*self.pairing.runs, *self.pairing.others) if run.trouble]


def compared(pairing: Pairing) -> Compared:
    """Compare the speeds of the runs of a pairing.

    Speed is in steps per second, or in tokens per second if steps of A and B differ in tokens.
    """
    everybody = (*pairing.runs, *pairing.others)
    tokens = {run.tokens for run in everybody}
    in_tokens = len(tokens) > 1 and None not in tokens
    sides = [
        [_timing(run, in_tokens=in_tokens) for run in side if run.seconds is not None]
        for side in (pairing.runs, pairing.others)
    ]
    result = compare_timings(sides[0], sides[1], repeatable=pairing.repeatable)
    return Compared(pairing, result, "tokens" if in_tokens else "steps")


def _timing(run: MeasuredRun, *, in_tokens: bool) -> Timing:
    work = (run.tokens if in_tokens else None) or 1
    return Timing(work / (run.seconds or 1), run.allocation, run.block, run.place)


def _more(compared: Compared) -> str | None:
    result = compared.comparison
    if result.more is None or not compared.is_measured:
        return None
    what = _units(compared, result.more)
    return f"≥ {what}" if result.least else what


def _units(compared: Compared, count: int) -> str:
    if compared.comparison.paired:
        return counted(count, "block")
    return f"{counted(count, 'run')}{' each' if compared.pairing.repeatable else ''}"


_COLUMNS: tuple[Column[Compared], ...] = (
    Column("A", "a", lambda row: row.pairing.title),
    Column("B", "b", lambda row: row.pairing.baseline),
    Column("n A", "runs_a", lambda row: row.comparison.runs[0]),
    Column("n B", "runs_b", lambda row: row.comparison.runs[1]),
    Column(
        "blocks", "blocks", lambda row: row.comparison.units[0] if row.comparison.paired else None
    ),
    Column("allocations", "allocations", lambda row: row.comparison.allocations),
    Column("speed A/B", "ratio", lambda row: row.comparison.ratio, _RATIO),
    Column("95% from", "low", lambda row: row.comparison.low, _RATIO),
    Column("to", "high", lambda row: row.comparison.high, _RATIO),
    Column("A is", "verdict", lambda row: row.comparison.verdict.value),
    Column("more needed", "more", _more),
)


def verdict_table(comparisons: Sequence[Compared]) -> Table:
    """Return a table with one row per comparison."""
    return make_table(_COLUMNS, comparisons)


def all_sentences(comparisons: Sequence[Compared]) -> list[str]:
    """Return the sentences of several comparisons, with an empty line before each comparison.

    If there are several comparisons, a sentence that is the same for all of them is returned only
    once, at the end.
    """
    each = [list(comparison_sentences(compared)) for compared in comparisons]
    shared = [line for line in each[0] if all(line in lines for lines in each)] if each else []
    if len(each) < 2 or not shared:
        return [line for lines in each for line in ("", *lines)]
    own = [line for lines in each for line in ("", *(line for line in lines if line not in shared))]
    return [*own, "", "For each of these comparisons:", *shared]


def comparison_sentences(compared: Compared) -> Iterator[str]:
    """Yield the sentences of one comparison.

    They are about the verdict and how reliable it is. Without a verdict, they are about the
    runs that a verdict needs. They are also about the settings in which A and B differ, the crowded
    runs, and the runs without a step time.
    """
    yield _verdict(compared)
    if compared.is_measured:
        yield from _pooled(compared.pairing)
        yield from _apart(compared)
        yield from _remedy(compared)
        yield from _remarks(compared)
        yield from crowded_lines((*compared.pairing.runs, *compared.pairing.others))
    yield from trouble_lines(compared.troubled)


def _verdict(compared: Compared) -> str:
    a, b, comparison = compared.pairing.title, compared.pairing.baseline, compared.comparison
    if not compared.is_measured:
        which = " and ".join(
            name for name, runs in ((a, comparison.runs[0]), (b, comparison.runs[1])) if not runs
        )
        return f"{a} cannot be compared with {b}: no run of {which} has a step time."
    times = f"{shown(comparison.ratio, _RATIO)} times as many {compared.per} per second"
    if comparison.low is not None:
        times += f", between {shown(comparison.low, _RATIO)} and {shown(comparison.high, _RATIO)}"
    by = _basis(compared)
    if comparison.verdict is not Verdict.CANNOT_TELL:
        return f"{a} is {comparison.verdict.value} than {b}: {times}, computed from {by}."
    are = "is" if comparison.paired and comparison.units[0] == 1 else "are"
    begin = f"{by} {are} not enough to tell whether {a} is faster than {b}: {times}"
    if comparison.more is None and comparison.low is None:
        return f"{begin}; no number of runs would give a verdict."
    if comparison.more is None and min(comparison.units) == 1:
        return (
            f"{begin}; the variation of a single run is unknown, so the number of runs needed is "
            "unknown."
        )
    if comparison.more is None:
        return (
            f"{begin}; the runs so far show no sign of a difference, so the number of runs "
            f"needed is unknown."
        )
    count, what = comparison.more, "block" if comparison.paired else "run"
    more = f"{count:,} more {what}{'' if count == 1 else 's'}"
    if not comparison.paired and compared.pairing.repeatable:
        more += " each of A and B"
    if comparison.least:
        return f"{begin}; a verdict needs at least {more}."
    return (
        f"{begin}; about {more} would give a verdict, if the true difference is as large as the "
        "measured one."
    )


def _basis(compared: Compared) -> str:
    result = compared.comparison
    if result.paired:
        return f"{counted(result.units[0], 'block')} in {counted(result.allocations, 'allocation')}"
    of_a = counted(result.units[0], "result")
    return f"{of_a} of A and {result.units[1]:,} of B in separate allocations"


def _pooled(pairing: Pairing) -> Iterator[str]:
    """Yield a sentence with the seeds, if there are several.

    The reason is that runs with different seeds count as one configuration.
    """
    seeds_of_runs = (run.values.get("seed") for run in (*pairing.runs, *pairing.others))
    seeds = sorted({seed for seed in seeds_of_runs if seed is not None})
    if len(seeds) > 1 and pairing.repeatable:
        *first, last = map(str, seeds)
        a, b = len(pairing.runs), len(pairing.others)
        runs = f"{a} runs each" if a == b else f"{a} and {b} runs"
        yield (
            f"{pairing.title} against {pairing.baseline}: runs with the seeds {', '.join(first)} "
            f"and {last} count as one configuration, {runs}."
        )


def _apart(compared: Compared) -> Iterator[str]:
    """Yield a sentence if all runs of A are faster, or all are slower, than all runs of B.

    Yields nothing if there is a verdict, or if A or B has fewer than three runs with a step time.
    The sentence explains why a verdict is missing: the runs are too few, or in too few allocations.
    """
    a, b = (
        [_timing(run, in_tokens=compared.per == "tokens").speed for run in side if run.seconds]
        for side in (compared.pairing.runs, compared.pairing.others)
    )
    if (
        compared.comparison.verdict is not Verdict.CANNOT_TELL
        or min(len(a), len(b)) < _FEWEST_APART
    ):
        return
    word = "slower" if max(a) < min(b) else "faster" if min(a) > max(b) else None
    if word:
        yield (
            f"All {len(a)} runs of {compared.pairing.title} are {word} than all {len(b)} of "
            f"{compared.pairing.baseline}; these runs are too few, or in too few allocations, "
            "for a verdict."
        )


def _remedy(compared: Compared) -> Iterator[str]:
    """Yield a sentence on how many blocks A B B A are needed for a verdict.

    Yields nothing in these cases:
    - there is already a verdict;
    - B is a published row, or A or B has no run with a speed;
    - all pairs are already from such blocks;
    - separate runs would be cheaper;
    - the difference is at most 0.1 %, or more than `_MOST_BLOCKS` blocks would be needed.
    """
    result = compared.comparison
    if (
        result.verdict is not Verdict.CANNOT_TELL
        or not compared.pairing.repeatable
        or not result.ratio
    ):
        return
    if result.paired and result.balanced == result.units[0]:
        # The sentence on the verdict already contains how many more of these blocks are needed.
        return
    part = math.expm1(abs(math.log(result.ratio)))
    blocks = _FEWEST_BLOCKS if part > _LEAST_PART else None
    spread = _spread(compared)
    if blocks and spread:
        blocks = max(blocks, blocks_to_find(part, spread))
    # A block has two runs of A and two runs of B.
    cheaper = blocks and (result.paired or result.more is None or 2 * blocks < result.more)
    if blocks and blocks <= _MOST_BLOCKS and (cheaper or result.least):
        yield (
            f"The cheapest way to a verdict is `order: interleaved` with `repeats: {2 * blocks}` "
            f"({blocks} blocks) in one allocation."
        )


def _spread(compared: Compared) -> float | None:
    """Return the standard deviation of the logarithms of step times within A and within B, pooled.

    Returns None if both A and B have fewer than two runs with a step time.
    """
    squares, degrees = 0.0, 0
    for side in (compared.pairing.runs, compared.pairing.others):
        logs = [math.log(run.seconds) for run in side if run.seconds]
        if len(logs) > 1:
            squares += (len(logs) - 1) * mean_and_variance(logs)[1]
            degrees += len(logs) - 1
    return math.sqrt(squares / degrees) if degrees else None


def _remarks(compared: Compared) -> Iterator[str]:
    result = compared.comparison
    yield from _difference(compared.pairing)
    if not compared.pairing.repeatable:
        yield (
            "The published row is one run, and its variation is unknown. A verdict needs 49 runs "
            "of A in separate allocations. The result includes every difference between A and the "
            f"published run, e.g. between their machines; {_place_of_published(compared)}."
        )
    if result.paired and result.gain is not None and result.units[0] > 1:
        gain = shown(result.gain, _SHORT)
        yield (
            f"Blocks make the variance {gain} times smaller: without blocks, the same result "
            f"would need {gain} times as many runs."
            if result.gain > 1
            else (
                f"Blocks did not help here: without them the variance would be {gain} times as "
                "large."
            )
        )
    if result.paired and result.balanced < result.units[0]:
        unbalanced = result.units[0] - result.balanced
        yield (
            f"In {unbalanced} of {counted(result.units[0], 'block')}, A and B did not take turns "
            "evenly, so a drift in speed looks like a difference between A and B; see `order: "
            "interleaved`."
        )
    if result.allocations == 1 and result.paired and result.low is not None:
        yield "All runs shared one allocation; another allocation may give a different result."
    used = sum(result.runs) - sum(result.left_out)
    if not result.paired and used > sum(result.units):
        yield (
            f"The {used} runs are in {result.allocations} allocations with only A or only B, and "
            f"each allocation counts once."
            if compared.pairing.repeatable
            else f"The {used - 1} runs of A are in {counted(result.units[0], 'allocation')}, and "
            f"each allocation counts once."
        )
    if sum(result.left_out):
        reason = (
            "their blocks contain no run of the other side"
            if result.paired
            else "they are in allocations with both A and B, but in too few blocks for a verdict"
        )
        yield (
            f"{counted(result.left_out[0], 'run')} of A and {result.left_out[1]} of B are not "
            f"used: {reason}."
        )


def _difference(pairing: Pairing) -> Iterator[str]:
    """Yield a sentence on the settings in which A and B differ.

    Yields nothing if A and B differ in one setting and their names already show its two values,
    e.g. `ddp` and `zero3`. If A and B have the same parameters, the sentence reports that. If B
    is a published row, the sentence names only the sizes that the row contains.
    """
    if not pairing.repeatable:
        sizes = ", ".join(pairing.stated_sizes) or "no size"
        yield (
            f"The published row states {sizes}; all other parameters are assumed to be those of A."
        )
        return
    if list(pairing.differing.values()) == [(pairing.title, pairing.baseline)]:
        return
    differences = (
        f"{name} ({_as_text(a)}, {_as_text(b)})" for name, (a, b) in pairing.differing.items()
    )
    differing = ", ".join(differences)
    if differing:
        yield f"A and B differ in {differing}."
    else:
        yield (
            "A and B have the same parameters: a difference can come only from the time, the nodes "
            "or chance."
        )


def _as_text(value: object) -> str:
    return DASH if value is None else printable(str(value))


def _place_of_published(compared: Compared) -> str:
    """Return a text on how many runs took longer per step than the published row."""
    seconds = [run.seconds for run in compared.pairing.runs if run.seconds is not None]
    (published,) = (run.seconds or 0 for run in compared.pairing.others)
    slower, count = sum(run > published for run in seconds), len(seconds)
    return f"{slower} of {counted(count, 'run')} took longer per step than the published row"


def comparison_record(compared: Compared) -> dict[str, Any]:
    """Return a comparison as a JSON object."""
    numbers = asdict(compared.comparison)
    pairs = ("runs", "left_out", "units")
    by_side = {
        f"{name}_{side}": numbers[name][index]
        for name in pairs
        for index, side in enumerate(("a", "b"))
    }
    return {
        "a": compared.pairing.title,
        "b": compared.pairing.baseline,
        "speed_in": f"{compared.per} per second",
        "differing": compared.pairing.differing,
        **by_side,
        **{name: value for name, value in numbers.items() if name not in pairs},
        "not_measured": [
            {"run_id": run.run_id, "label": run.label, "why": run.trouble}
            for run in compared.troubled
        ],
        "said": list(comparison_sentences(compared)),
    }
