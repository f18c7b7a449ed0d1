"""Parse MaxText's line of a training step.

    completed step: 14, seconds: 3.443, TFLOP/s/device: 413.433, Tokens/s/device: 7138.890,
        total_weights: 196608, loss: 2.136
    completed step: 2, seconds: 0.206, TFLOP/s: 72.958, loss: 9.352                         in 2023

MaxText starts a step before the device has completed the earlier ones. So the printed times
of the first three steps do not show how long these steps took. If a model predicts several
tokens at once, `main_model_loss` is the loss of the next token.
"""

from parsers.formats.declared.declaration import ITERATION, Declaration, Field, line_format

UNTIMED_STEPS = 3
_LOSS = r", +(?:main_model_)?loss: "

MAXTEXT = line_format(
    Declaration(
        name="MaxText",
        anchors=(b"completed step: ",),
        head=rf"completed step: {ITERATION}, seconds: +",
        fields=(
            Field("step_seconds", r", seconds: +", ",", needed=True),
            Field("reported_tflops_per_gpu", r", TFLOP/s(?:/device)?: ", ","),
            Field("tokens_per_second_per_gpu", r", Tokens/s/device: ", ","),
            Field("loss", _LOSS, r"(?![\w.])", needed=True),
        ),
        whole=_LOSS + r"(?:[0-9]+\.[0-9]{3}|nan|inf)(?![\w.])",
        log_interval=1,
    )
)
