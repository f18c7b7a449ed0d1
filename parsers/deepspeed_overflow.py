"""The lines with which DeepSpeed says that it skips an update, for gradients overflowed.

    [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
    [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2.
        Reducing hysteresis to 1                                                    (one line)
    [deepspeed] OVERFLOW! Rank 0 Skipping step.                                     without float16
    Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768.0
    fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4, reducing to 2

Read in deepspeed/runtime/fp16 and runtime/zero of 0.19.8 and of older versions. Since 0.3 the first
rank prints; before, each printed its own line about the same step. None says of which iteration it
speaks, and the next line with a number may be thousands of iterations away. How many were skipped
so far is in the progress line, too.

A new scale is half of the attempted one, or the least that is allowed, if that is more. So a number
at the end of a line that is less has been torn, and is not read.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, finite
from parsers.line_parts import line_parts
from parsers.records import SkippedStep
from parsers.scan import LogFormat

_OVERFLOW = re.compile(
    rf"\b(?:OVERFLOW! (?:Rank (?P<rank>{COUNT}) )?|Overflow detected\. |loss scale overflow! )"
    rf"Skipping step\.(?: Attempted loss scale: (?P<scale>{NUMBER}),"
    rf"(?: reducing to (?P<reduced>{NUMBER}))?)?"
)


def _parse(offset: int, line: str) -> Iterator[SkippedStep]:
    for part in line_parts(line):
        for match in _OVERFLOW.finditer(part):
            scale, reduced = finite(match["scale"]), finite(match["reduced"])
            torn = scale is None or reduced is None or not scale / 2 <= reduced <= scale
            yield SkippedStep(
                rank=None if match["rank"] is None else int(match["rank"]),
                loss_scale=scale,
                reduced_to=None if torn else reduced,
                offset=offset,
            )


DEEPSPEED_OVERFLOW = LogFormat(
    name="DeepSpeed overflow", anchors=(b"Skipping step.",), parse=_parse, report=_OVERFLOW
)
