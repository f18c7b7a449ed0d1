"""Parse the lines of PaddleNLP's and PaddleFormers' trainer, and of older scripts for GPT.

    [    INFO] - loss: 12.0635252, learning_rate: 2e-06, global_step: 1, current_memory_allocated:
        7.549170255661011, …, max_memory_reserved: 7.753237724304199, interval_runtime: 1.1518,
        interval_samples_per_second: 0.8682, interval_tokens_per_second_per_device: 889.0448, …
    [    INFO] - global step 2, epoch: 0, batch: 1, loss: 11.054802895, avg_reader_cost: 0.00014
        sec, avg_batch_cost: 0.13314 sec, speed: 7.51 step/s, ips_total: 61529 tokens/s, ips: 7691
        tokens/s, learning rate: 8.33333e-09
    [    INFO] - [train] epoch: 0, batch: 1, loss: 10.997043610, avg_batch_cost: 0.50907 sec, …

`interval_runtime` is the time since the last report, in seconds, and memory is in GiB. Samples per
second are of all devices; other rates are per device.

The scripts for GPT, and PaddleFleetX, print means over the batches since the last report. The rate
`ips_total` is of all devices. `ips` is not read: it is per device in some versions, per copy of the
model in others, and of all devices in others.
"""

from parsers.formats.declared.declaration import ITERATION, Declaration, Field, line_format

# `progress_or_epoch` ends the line: a number at the end of a line is torn.
_END = "(?=,)"
_EXPONENT_END = r"(?=,)|(?<=e[-+][0-9]{2})(?=\s*$)"

PADDLE = line_format(
    Declaration(
        name="Paddle trainer",
        anchors=(b"interval_runtime: ",),
        head=rf"(?<!\w)loss: \S+, learning_rate: \S+, global_step: {ITERATION}, ",
        fields=(
            Field("loss", r"(?<!\w)loss: ", _END, needed=True),
            Field("learning_rate", r", learning_rate: ", _END),
            Field("interval_seconds", r", interval_runtime: ", _END, needed=True),
            Field(
                "steps_per_second",
                # Python prints a float with a point: other numbers are damaged.
                r", interval_steps_per_second: (?=[0-9]+\.[0-9])",
                _END,
            ),
            Field("samples_per_second", r", interval_samples_per_second: ", _END),
            Field("tokens_per_second_per_gpu", r", interval_tokens_per_second_per_device: ", _END),
            Field("reported_tflops_per_gpu", r", interval_hardware_tflops_per_device: ", _END),
            Field("memory_allocated_gib", r", current_memory_allocated: ", _END),
            Field("max_memory_allocated_gib", r", max_memory_allocated: ", _END),
            Field("max_memory_reserved_gib", r", max_memory_reserved: ", _END),
        ),
        whole=r", interval_runtime: [0-9.]+,",
    )
)

PADDLE_GPT = line_format(
    Declaration(
        name="Paddle GPT",
        anchors=(b" sec, speed: ",),
        # Without a global step, the batches of the first epoch are the steps.
        head=r"(?:global step:? |\[train\] epoch: (?:0|\[0/[0-9]+\]), batch: \[?)"
        rf"{ITERATION}(?=[,/])(?:[^|\n]*?, +)?loss: ",
        fields=(
            Field("loss", r"(?<!\w)loss: ", _END, needed=True),
            Field("step_seconds", r", avg_batch_cost: ", " sec,", needed=True),
            Field("tokens_per_second", r", ips_total: ", " tokens/s"),
            Field("learning_rate", r", learning rate: ", _EXPONENT_END),
        ),
        whole=r" sec, speed: [0-9]+\.[0-9]+ step/s",
    )
)
