"""Parse the lines of XTuner, MMEngine, LiBai, MLX, litgpt and mistral-finetune.

    [XTuner][RANK 0][2026-01-02 03:04:05][INFO] Step 1/13 data_time: 0.0091 lr: 0.000060 time: …
        total_loss: 12.075, reduced_llm_loss: 12.075 max_memory: 5.36 GB … tgs: 6729.9 e2e_tgs: …
    2026/01/02 03:04:05 - mmengine - INFO - Iter(train) [1510/2046]  lr: 3.3994e-05  eta: 0:29:39
        time: 24.9128  data_time: 22.0483  memory: 15266  loss: 0.7818  grad_norm: 0.0005
    eta: 0:01:02  iteration: 99/1000  consumed_samples: 3200  total_loss: 9.12  time: 0.2341 s/iter
        data_time: 0.0012 s/iter total_throughput: 136.70 samples/s  lr: 1.50e-04
    Iter 18: Train loss 10.059, Learning Rate 1.000e-04, It/sec 0.468, Tokens/sec 213.130, Trained …
    Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)
    Training time: 11.20s
    Memory used: 13.90 GB
    | - Memory Used   : 13.90 GB                                                   since 2024
    2026-01-02 03:04:05 (UTC) - 0:02:11 - train - INFO - step: 000001 - done (%): 1.0 - loss: 0.874
        - lr: 4.0e-06 - peak_alloc_mem (GB): 21.0 - alloc_mem (GB): 17.1 - words_per_second: 585.7 …

Each example is one line of a log; a line that is indented further continues the line above
it. These facts are from the programs' sources:

* Each rank of XTuner prints a line. `tgs` is the number of tokens of that rank divided by
  its time, and `reduced_llm_loss` is the loss of all ranks. GB are 2**30 bytes.
* XTuner trained with MMEngine before 2025. MMEngine prints means over the latest steps; an
  option, `window_size`, sets their number. Its memory is the peak in 2**20 bytes. XTuner's
  hook adds the rate and the TFLOPs of one GPU; these TFLOPs include recomputation.
* LiBai numbers iterations from 0. Its time and its rate are means since the start of the
  launch, so the time is not read. Its losses are medians of up to 200 iterations.
* MLX prints iterations per second with three digits, which is too coarse for a step time.
  Its memory is in 10**9 or 2**30 bytes, depending on the version. So the iterations per
  second and the memory are not read.
* litgpt and lit-llama time one micro-batch. `(step)` marks a micro-batch after which the
  weights are updated. After the training litgpt prints the peak of allocated memory in 10**9
  bytes. Programs that generate text print the same line for reserved memory, but without a
  training time.
* mistral-finetune's words are the tokens of one rank. Its GB are 2**30 bytes, and the peak is
  since the start.
"""

import re
from collections.abc import Iterator

from parsers.formats.declared.declaration import (
    ITERATION,
    ITERATIONS,
    MIB_OF_GIB,
    MILLISECONDS,
    Declaration,
    Field,
    line_format,
)
from parsers.records import Usage, UsageSource
from parsers.scan.reader import LogFormat

_SPACE = r"(?= |$)"

XTUNER = line_format(
    Declaration(
        name="XTuner",
        anchors=(b" reduced_llm_loss: ",),
        head=rf"(?<!\w)Step {ITERATION}/{ITERATIONS} data_time: ",
        fields=(
            Field("learning_rate", r" lr: ", _SPACE),
            Field("step_seconds", r" time: ", _SPACE),
            Field("loss", r" reduced_llm_loss: ", r"(?=,? )", needed=True),
            Field("max_memory_allocated_gib", r" max_memory: ", " GB"),
            Field("max_memory_reserved_gib", r" reserved_memory: ", " GB"),
            Field("grad_norm", r" grad_norm: ", _SPACE),
            Field("tokens_per_second_per_gpu", r" tgs: ", r"(?= )"),
        ),
        whole=r" tgs: \S+ ",
        log_interval=1,
    )
)

_FIELD = r"(?=  |$)"
_FOUR_DIGITS = r"(?=(?:-?[0-9]+\.[0-9]{4}|nan|inf)(?:  |$))"  # other numbers are torn

MMENGINE = line_format(
    Declaration(
        name="MMEngine",
        anchors=(b"Iter(train) [",),
        head=rf"Iter\(train\) \[ *{ITERATION}/ *{ITERATIONS}\] ",
        fields=(
            Field("learning_rate", r"\]  lr: ", _FIELD),
            Field("step_seconds", r"  time: ", r"(?=  )", needed=True),
            Field("max_memory_allocated_gib", r"  memory: ", r"(?=  )", scale=MIB_OF_GIB),
            Field("loss", rf"  loss: {_FOUR_DIGITS}", _FIELD, needed=True),
            Field("grad_norm", rf"  grad_norm: {_FOUR_DIGITS}", _FIELD),
            Field("reported_tflops_per_gpu", rf"  tflops: {_FOUR_DIGITS}", _FIELD),
            Field("tokens_per_second_per_gpu", rf"  tokens_per_sec: {_FOUR_DIGITS}", _FIELD),
        ),
        whole=r"  data_time: \S+  ",
    )
)

LIBAI = line_format(
    Declaration(
        name="LiBai",
        anchors=(b" total_throughput: ",),
        head=rf"(?<!\w)iteration: {ITERATION}/{ITERATIONS}(?=  consumed_samples: )",
        fields=(
            Field("consumed_samples", r"  consumed_samples: ", r"(?=  )"),
            Field("loss", r"  total_loss: ", r"(?=  )"),
            Field("running_samples_per_second", r" total_throughput: ", r" samples/s", needed=True),
            Field("learning_rate", r"  lr: ", r"(?=  )"),
        ),
        whole=r" samples/s  lr: \S+  ",
    )
)

_COMMA = r"(?=,)"

MLX = line_format(
    Declaration(
        name="MLX",
        anchors=(b", It/sec ",),
        head=rf"(?<!\w)Iter {ITERATION}: Train loss ",
        fields=(
            Field("loss", r": Train loss ", _COMMA, needed=True),
            Field("learning_rate", r", Learning Rate ", _COMMA),
            Field("tokens_per_second", r", Tokens/sec ", _COMMA, needed=True),
            Field("consumed_tokens", r", Trained Tokens ", _COMMA),
        ),
        whole=r", Trained Tokens \S+, ",
    )
)

LITGPT = line_format(
    Declaration(
        name="litgpt, by micro-batch",
        anchors=(b"| iter time: ",),
        head=rf"Epoch [0-9]+ \| iter {ITERATION} step [0-9]+ \| loss train: ",
        fields=(
            Field("loss", r" loss train: ", r"(?=,)", needed=True),
            Field("step_seconds", r"\| iter time: ", " ms", scale=MILLISECONDS, needed=True),
        ),
        whole=r"\| iter time: [0-9]+\.[0-9]{2} ms",
        log_interval=1,
    )
)

# iter 2 step 1: loss 3.3320, iter time: 765.52ms (optimizer.step)                     of 2023
# iter 4810 | step 601: loss 0.2745, iter time: 131.68 ms
# iter 2: loss 3.3320, time: 765.52ms, speed: 2675 toks/s/device                     lit-llama
LITGPT_2023 = line_format(
    Declaration(
        name="litgpt of 2023, by micro-batch",
        anchors=(b", iter time: ", b", time: "),
        head=rf"(?<!\w)iter {ITERATION}(?:(?: \|)? step [0-9]+)?: loss ",
        fields=(
            Field("loss", r": loss ", r"(?=, )", needed=True),
            Field("step_seconds", r", (?:iter )?time: ", " ?ms", scale=MILLISECONDS, needed=True),
            Field("tokens_per_second_per_gpu", r"ms, speed: ", " toks/s/device"),
        ),
        whole=r", (?:iter )?time: [0-9]+\.[0-9]{2} ?ms",
        never=r"(?<!\w)iteration ",  # of llm.c
        log_interval=1,
    )
)

_DASH = r"(?= - )"

MISTRAL = line_format(
    Declaration(
        name="mistral-finetune",
        anchors=(b" - words_per_second: ",),
        head=rf"(?<!\w)step: {ITERATION} - done \(%\): ",
        fields=(
            Field("loss", r" - loss: +", _DASH, needed=True),
            Field("learning_rate", r" - lr: +", _DASH),
            Field("max_memory_allocated_gib", r" - peak_alloc_mem \(GB\): +", _DASH),
            Field("memory_allocated_gib", r" - alloc_mem \(GB\): +", _DASH),
            Field("tokens_per_second_per_gpu", r" - words_per_second: +", _DASH),
        ),
        whole=r" - words_per_second: +\S+ - ",
    )
)

# A number without its unit may be torn.
_PEAK = re.compile(
    r"(?<!\w)Training time: [0-9]+\.[0-9]{2}s\s*\n[^\n]{0,200}?(?<!\w)"
    r"Memory used: (?P<gigabytes>[0-9]{1,6}\.[0-9]{2}) GB(?!\w)"
)
_PEAK_IN_TABLE = re.compile(r"\| - Memory Used +: +(?P<gigabytes>[0-9]{1,6}\.[0-9]{2}) GB(?!\w)")


def _parse_peak(offset: int, text: str) -> Iterator[Usage]:
    if match := _PEAK.search(text) or _PEAK_IN_TABLE.search(text.partition("\n")[0]):
        yield Usage(
            source=UsageSource.TORCH,
            max_memory_allocated_gib=float(match["gigabytes"]) * 1e9 / 2**30,
            offset=offset,
        )


LITGPT_MEMORY = LogFormat(
    name="litgpt, peak memory",
    anchors=(b"Training time: ", b"| - Memory Used "),
    parse=_parse_peak,
    following=1,
)
