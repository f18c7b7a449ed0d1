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
            Field(name="loss", before=r"\| Loss: +", after=_END, needed=True),
            Field(name="tokens_per_second", before=r"\| Tokens/s: +", after=_END),
            Field(
                name="tokens_per_second_per_gpu",
                before=r"\| Tokens/s/GPU: +",
                after=_END,
                needed=True,
            ),
            Field(
                name="reported_mfu",
                before=r"\| MFU: +(?!0\.00%)",
                after=r"%",
                scale=PERCENT,
            ),
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
            Field(name="loss", before=r"(?<=[0-9]), loss: ", after=r"(?=,)", needed=True),
            Field(name="learning_rate", before=r", inner_lr: ", after=r"(?=,)"),
            Field(
                name="tokens_per_second",
                before=r", tokens_per_second: ",
                after=r"(?=,)",
                needed=True,
            ),
            Field(name="reported_mfu", before=r", mfu: ", after=r"(?=,|\s*$)", scale=PERCENT),
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
                name="step_seconds",
                before=r"(?<!\w)Step [0-9]+ +\| +(?:Time: +)?",
                after=r"s(?= +\|)",
                needed=True,
            ),
            Field(name="loss", before=r"\| (?:KL )?Loss:? +", after=_END),
            Field(name="grad_norm", before=r"\| Grad\. Norm:? +", after=_END),
            Field(name="learning_rate", before=r"\| LR:? +", after=_END),
            Field(
                name="tokens_per_second",
                before=r"\| Throughput:? +(?!0 )",
                after=" tokens/s",
            ),
            Field(
                name="reported_mfu",
                before=r"\| MFU:? +(?!0\.0%)",
                after="%",
                scale=PERCENT,
            ),
            Field(
                name="max_memory_reserved_gib",
                before=r"\| Peak Mem\.:? +",
                after=r"(?:/[0-9.]+)? GiB",
            ),
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
            Field(name="loss", before=r"\| loss ", after=_END, needed=True),
            Field(name="grad_norm", before=r"\| grad_norm ", after=_END),
            Field(name="learning_rate", before=r"\| lr ", after=_END),
            Field(name="max_memory_allocated_gib", before=r"\| mem ", after=" GiB"),
            Field(name="tokens_per_second", before=r"\| tps ", after=r"(?=\()"),
            Field(name="tokens_per_second_per_gpu", before=r"(?<=[0-9])\(", after=r"/gpu\)"),
        ),
        whole=r"\| tps [0-9]+\.[0-9]{2}(?:\([0-9.]+/gpu\)|\s|$)",
    )
)
