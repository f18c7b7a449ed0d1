"""Parse the lines of DeepSpeed's engines: throughput timer, progress, overflows, pipeline.

**Throughput timer and progress line.** These facts are from deepspeed/utils/timer.py and
runtime/engine.py of 0.19.8, and from the timer.py of older versions:

* Since 0.8, `CurrSamplesPerSec` is the global batch size (`train_batch_size`) divided by
  the seconds of the reported optimizer step alone. These seconds are a sum over the
  micro-batches of the step: for each, the time from the start of the forward pass to the
  end of `step()`. Later versions add 1e-6 s. Devices are synchronized at the start and the
  end of each time, except if the configuration disables it.
* The seconds do not include the time between `step()` and the next forward pass, e.g. to
  load data. If DeepSpeed made the data loader, the clock starts before the batch is
  fetched. So train_batch_size / samples_per_second is a step's duration in seconds, and a
  lower bound of the wall time from step to step.
* In 0.7, `CurrSamplesPerSec` is the timer's batch size x workers, divided by the time of
  the last micro-step alone.
* `RunningAvgSamplesPerSec` (`SamplesPerSec` before 0.7) is the same rate over all steps
  except the first two, which are warm-up. It is -inf or inf before there is anything to
  divide.
* Since 0.8, the timer's counter is the optimizer step since the start of the process.
  Before, it was the micro-step since the start of the epoch. With gradient accumulation, an
  optimizer step has several micro-steps. The progress line counts optimizer steps, and goes
  on after a restart from a checkpoint.
* "GB" is 2**30 bytes, rounded to two decimals. On the CPU, the memory is the resident set
  of the process.

The progress line also contains how many steps were skipped so far.

**Overflows.** DeepSpeed prints a line if it skips an update because gradients overflowed.

    [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
    [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2.
        Reducing hysteresis to 1                                                    (one line)
    [deepspeed] OVERFLOW! Rank 0 Skipping step.                                     without float16
    Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768.0
    fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4, reducing to 2

From deepspeed/runtime/fp16 and runtime/zero of 0.19.8 and of older versions: since 0.3 only
the first rank prints the line; before, each rank did. No line contains its iteration, and
the next line with a number may be thousands of iterations away.

The new scale is half of the attempted scale. It is larger only if half would be below the
smallest allowed scale. So a number below half of the attempted scale was torn, and is not
read.

**Pipeline engine.** Rank 0 prints a line every `steps_per_print` optimizer steps.

The line has no prefix. It contains the number of optimizer steps since the start of
training, and the mean loss of the last batch. It also contains the mean duration of a step
since the previous line, in seconds. Samples per second are the global batch size
(`train_batch_size`) divided by that duration. The source is runtime/pipe/engine.py of 0.19.8
and of older versions.

Megatron-DeepSpeed and gpt-neox print their own line about the same iteration right after
the pipeline engine's line. Their time is more precise: milliseconds with one decimal
instead of seconds with three. If both lines are there, teralog makes one report of them,
with the time from this more precise line.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, NUMBER_ENDS, finite, matches, parse_number, whole
from parsers.records import SkippedStep, Step
from parsers.scan.reader import LogFormat

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


def _parse_timer(offset: int, line: str) -> Iterator[Step]:
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


# Not ordered: its two lines count from different beginnings. In old versions, the timer's counts
# from each epoch.
DEEPSPEED_TIMER = LogFormat(
    name="DeepSpeed throughput timer",
    anchors=(b"SamplesPerSec=", b", skipped="),
    parse=_parse_timer,
    # DeepSpeed-Chat's end-to-end line has such words, too.
    report=re.compile(
        r"(?<!\|Cur)(?<!\|Avg)SamplesPerSec=-?[0-9i]|\bstep=[1-9][0-9]*, skipped=[0-9]"
    ),
    ordered=False,
)


_OVERFLOW = re.compile(
    rf"\b(?:OVERFLOW! (?:Rank (?P<rank>{COUNT}) )?|Overflow detected\. |loss scale overflow! )"
    rf"Skipping step\.(?: Attempted loss scale: (?P<scale>{NUMBER}),"
    rf"(?: reducing to (?P<reduced>{NUMBER}))?)?"
)


def _parse_overflow(offset: int, line: str) -> Iterator[SkippedStep]:
    for match in matches(_OVERFLOW, line):
        scale, reduced = finite(match["scale"]), finite(match["reduced"])
        torn = scale is None or reduced is None or not scale / 2 <= reduced <= scale
        yield SkippedStep(
            rank=whole(match["rank"]),
            loss_scale=scale,
            reduced_to=None if torn else reduced,
            offset=offset,
        )


DEEPSPEED_OVERFLOW = LogFormat(
    name="DeepSpeed overflow", anchors=(b"Skipping step.",), parse=_parse_overflow, report=_OVERFLOW
)


# steps: 10 loss: 0.0585 iter time (s): 0.186 samples/sec: 53.694
# steps: 200 loss: 5.5508 lm loss: 5.5103 moe loss: 0.0405 iter time (s): 0.936 samples/sec: 136.706
# The rate always has three decimals; with fewer it is torn.
_REPORT = re.compile(
    rf"steps: (?P<iteration>{COUNT}) loss: (?P<loss>{NUMBER}) "
    rf"(?:[A-Za-z][\w /-]{{0,40}}: {NUMBER} ){{0,16}}"
    rf"iter time \(s\): (?P<seconds>{NUMBER}) "
    rf"samples/sec: (?P<rate>[0-9]+\.[0-9]{{3}}){NUMBER_ENDS}"
)


def _parse_pipeline(offset: int, line: str) -> Iterator[Step]:
    for match in matches(_REPORT, line):
        yield Step(
            iteration=int(match["iteration"]),
            step_seconds=finite(match["seconds"]),
            samples_per_second=finite(match["rate"]),
            loss=parse_number(match["loss"]),
            offset=offset,
        )


DEEPSPEED_PIPELINE = LogFormat(
    name="DeepSpeed pipeline engine", anchors=(b" iter time (s): ",), parse=_parse_pipeline
)
