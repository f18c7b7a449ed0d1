"""Parse litgpt's line of a micro-batch.

    Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)

The time is that of one micro-batch; `(step)` marks those that end with an update of the weights.
"""

from parsers.formats.declared.declaration import (
    ITERATION,
    MILLISECONDS,
    Declaration,
    Field,
    line_format,
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
