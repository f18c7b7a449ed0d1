"""Parse the lines of fairseq and metaseq: as JSON, as text, or in a progress bar.

    2022-11-11 14:05:29 | INFO | train_inner | {"epoch": 1, "loss": "15.864", "wps": "739601",
        "ups": "0.71", "wpb": "1.04858e+06", "bsz": "512", "num_updates": "2", "lr": "5.6e-07", …}
    2023-06-13 17:31:08 | INFO | train_inner | epoch 143:     85 / 282 loss=3.147, ppl=8.86,
        wps=72384.3, ups=1.21, wpb=59997.9, bsz=2186.3, num_updates=40100, lr=0.000157917, …

`wps` is the number of tokens per second of all GPUs together since the report before; up to 2019,
since the start of the epoch. It is 0 in the first report. `ups`, the updates per second, has too
few digits for a step time. Memory is the peak since the report before, in GiB.
"""

from parsers.formats.declared.declaration import ITERATION, Declaration, Field, line_format

_QUOTE = r'(?=")'

FAIRSEQ_JSON = line_format(
    Declaration(
        name="fairseq, JSON",
        anchors=(b'"wps": "',),
        head=rf'"loss": "(?=[^"]*", ")(?:[^|]*?, )?"num_updates": "{ITERATION}(?=")',
        fields=(
            Field(name="loss", before=r'"loss": "', after=_QUOTE, needed=True),
            Field(name="tokens_per_second", before=r'"wps": "(?!0")', after=_QUOTE),
            Field(name="learning_rate", before=r'"lr": "', after=_QUOTE),
            Field(name="grad_norm", before=r'"gnorm": "', after=_QUOTE),
            Field(name="loss_scale", before=r'"loss_scale": "', after=_QUOTE),
            Field(name="max_memory_allocated_gib", before=r'"cuda_gb_allocated": "', after=_QUOTE),
            Field(name="max_memory_reserved_gib", before=r'"cuda_gb_reserved": "', after=_QUOTE),
        ),
        whole=r'"num_updates": "[0-9]+"',
    )
)

_COMMA = r"(?=,)"

FAIRSEQ = line_format(
    Declaration(
        name="fairseq",
        anchors=(b", wps=",),
        head=rf"(?<!\w)loss=(?=[^\s,]+, )(?:[^|]*?, )?num_updates={ITERATION}(?=,)",
        fields=(
            Field(name="loss", before=r"(?<!\w)loss=", after=_COMMA, needed=True),
            Field(name="tokens_per_second", before=r", wps=(?!0,)", after=_COMMA),
            Field(name="learning_rate", before=r", lr=", after=_COMMA),
            Field(name="grad_norm", before=r", gnorm=", after=_COMMA),
            Field(name="loss_scale", before=r", loss_scale=", after=_COMMA),
        ),
        whole=r", num_updates=[0-9]+,",
    )
)
