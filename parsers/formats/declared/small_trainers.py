"""Parse the lines of picotron, prime, prime-rl and NVIDIA's Automodel.

    [rank 2] Step: 3     | Loss: 8.9219 | Global batch size:   2.05K | Tokens/s:  10.61K |
        Tokens/s/GPU:   1.33K | Tokens:   6.14K | MFU:  0.43% | Memory usage:   1.75GB
    Step 11 | Time: 38.00s | Loss: 1.1000 | Grad. Norm: 4.8000 | LR: 2.00e-05 | Throughput:
        1300 tokens/s | MFU: 5.5% | Peak Mem.: 29.5/31.0 GiB (95.2%)
    step 12 | epoch 0 | loss 1.2345 | grad_norm 0.5000 | lr 1.00e-05 | mem 12.34 GiB |
        tps 1234.56(154.32/gpu) | num_label_tokens 4096
    step: 8, loss: 9.9991, tokens_per_second: 76957.79, mfu: 42.46

Each example is one line of a log; a line that is indented further continues the
line above it.

* picotron's memory and batch are not read: the memory is not the peak, and the batch is a
  rounded number of tokens.
* prime's tokens/s are of all ranks that train together. Its first step has none.
* prime-rl's throughput is of all ranks. Throughput and MFU are 0 before the second step.
  Its memory is the reserved peak. Since 2026 it prints `Step 11 |  38.00s | Loss 1.1 | …`.
* Automodel prints the allocated peak. It prints tokens/s of all ranks and, in parentheses,
  of one rank. Without parentheses, as in 2025, they may be of either and are not read. It
  also writes the same values as JSON.
"""

from parsers.formats.declared.declaration import ITERATION, PERCENT, Declaration, Field, line_format

_END = r"(?= *(?:\||$))"

PICOTRON = line_format(
    Declaration(
        name="picotron",
        anchors=(b"| Tokens/s/GPU: ",),
        head=rf"(?<!\w)Step: {ITERATION} +\| Loss: ",
        fields=(
            Field("loss", r"\| Loss: +", _END, needed=True),
            Field("tokens_per_second", r"\| Tokens/s: +", _END),
            Field("tokens_per_second_per_gpu", r"\| Tokens/s/GPU: +", _END, needed=True),
            Field("reported_mfu", r"\| MFU: +(?!0\.00%)", r"%", scale=PERCENT),
        ),
        whole=r"\| Memory usage: +[0-9]+\.[0-9]{2}GB",
    )
)

PRIME = line_format(
    Declaration(
        name="prime",
        anchors=(b", tokens_per_second: ",),
        head=rf"(?<!\w)step: {ITERATION}, loss: ",
        fields=(
            Field("loss", r"(?<=[0-9]), loss: ", r"(?=,)", needed=True),
            Field("learning_rate", r", inner_lr: ", r"(?=,)"),
            Field("tokens_per_second", r", tokens_per_second: ", r"(?=,)", needed=True),
            Field("reported_mfu", r", mfu: ", r"(?=,|\s*$)", scale=PERCENT),
        ),
        whole=r", mfu: [0-9]+\.[0-9]{2}(?![0-9.])",
    )
)

PRIME_RL = line_format(
    Declaration(
        name="prime-rl",
        anchors=(b"| Peak Mem.",),
        head=rf"(?<!\w)Step {ITERATION} +\| +(?:Time: +)?[0-9.]+s +\| ",
        fields=(
            Field(
                "step_seconds", r"(?<!\w)Step [0-9]+ +\| +(?:Time: +)?", r"s(?= +\|)", needed=True
            ),
            Field("loss", r"\| (?:KL )?Loss:? +", _END),
            Field("grad_norm", r"\| Grad\. Norm:? +", _END),
            Field("learning_rate", r"\| LR:? +", _END),
            Field("tokens_per_second", r"\| Throughput:? +(?!0 )", " tokens/s"),
            Field("reported_mfu", r"\| MFU:? +(?!0\.0%)", "%", scale=PERCENT),
            Field("max_memory_reserved_gib", r"\| Peak Mem\.:? +", r"(?:/[0-9.]+)? GiB"),
        ),
        whole=r"\| Peak Mem\.:? +[0-9./]+ GiB",
        log_interval=1,
    )
)

AUTOMODEL_CONSOLE = line_format(
    Declaration(
        name="Automodel",
        anchors=(b" GiB | tps ",),
        head=rf"(?<!\w)step {ITERATION} \| epoch [0-9]+ \| loss ",
        fields=(
            Field("loss", r"\| loss ", _END, needed=True),
            Field("grad_norm", r"\| grad_norm ", _END),
            Field("learning_rate", r"\| lr ", _END),
            Field("max_memory_allocated_gib", r"\| mem ", " GiB"),
            Field("tokens_per_second", r"\| tps ", r"(?=\()"),
            Field("tokens_per_second_per_gpu", r"(?<=[0-9])\(", r"/gpu\)"),
        ),
        whole=r"\| tps [0-9]+\.[0-9]{2}(?:\([0-9.]+/gpu\)|\s|$)",
    )
)
