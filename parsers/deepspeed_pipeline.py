"""The line that DeepSpeed's pipeline engine prints every `steps_per_print` optimizer steps.

It is printed without prefix by rank 0, with the number of optimizer steps since the start of
training, the mean loss of the last batch, and the mean duration of a step since the line before,
in seconds (read in runtime/pipe/engine.py of 0.19.8 and of older versions). Samples per second are
the global batch size (`train_batch_size`) over that duration.

Megatron-DeepSpeed and gpt-neox print their own line about the same iteration right after it, more
precisely: a time in milliseconds with one decimal for one in seconds with three. Where both are
there, they are one report, of which Megatron's time is the better one.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, finite, printed
from parsers.line_parts import line_parts
from parsers.records import Step
from parsers.scan import LogFormat

# steps: 10 loss: 0.0585 iter time (s): 0.186 samples/sec: 53.694
# steps: 200 loss: 5.5508 lm loss: 5.5103 moe loss: 0.0405 iter time (s): 0.936 samples/sec: 136.706
# The rate always has three decimals; with fewer it is torn.
_REPORT = re.compile(
    rf"steps: (?P<iteration>{COUNT}) loss: (?P<loss>{NUMBER}) "
    rf"(?:[A-Za-z][\w /-]{{0,40}}: {NUMBER} ){{0,16}}"
    rf"iter time \(s\): (?P<seconds>{NUMBER}) samples/sec: (?P<rate>[0-9]+\.[0-9]{{3}})(?![0-9])"
)


def _parse(offset: int, line: str) -> Iterator[Step]:
    for part in line_parts(line):
        for match in _REPORT.finditer(part):
            yield Step(
                iteration=int(match["iteration"]),
                step_seconds=finite(match["seconds"]),
                samples_per_second=finite(match["rate"]),
                loss=printed(match["loss"]),
                offset=offset,
            )


DEEPSPEED_PIPELINE = LogFormat(
    name="DeepSpeed pipeline engine", anchors=(b" iter time (s): ",), parse=_parse
)
