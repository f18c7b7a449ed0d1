"""Parse the lines of NVIDIA's NeMo 1, NeMo 2 and Megatron-Bridge.

    Epoch 0: : 100%|██████████| 50/50 [23:22<00:00, reduced_train_loss=0.186, global_step=49.00,
        consumed_samples=51200.0, train_step_timing in s=24.00]

    Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: 45 |
        max_memory_reserved: 127785762816 | max_memory_allocated: 115792977920 | reduced_train_loss:
        11.96 | train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 5888
    Step Time : 2.41s GPU utilization: 1085.8MODEL_TFLOP/s/GPU

NeMo 2 prints fields in any order, and memory in bytes. Its `iteration` begins at 0 in each
epoch, but its `global_step` goes on. Megatron-Bridge's line has no iteration number, and its time
is the mean over an unknown number of iterations. It comes before Megatron's own line about the same
iteration, if there is one. So teralog numbers the lines of Megatron-Bridge in a launch from 1. If
other lines of the launch have iteration numbers, teralog reads only the TFLOPs of
Megatron-Bridge's lines. Both programs print 0 TFLOPs if they cannot count the FLOPs of the model.

NeMo 1 prints its values in the progress bar of Lightning. Large numbers are rounded to three
digits, e.g. to `3.2e+4`. If the step is printed so, teralog does not read the bar.
"""

from parsers.formats.declared.declaration import (
    BYTES_OF_GIB,
    ITERATION,
    Declaration,
    Field,
    line_format,
)

_IN_BAR = r"(?=[,\]])"

NEMO_1 = line_format(
    Declaration(
        name="NeMo 1",
        anchors=(b"reduced_train_loss=",),
        head=r"\breduced_train_loss=[^\s,]+, (?:[\w/ -]+=[^\s,\]]+, ){0,20}"
        rf"global_step={ITERATION}\.0*(?=,)",
        fields=(
            Field("step_seconds", r", train_step_timing in s=", _IN_BAR),
            # A loss that is not a number is printed as `nan.0`.
            Field("loss", r"\breduced_train_loss=", rf"(?:\.0)?{_IN_BAR}"),
        ),
        whole=r"\bglobal_step=[^\]\n]+\]",
        log_interval=1,
    )
)

_END = r"(?= \||\s*$)"
# NeMo prints a loss with four digits. With fewer, the end of a torn line may have cut the rest.
_LOSS_END = r"(?= \||(?:(?<=[0-9]\.[0-9]{3})|(?<=[0-9]{2}\.[0-9]{2}))\s*$)"

NEMO = line_format(
    Declaration(
        name="NeMo 2",
        anchors=(b"train_step_timing in s: ", b"| reduced_train_loss: "),
        head=r"Training epoch [0-9]+, iteration [0-9]+/[0-9]+ (?=\|)"
        rf"(?:.*? )?\| global_step: {ITERATION}(?= \|)",
        fields=(
            Field("step_seconds", r"\| train_step_timing in s: ", _END),
            Field("loss", r"\| reduced_train_loss: ", _LOSS_END),
            Field("learning_rate", r"\| lr: ", _END),
            Field("grad_norm", r"\| grad_norm: ", _END),
            Field("global_batch_size", r"\| global_batch_size: ", _END),
            Field("consumed_samples", r"\| consumed_samples: ", _END),
            Field("reported_tflops_per_gpu", rf"\| TFLOPS_per_GPU: (?!0(?:\.0)?{_END})", _END),
            Field("tokens_per_second_per_gpu", r"\| tokens_per_sec_per_gpu: ", _END),
            Field("memory_allocated_gib", r"\| memory_allocated: ", _END, scale=BYTES_OF_GIB),
            Field(
                "max_memory_allocated_gib",
                r"\| (?:max_memory_allocated|peak_memory_usage): ",
                _END,
                scale=BYTES_OF_GIB,
            ),
            Field("max_memory_reserved_gib", r"\| max_memory_reserved: ", _END, scale=BYTES_OF_GIB),
        ),
        whole=rf"\| train_step_timing in s: [0-9.e+-]+{_END}"
        rf"|\| reduced_train_loss: (?:[0-9.e+-]+|nan|inf){_END}",
        log_interval=1,
    )
)

MEGATRON_BRIDGE = line_format(
    Declaration(
        name="Megatron-Bridge",
        anchors=(b"Step Time : ",),
        head=r"Step Time : [0-9]",
        fields=(
            Field("step_seconds", r"Step Time : ", "s ", needed=True),
            Field(
                "reported_tflops_per_gpu",
                r"GPU utilization: (?!0\.0 ?(?:MODEL_)?TFLOP)",
                r" ?(?:MODEL_)?TFLOP/s/GPU",
            ),
        ),
        whole=r"TFLOP/s/GPU",
        counted=True,
    )
)
