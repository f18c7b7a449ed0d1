"""Find the units of MLPerf's reports: their rates and steps may count samples or tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from parsers.fields import whole
from parsers.records import RunTotals, Step, Throughput
from parsers.steps.blocks import Part
from parsers.steps.merge import merge_settings

# A step takes more than 20 ms, so a rate has less than 50 batches per second. In tokens, the rate
# is larger by the tokens of a sequence: 2048 or more, and a step takes less than 20 s.
_BATCHES_PER_SECOND = 70


def with_units(parts: Sequence[Part], batch: int | None = None) -> Sequence[Part]:
    """Return the records of a launch, with a `Step` or `RunTotals` for each `Throughput`.

    Steps without an iteration number get one: the iteration, or else the number of the report.
    batch: the global batch size in samples, if the records do not contain it. If it is unknown,
    each `Throughput` is returned unchanged.
    """
    if not any(isinstance(part, Throughput) or _is_unnumbered(part) for part in parts):
        return parts
    config = merge_settings(parts)
    size = whole(config.get("global_batch_size")) or batch
    rated = [
        _with_unit(part, size) if size and isinstance(part, Throughput) else part for part in parts
    ]
    steps = [part for part in rated if isinstance(part, Step) and _is_unnumbered(part)]
    counts = sorted({step.iteration for step in steps})
    iterations = _iterations(counts, size, whole(config.get("seq_length")))
    numbers = iterations or {count: number for number, count in enumerate(counts, 1)}
    return [
        replace(part, iteration=numbers[part.iteration], unnumbered=not iterations or None)
        if isinstance(part, Step) and _is_unnumbered(part)
        else part
        for part in rated
    ]


def _is_unnumbered(part: Part) -> bool:
    return isinstance(part, Step) and bool(part.unnumbered)


def _iterations(
    counts: Iterable[int], batch: int | None, length: int | None
) -> Mapping[int, int] | None:
    """Return the iteration for each count of tokens or samples; None if it is not known.

    length: the tokens of a sequence. The counts are in tokens if all of them are whole iterations
    of tokens, and otherwise in samples.
    """
    if not batch or not length:
        return None
    for unit in (batch * length, batch):
        if all(count % unit == 0 for count in counts):
            return {count: count // unit for count in counts}
    return None


def _with_unit(report: Throughput, batch: int) -> Step | RunTotals:
    if report.rate < batch * _BATCHES_PER_SECOND:
        return Step(
            iteration=report.iteration,
            samples_per_second=report.rate,
            unnumbered=True,
            offset=report.offset,
        )
    # from the start of the run, with the time of validations
    return RunTotals(tokens_per_second=report.rate, offset=report.offset)
