"""Which step reports hold an iteration whose update was skipped, for its gradients overflowed.

Such an iteration does less work than others, so its time is none of a step's.
"""

from collections.abc import Iterable


def skipped_updates(so_far: Iterable[int | None], since: Iterable[int | None]) -> list[bool]:
    """Return for each report of a launch, in order, whether it holds a skipped update.

    so_far: how many the launch had skipped by then (DeepSpeed). since: how many since the report
    before (Megatron). None where a report tells nothing of it.
    """
    skips = []
    before = 0
    for total, count in zip(so_far, since, strict=True):
        now = before if total is None else total
        skips.append(now > before or bool(count))
        before = now
    return skips
