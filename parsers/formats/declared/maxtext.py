"""Parse MaxText's line of a training step.

    completed step: 14, seconds: 3.443, TFLOP/s/device: 413.433, Tokens/s/device: 7138.890,
        total_weights: 196608, loss: 2.136

Steps are dispatched before the device has done them, so the times of the first three mean nothing.
"""

from parsers.formats.declared.declaration import ITERATION, Declaration, Field, line_format

UNTIMED_STEPS = 3

MAXTEXT = line_format(
    Declaration(
        name="MaxText",
        anchors=(b"completed step: ",),
        head=rf"completed step: {ITERATION}, seconds: ",
        fields=(
            Field(name="step_seconds", before=r", seconds: ", after=",", needed=True),
            Field(name="reported_tflops_per_gpu", before=r", TFLOP/s/device: ", after=","),
            Field(name="tokens_per_second_per_gpu", before=r", Tokens/s/device: ", after=","),
            Field(name="loss", before=r", loss: ", after=r"(?=,|\s|$)", needed=True),
        ),
        whole=r", loss: (?:[0-9]+\.[0-9]{3}|nan|inf)(?=,|\s|$)",
        log_interval=1,
    )
)
