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
            Field(name="learning_rate", before=r" lr: ", after=_SPACE),
            Field(name="step_seconds", before=r" time: ", after=_SPACE),
            Field(name="loss", before=r" reduced_llm_loss: ", after=r"(?=,? )", needed=True),
            Field(name="max_memory_allocated_gib", before=r" max_memory: ", after=" GB"),
            Field(name="max_memory_reserved_gib", before=r" reserved_memory: ", after=" GB"),
            Field(name="grad_norm", before=r" grad_norm: ", after=_SPACE),
            Field(name="tokens_per_second_per_gpu", before=r" tgs: ", after=r"(?= )"),
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
            Field(name="learning_rate", before=r"\]  lr: ", after=_FIELD),
            Field(name="step_seconds", before=r"  time: ", after=r"(?=  )", needed=True),
            Field(
                name="max_memory_allocated_gib",
                before=r"  memory: ",
                after=r"(?=  )",
                scale=MIB_OF_GIB,
            ),
            Field(name="loss", before=rf"  loss: {_FOUR_DIGITS}", after=_FIELD, needed=True),
            Field(name="grad_norm", before=rf"  grad_norm: {_FOUR_DIGITS}", after=_FIELD),
            Field(
                name="reported_tflops_per_gpu", before=rf"  tflops: {_FOUR_DIGITS}", after=_FIELD
            ),
            Field(
                name="tokens_per_second_per_gpu",
                before=rf"  tokens_per_sec: {_FOUR_DIGITS}",
                after=_FIELD,
            ),
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
            Field(name="consumed_samples", before=r"  consumed_samples: ", after=r"(?=  )"),
            Field(name="loss", before=r"  total_loss: ", after=r"(?=  )"),
            Field(
                name="running_samples_per_second",
                before=r" total_throughput: ",
                after=r" samples/s",
                needed=True,
            ),
            Field(name="learning_rate", before=r"  lr: ", after=r"(?=  )"),
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
            Field(name="loss", before=r": Train loss ", after=_COMMA, needed=True),
            Field(name="learning_rate", before=r", Learning Rate ", after=_COMMA),
            Field(name="tokens_per_second", before=r", Tokens/sec ", after=_COMMA, needed=True),
            Field(name="consumed_tokens", before=r", Trained Tokens ", after=_COMMA),
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
            Field(name="loss", before=r" loss train: ", after=r"(?=,)", needed=True),
            Field(
                name="step_seconds",
                before=r"\| iter time: ",
                after=" ms",
                scale=MILLISECONDS,
                needed=True,
            ),
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
            Field(name="loss", before=r": loss ", after=r"(?=, )", needed=True),
            Field(
                name="step_seconds",
                before=r", (?:iter )?time: ",
                after=" ?ms",
                scale=MILLISECONDS,
                needed=True,
            ),
            Field(
                name="tokens_per_second_per_gpu",
                before=r"ms, speed: ",
                after=" toks/s/device",
            ),
        ),
        whole=r", (?:iter )?time: [0-9]+\.[0-9]{2} ?ms",
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
            Field(name="loss", before=r" - loss: +", after=_DASH, needed=True),
            Field(name="learning_rate", before=r" - lr: +", after=_DASH),
            Field(
                name="max_memory_allocated_gib", before=r" - peak_alloc_mem \(GB\): +", after=_DASH
            ),
            Field(name="memory_allocated_gib", before=r" - alloc_mem \(GB\): +", after=_DASH),
            Field(name="tokens_per_second_per_gpu", before=r" - words_per_second: +", after=_DASH),
        ),
        whole=r" - words_per_second: +\S+ - ",
    )
)

# A number without its unit may be torn.
_PEAK = re.compile(
    r"(?<!\w)Training time: [0-9]+\.[0-9]{2}s\s*\n[^\n]{0,200}?(?<!\w)"
    r"Memory used: (?P<gigabytes>[0-9]{1,6}\.[0-9]{2}) GB(?!\w)"
)


def _parse_peak(offset: int, text: str) -> Iterator[Usage]:
    if match := _PEAK.search(text):
        yield Usage(
            source=UsageSource.TORCH,
            max_memory_allocated_gib=float(match["gigabytes"]) * 1e9 / 2**30,
            offset=offset,
        )


LITGPT_MEMORY = LogFormat(
    name="litgpt, peak memory",
    anchors=(b"Training time: ",),
    parse=_parse_peak,
    following=1,
)
