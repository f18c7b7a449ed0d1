"""The lines of DeepSpeed's engine: its throughput timer, and its progress line.

What the timer measures, read in deepspeed/utils/timer.py and runtime/engine.py of 0.19.8, and in
the timer.py of older versions:

* Since 0.8, `CurrSamplesPerSec` is the global batch size (`train_batch_size`) divided by the
  seconds of the reported optimizer step alone, not of the steps since the last report: the sum
  over its micro-batches of the time from the start of the forward pass to the end of `step()`,
  plus 1e-6 s in later versions. Devices are synchronized at both ends unless the configuration
  says otherwise. The time between `step()` and the next forward pass (making or loading data) is
  not in it, except that with a data loader made by DeepSpeed the clock starts before the batch is
  fetched. So train_batch_size / samples_per_second is a step's duration, a lower bound of the
  wall time from step to step.
* In 0.7 it is the timer's batch size x workers over the time of the last micro-step alone.
* `RunningAvgSamplesPerSec` (`SamplesPerSec` before 0.7) is the same over all steps but the first
  two, which are warm-up; -inf or inf where there is nothing to divide yet.
* The counter is the optimizer step since the start of the process from 0.8 on; before, the
  micro-step since the start of the epoch, so that gradient accumulation counts several times.
  The progress line counts optimizer steps, across restarts from a checkpoint.
* "GB" is 2**30 bytes, rounded to two decimals. On the CPU it is the resident set of the process.

Overflows are told in lines of their own, see `deepspeed_overflow`; how many steps were skipped so
far is in the progress line.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, finite
from parsers.records import Step
from parsers.scan import LogFormat

# epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=743.4, CurrSamplesPerSec=869.6,
#     MemAllocated=0.39GB, MaxMemAllocated=0.39GB                                  since 0.8
# 0/20, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=227.4, MemAllocated=…     0.7
# 0/100, SamplesPerSec=123.4, MemAllocated=0.14GB, MaxMemAllocated=0.23GB          0.6
# 0/100, SamplesPerSec=123.4                                                       0.1 to 0.5
_MEMORY = rf", MemAllocated=(?P<memory>{NUMBER})GB, MaxMemAllocated=(?P<max_memory>{NUMBER})GB"
_TIMER = re.compile(
    rf"(?:epoch={COUNT}/micro_step={COUNT}/global_step=|(?<![0-9]){COUNT}/)(?P<iteration>{COUNT}), "
    rf"(?:RunningAvgSamplesPerSec=(?P<running>{NUMBER}), CurrSamplesPerSec=(?P<current>{NUMBER})"
    rf"|SamplesPerSec=(?P<average>{NUMBER}))(?:{_MEMORY})?"
)

# step=10, skipped=0, lr=[0.0003], mom=[[0.9, 0.95]]
_PROGRESS = re.compile(rf"(?<!\w)step=(?P<iteration>{COUNT}), skipped=(?P<skipped>{COUNT}), lr=")


def _parse(offset: int, line: str) -> Iterator[Step]:
    for match in _TIMER.finditer(line):
        if match["current"] is not None and match["memory"] is None:
            continue  # every version that prints the current rate prints memory: a torn line
        yield Step(
            iteration=int(match["iteration"]),
            samples_per_second=finite(match["current"]),
            running_samples_per_second=finite(match["running"] or match["average"]),
            memory_allocated_gib=finite(match["memory"]),
            max_memory_allocated_gib=finite(match["max_memory"]),
            offset=offset,
        )
    for match in _PROGRESS.finditer(line):
        # The engine prints step=0 when it is made: no step has been done.
        if int(match["iteration"]) > 0:
            yield Step(
                iteration=int(match["iteration"]), skipped=int(match["skipped"]), offset=offset
            )


# Not ordered: its two lines count from different beginnings, the timer's of old once an epoch.
DEEPSPEED_TIMER = LogFormat(
    name="DeepSpeed throughput timer",
    anchors=(b"SamplesPerSec=", b", skipped="),
    parse=_parse,
    report=re.compile(r"SamplesPerSec=-?[0-9i]|\bstep=[1-9][0-9]*, skipped=[0-9]"),
    ordered=False,
)
