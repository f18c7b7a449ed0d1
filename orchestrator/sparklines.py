"""Step times as a line of blocks: ▁▁▁█▁▁."""

import math
from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 16
# What is within a quarter of the fastest step is no mountain.
_LEAST_SPAN = 0.25


def sparkline(seconds: Sequence[float], width: int = _WIDTH) -> str | None:
    """Return the times in at most `width` blocks, in their order; None where there is no time.

    Where there are more times than blocks, a block is the slowest of its share, so that an outlier
    stays. The lowest block is the fastest; the highest is the slowest, or a quarter more than the
    fastest where all are faster than that: steps that are even are a flat line.
    """
    known = [time for time in seconds if math.isfinite(time)]
    if not known:
        return None
    count = min(width, len(known))
    bounds = [len(known) * block // count for block in range(count + 1)]
    slowest = [max(known[begin:end]) for begin, end in pairwise(bounds)]
    fastest = min(known)
    span = max(max(known) - fastest, _LEAST_SPAN * fastest)
    steps = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[round((time - fastest) / span * steps) if span > 0 else 0] for time in slowest
    )
