"""Parse the lines of small GPT trainings in the manner of nanoGPT: nanochat and modded-nanogpt.

    step 00200/35280 (0.57%) | loss: 5.147944 | lrm: 1.00 | dt: 558.89ms | tok/sec: 58,679 |
        bf16_mfu: 0.00
    step:1390/1390 train_time:80605ms step_avg:57.99ms
    peak memory allocated: 30908 MiB reserved: 46472 MiB

nanochat's rate is of all ranks, and its MFU 0 on a device that it does not know. modded-nanogpt
prints the time since the start of the training, or since step 10 in older versions; the time of a
step is the difference of two reports. Lines with `val_loss` report a validation.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, line_parts
from parsers.formats.declared.declaration import (
    ITERATION,
    ITERATIONS,
    MILLISECONDS,
    PERCENT,
    Declaration,
    Field,
    line_format,
)
from parsers.records import Usage, UsageSource
from parsers.scan.reader import LogFormat

NANOCHAT = line_format(
    Declaration(
        name="nanochat",
        anchors=(b"tok/sec: ",),
        head=rf"(?<!\w)step {ITERATION}(?:/{ITERATIONS})? \([0-9.]+%\) \| loss: ",
        fields=(
            Field(name="loss", before=r"\| loss: ", after=r"(?= \|)", needed=True),
            Field(
                name="step_seconds",
                before=r"\| dt: ",
                after=r"ms(?= \|)",
                scale=MILLISECONDS,
                needed=True,
            ),
            Field(name="tokens_per_second", before=r"\| tok/sec: ", after=r"(?= \|)", needed=True),
            Field(
                name="reported_mfu",
                before=r"\| (?:bf16_)?mfu: (?!0\.00(?![0-9]))",
                after=r"(?=\s|$)",
                scale=PERCENT,
            ),
        ),
        whole=r"\| (?:bf16_)?mfu: [0-9]+\.[0-9]{2}(?![0-9])",
        log_interval=1,
    )
)

MODDED_NANOGPT = line_format(
    Declaration(
        name="modded-nanogpt",
        anchors=(b" step_avg:",),
        head=rf"(?<!\w)step:{ITERATION}/{ITERATIONS} (?:train_loss:\S+ )?train_time:[0-9]",
        fields=(
            Field(name="loss", before=r" train_loss:", after=r"(?= )"),
            Field(
                name="train_seconds", before=r" train_time:", after=r"ms(?= )", scale=MILLISECONDS
            ),
            Field(name="train_seconds", before=r" train_time:", after=r"s(?= )"),
        ),
        whole=r" step_avg:(?:[0-9]+\.[0-9]{2}|nan)ms",
        never=r" val_loss:",
    )
)

# peak memory consumption: 30908 MiB                                                of 2024
_PEAK = re.compile(
    rf"(?<!\w)peak memory (?:allocated|consumption): (?P<mib>{COUNT}) MiB"
    rf"(?: reserved: (?P<reserved>{COUNT}) MiB)?(?!\w)"
)


def _parse_memory(offset: int, line: str) -> Iterator[Usage]:
    for part in line_parts(line):
        for match in _PEAK.finditer(part):
            reserved = match["reserved"]
            yield Usage(
                source=UsageSource.TORCH,
                max_memory_allocated_gib=int(match["mib"]) / 1024,
                max_memory_reserved_gib=None if reserved is None else int(reserved) / 1024,
                offset=offset,
            )


NANOGPT_MEMORY = LogFormat(
    name="peak of modded-nanogpt",
    anchors=(b"peak memory ",),
    parse=_parse_memory,
    report=re.compile(r"(?<!\w)peak memory (?:allocated|consumption): [0-9]"),
)
