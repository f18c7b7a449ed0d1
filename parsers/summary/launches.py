"""Which step reports of a launch its numbers are made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from parsers.steps.blocks import StepBlock
from parsers.steps.seconds import skipped_updates, step_seconds
from parsers.summary.warmup import WarmupPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReports:
    """The step reports of a launch as columns.

    step_seconds, counted: as in `summary.ReportedStep`, one a report. dropped, skipped: how many
    are left out, and for which reason. steady: the step times have settled.
    """

    steps: StepBlock
    step_seconds: Sequence[float | None]
    counted: Sequence[bool]
    dropped: int
    skipped: int
    steady: bool

    def column(self, name: str) -> Iterator[Any]:
        """Yield a field of the reports that count."""
        values = self.step_seconds if name == "step_seconds" else self.steps.column(name)
        return compress(values, self.counted)


def launch_reports(
    steps: StepBlock, batch: int | None, policy: WarmupPolicy, *, keep_skipped: bool
) -> LaunchReports:
    """Return which of a launch's steps count; `batch`: the configured global batch size."""
    seconds = _step_seconds(steps, batch)
    skips = [False] * len(steps) if keep_skipped else _skips(steps)
    truncation = policy.truncation(
        [None if skip else time for time, skip in zip(seconds, skips, strict=True)]
    )
    dropped = truncation.reports
    return LaunchReports(
        steps=steps,
        step_seconds=seconds,
        counted=[False] * dropped + [not skip for skip in skips[dropped:]],
        dropped=dropped,
        skipped=sum(skips[dropped:]),
        steady=truncation.steady,
    )


def _step_seconds(steps: StepBlock, batch: int | None) -> list[float | None]:
    rows = zip(
        steps.column("step_seconds"),
        steps.column("global_batch_size"),
        steps.column("samples_per_second"),
        strict=True,
    )
    return [step_seconds(reported, size or batch, rate) for reported, size, rate in rows]


def _skips(steps: StepBlock) -> list[bool]:
    return skipped_updates(steps.column("skipped"), steps.column("skipped_iterations"))
