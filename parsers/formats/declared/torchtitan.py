"""Parse torchtitan's line of a training step.

    [rank0]:[titan] 2025-12-13 06:57:02,246 - root - INFO - step: 10  loss: 10.0544  grad_norm:
        6.6503  memory: 116.82GiB(83.61%)  tps: 2,228  tflops: 83.74  mfu: 8.47%

A report covers the steps since the previous report. It has no step time. `tps` is tokens per second
and GPU (called `wps` before December 2024). `memory` is the reserved maximum since the previous
report. It is 0.00GiB if the device does not report its memory. `tflops` is the program's own count;
some versions print no value. `mfu` is N/A with FP8. The MFU is relative to the peak in the line
`Peak FLOPS used for computing MFU`. For a GPU that torchtitan does not know, this is the peak of an
A100. Lines `validate step:` report a validation.

Programs made from torchtitan also print how much of the training is done:

    2025-04-01 00:25:47,084 - root - INFO - step: 640/644 = 99.3789%  loss:  6.2116  memory:
        87.04GiB(93.48%)  tps: 52,142  mfu: 3.09%

Until April 2024 the line had no MFU:

    2024-03-20 14:58:21,642 - root - INFO - step: 11  loss:  7.2777  memory: 34.40GiB(36.20%)  wps:
        1,894

Such a line is read only if another line follows. Otherwise its last number may be torn.
"""

from dataclasses import replace

from parsers.formats.declared.declaration import ITERATION, PERCENT, Declaration, Field, line_format
from parsers.scan.reader import NEVER

_HEAD = rf"(?<!\w)(?<!validate )step: {{1,8}}{ITERATION}(?:/[0-9]+ = +[0-9.]+%)?  +loss: "
_LOSS = Field("loss", r"  loss: +", r"(?=  )", needed=True)
_MEMORY = Field("max_memory_reserved_gib", r"  memory: +(?!0\.00GiB)", r"GiB\(")

TORCHTITAN = line_format(
    Declaration(
        name="torchtitan",
        anchors=(b"tps: ", b"wps: "),
        head=_HEAD,
        fields=(
            _LOSS,
            Field("grad_norm", r"  grad_norm: +", r"(?=  )"),
            _MEMORY,
            Field("tokens_per_second_per_gpu", r"  [tw]ps: +", r"(?=  )", needed=True),
            Field("reported_tflops_per_gpu", r"  tflops: +", r"(?=  )"),
            Field("reported_mfu", r"  mfu: +", "%", scale=PERCENT),
        ),
        whole=r"  mfu: +(?:[0-9.,]+%|N/A)",
        never=r"validate step:|wps: [0-9,]+ *$",
    )
)
TORCHTITAN_2024 = replace(
    line_format(
        Declaration(
            name="torchtitan of early 2024",
            anchors=(b"wps: ",),
            head=rf"{_HEAD}[^\n]*  wps: [0-9,]+ *(?:\n|$)",
            fields=(
                _LOSS,
                _MEMORY,
                Field("tokens_per_second_per_gpu", r"  wps: ", r"(?= *\n)", needed=True),
            ),
            whole=r"  wps: [0-9,]+ *\n",
        )
    ),
    following=1,
    parse_lines=None,
    report=NEVER,
)
