"""Parse the lines of llama2.c, torchtune, InternEvo, NeMo-RL, fairseq and Transformer-XL.

    510 | loss 5.2391 | lr 4.999939e-05 | 8175.64ms | mfu 0.19%
    Step 3 | loss:1.1732845306396484 lr:2e-05 tokens_per_second_per_gpu:655.93 peak_memory_alloc:…
    tflops=189.83,step=1,loss=11.613,tgs (tokens/gpu/second)=4274.45,lr=4e-07,…,fwd_bwd_time=3.58
      • Total step time: 12.34s
    2022-11-11 14:05:29 | INFO | train_inner | {"epoch": 1, "loss": "15.864", "wps": "739601",
        "ups": "0.71", "wpb": "1.04858e+06", "bsz": "512", "num_updates": "2", "lr": "5.6e-07", …}
    2023-06-13 17:31:08 | INFO | train_inner | epoch 143:     85 / 282 loss=3.147, ppl=8.86,
        wps=72384.3, ups=1.21, wpb=59997.9, bsz=2186.3, num_updates=40100, lr=0.000157917, …
    | epoch   1 step       10 | batches     10 / 16240 | lr 1.000e-04 | ms/batch 221.4 |
        tok/s   36987 | loss 10.21 | ppl  27125.12

* llama2.c times only the iteration that it reports. Its MFU is a running mean, and is
  negative until the first measured value.
* torchtune prints a space after each number. Its memory is in bytes, in GB or in GiB,
  depending on the version, so it is not read.
* InternEvo, InternLM's program, separates fields by commas or by spaces. Its TFLOPs are of
  one GPU; it reports no step time.
* NeMo-RL's block has no iteration number near its time. The time includes generation,
  scoring and training.
* fairseq and metaseq print JSON, text or a progress bar. `wps` is the number of tokens per
  second of all GPUs together since the report before; up to 2019, since the start of the
  epoch. It is 0 in the first report. `ups`, the updates per second, has too few digits for
  a step time. Memory is the peak since the report before, in GiB.
* Transformer-XL prints the mean time of a step since the report before. Only NVIDIA's version
  prints the rate, which is of all GPUs.
"""

from parsers.formats.declared.declaration import (
    ITERATION,
    MILLISECONDS,
    PERCENT,
    Declaration,
    Field,
    line_format,
)
from parsers.labels import LABELS

LLAMA2_C = line_format(
    Declaration(
        name="llama2.c",
        anchors=(b"ms | mfu ",),
        head=rf"(?:{LABELS}|(?<![\w.|] )(?<![\w.|])){ITERATION} \| loss \S+ \| lr ",
        fields=(
            Field("loss", r" \| loss ", r"(?= \|)", needed=True),
            Field("learning_rate", r" \| lr ", r"(?= \|)"),
            Field("step_seconds", r" \| ", r"(?=ms \|)", scale=MILLISECONDS, needed=True),
            Field("reported_mfu", r"(?<=ms) \| mfu (?!-)", "%", scale=PERCENT),
        ),
        whole=r"ms \| mfu -?[0-9]+\.[0-9]{2}%",
        log_interval=1,
    )
)

# An editor or a website may have removed the space at the end of a line. A number of 14
# digits is not torn, or torn only after all digits that matter.
_SPACE_OR_ALL_DIGITS = r"(?= |(?<=[0-9.]{14})\s*$)"

TORCHTUNE = line_format(
    Declaration(
        name="torchtune",
        anchors=(b" tokens_per_second_per_gpu:", b" gpu_resources:"),
        head=rf"(?<!\w)Step {ITERATION} \| loss:",
        fields=(
            Field("loss", r" \| loss:", r"(?= )", needed=True),
            Field("learning_rate", r" lr:", r"(?= )"),
            Field(
                "tokens_per_second_per_gpu", r" tokens_per_second_per_gpu:", _SPACE_OR_ALL_DIGITS
            ),
            Field("grad_norm", r" grad_norm:", _SPACE_OR_ALL_DIGITS),
        ),
        whole=r" lr:\S+ ",
    )
)

# 1|25|Loss: 1.2621808052062988:  26%|██▌       | 26/101 [06:45<17:27, 13.96s/it]
TORCHTUNE_BAR = line_format(
    Declaration(
        name="torchtune, progress bar",
        anchors=(b"|Loss: ",),
        head=rf"(?<![\w|])[0-9]{{1,9}}\|{ITERATION}\|Loss: ",
        fields=(Field("loss", r"\|Loss: ", r"(?=: )", needed=True),),
        whole=r"\|Loss: \S+: +[0-9]{1,3}%\|",
    )
)

_END = r"(?=[, ])"

INTERNEVO = line_format(
    Declaration(
        name="InternEvo",
        anchors=(b"tgs (tokens/gpu/second)=",),
        head=rf"(?<!\w)tflops=\S+?[, ]step={ITERATION}[, ]",
        fields=(
            Field("reported_tflops_per_gpu", r"(?<!\w)tflops=", _END),
            Field("loss", r"[, ]loss=", _END, needed=True),
            Field(
                "tokens_per_second_per_gpu", r"[, ]tgs \(tokens/gpu/second\)=", _END, needed=True
            ),
            Field("learning_rate", r"[, ]lr=", _END),
            Field("grad_norm", r"[, ]grad_norm=", _END),
            Field("loss_scale", r"[, ]loss_scale=", _END),
            Field("consumed_tokens", r"[, ]num_consumed_tokens=", _END),
        ),
        whole=r"[, ]fwd_bwd_time=",
    )
)

_NEMO_RL_TIME = "• Total step time: "

NEMO_RL = line_format(
    Declaration(
        name="NeMo-RL",
        anchors=(_NEMO_RL_TIME.encode(),),
        head=rf"{_NEMO_RL_TIME}[0-9]",
        fields=(Field("step_seconds", _NEMO_RL_TIME, "s", needed=True),),
        whole=rf"{_NEMO_RL_TIME}[0-9]+\.[0-9]{{2}}s",
        counted=True,
        log_interval=1,
    )
)

_QUOTE = r'(?=")'

FAIRSEQ_JSON = line_format(
    Declaration(
        name="fairseq, JSON",
        anchors=(b'"wps": "',),
        head=rf'"loss": "(?=[^"\n]*", ")(?:[^|\n]*?, )?"num_updates": "{ITERATION}(?=")',
        fields=(
            Field("loss", r'"loss": "', _QUOTE, needed=True),
            Field("tokens_per_second", r'"wps": "(?!0")', _QUOTE),
            Field("learning_rate", r'"lr": "', _QUOTE),
            Field("grad_norm", r'"gnorm": "', _QUOTE),
            Field("loss_scale", r'"loss_scale": "', _QUOTE),
            Field("max_memory_allocated_gib", r'"cuda_gb_allocated": "', _QUOTE),
            Field("max_memory_reserved_gib", r'"cuda_gb_reserved": "', _QUOTE),
        ),
        whole=r'"num_updates": "[0-9]+"',
    )
)

_COMMA = r"(?=,)"

FAIRSEQ = line_format(
    Declaration(
        name="fairseq",
        anchors=(b", wps=",),
        head=rf"(?<!\w)loss=(?=[^\s,]+, )(?:[^|\n]*?, )?num_updates={ITERATION}(?=,)",
        fields=(
            Field("loss", r"(?<!\w)loss=", _COMMA, needed=True),
            Field("tokens_per_second", r", wps=(?!0,)", _COMMA),
            Field("learning_rate", r", lr=", _COMMA),
            Field("grad_norm", r", gnorm=", _COMMA),
            Field("loss_scale", r", loss_scale=", _COMMA),
        ),
        whole=r", num_updates=[0-9]+,",
    )
)

_BAR = r"(?= \|)"

TRANSFORMER_XL = line_format(
    Declaration(
        name="Transformer-XL",
        anchors=(b" | ms/batch ",),
        head=rf"\| epoch +[0-9]+ step +{ITERATION} \| ",
        fields=(
            Field("learning_rate", r" \| lr +", _BAR),
            Field("step_seconds", r" \| ms/batch +", _BAR, scale=MILLISECONDS),
            Field("tokens_per_second", r" \| tok/s +", _BAR),
            Field("loss", r" \| loss +", _BAR, needed=True),
        ),
        whole=r" \| loss +\S+ \| (?:ppl|bpc) ",
    )
)
