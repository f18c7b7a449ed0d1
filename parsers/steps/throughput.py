"""Find the unit of rates that may be in samples or in tokens per second."""

from collections.abc import Sequence

from parsers.fields import whole
from parsers.records import RunTotals, Step, Throughput
from parsers.steps.blocks import Part
from parsers.steps.merge import merge_settings

# A step takes more than 20 ms, so a rate has less than 50 batches per second. In tokens, the rate
# is larger by the tokens of a sequence: 2048 or more, and a step takes less than 20 s.
_BATCHES_PER_SECOND = 70


def with_units(parts: Sequence[Part], batch: int | None = None) -> Sequence[Part]:
    """Return the records of a launch, with a `Step` or `RunTotals` for each `Throughput`.

    batch: the global batch size in samples, if the records do not contain it. If it is unknown, the
    records are returned unchanged.
    """
    if not any(isinstance(part, Throughput) for part in parts):
        return parts
    size = whole(merge_settings(parts).get("global_batch_size")) or batch
    return [
        _with_unit(part, size) if size and isinstance(part, Throughput) else part for part in parts
    ]


def _with_unit(report: Throughput, batch: int) -> Step | RunTotals:
    if report.rate < batch * _BATCHES_PER_SECOND:
        return Step(
            iteration=report.iteration, samples_per_second=report.rate, offset=report.offset
        )
    # from the start of the run, with the time of validations
    return RunTotals(tokens_per_second=report.rate, offset=report.offset)
