"""Parse the lines of small GPT trainings: nanoGPT, build-nanogpt, llm.c, nanochat, modded-nanogpt.

    iter 10: loss 3.2202, time 893.76ms, mfu 16.68%
    step   77/19560 | loss 7.012300 (-0.52z)| norm 2.3100 (+0.11z)| lr 6.60e-05 | 301.20 ms |
        53.2% bf16 MFU | 174012 tok/s
    step   12/19560 | train loss 7.012300 | norm 2.3100 | lr 6.60e-05 | (301.20 ms | 174012 tok/s)
    step    12 | loss: 7.012300 | lr 6.60e-05 | norm: 2.3100 | dt: 301.20ms | tok/sec: 174012.21
    step 00200/35280 (0.57%) | loss: 5.147944 | lrm: 1.00 | dt: 558.89ms | tok/sec: 58,679 |
        bf16_mfu: 0.00
    iteration 2, loss: 4.6233, time: 77.381ms, tok/s: 105868.25, norm: 15.339
    s:12 trl:7.0123 lr:0.000066 norm:2.31
    step:1390/1390 train_time:80605ms step_avg:57.99ms
    step:1000/10000 loss:3.3139 t:91682ms avg:91.7ms
    500/20000 train_loss: 3.3106 train_time: 0.8m tok/s: 7721577
    stopping_early: wallclock_cap train_time: 588103ms step: 5178/20000
    peak memory allocated: 30908 MiB reserved: 46472 MiB

* nanoGPT times only the iteration that it reports, together with an evaluation before it.
  Its MFU is a running mean, which is negative before the fifth iteration; older versions
  do not print an MFU.
* llm.c's MFU is negative on a GPU that it does not know. Its rate is a running mean over
  all ranks. Its program for PyTorch, in the third example, prints the rate of each step. In
  May 2024 it printed the MFU that an A100 would have, which is not read.
* build-nanogpt is the program of the fourth example. Its rate is of all ranks.
* nanochat numbers steps from 0. autoresearch, which is made from it, writes all steps on one
  line, with carriage returns. At the end, both print the peak of allocated memory
  and the time of the training. The rate is of all ranks. The MFU is 0 on a device
  that the program does not know.
* The first program of llm.c for PyTorch (May 2024) prints the tokens per second of
  the step that it reports. llm.c also writes losses to a file `main.log`, which contains no times.
  There it numbers steps from 0, but in the console from 1.
* modded-nanogpt prints the time since the start of the training, or since step 10 in older
  versions. The time of a step is the difference of two reports. Lines with `val_loss`
  report a validation. The last of these, at the last step, has the time of the whole training.
  Programs made from it print more fields before the time, e.g. `val_bpb`.
  The programs of track 3 print no other lines, so each of them is read as a result so far. Their
  time is in seconds, and they may stop before the last step:
    step:3350/3350 val_loss:3.27839 train_time:492.485s step_avg:147.03ms
* parameter-golf is made from modded-nanogpt. Since April 2026, its time is in minutes with one
  decimal, and its rate is the mean since the start. Neither shows the time of a step, so both are
  not read. If it stops after a limit of time, a line has the time and the number of steps.
"""

import math
import re
from collections.abc import Iterator

from parsers.fields import COUNT, matches
from parsers.formats.declared.declaration import (
    ITERATION,
    ITERATIONS,
    MILLISECONDS,
    PERCENT,
    Declaration,
    Field,
    line_format,
)
from parsers.records import RunTotals, Usage, UsageSource
from parsers.scan.reader import NEVER, LogFormat

NANOGPT = line_format(
    Declaration(
        name="nanoGPT",
        anchors=(b", time ",),
        head=rf"(?<!\w)iter {ITERATION}: loss ",
        fields=(
            Field("loss", r": loss ", r"(?=, )", needed=True),
            Field("step_seconds", r", time ", "ms", scale=MILLISECONDS, needed=True),
            Field("reported_mfu", r", mfu (?!-)", "%", scale=PERCENT),
        ),
        whole=r", time [0-9]+\.[0-9]{2}ms",
        log_interval=1,
    )
)

# In April and May 2024:
# step 2: train loss 4.301069 (took 29950.151000 ms)                                program in C
# step    1/74: train loss 4.367631 (acc 4.367631) (80.639749 ms, 101587 tok/s)
# step    1/74: train loss 4.367631 norm 15.3387 lr 3.00e-04 (80.64 ms, 101587 tok/s)
LLM_C = line_format(
    Declaration(
        name="llm.c",
        anchors=(b"bf16 MFU | ", b" ms | ", b": train loss "),
        head=rf"(?<!\w)step +{ITERATION}(?:/{ITERATIONS}(?: \||:)|:) (?:train )?loss ",
        fields=(
            Field("loss", r"[|:] (?:train )?loss +", r"(?= [(|n])", needed=True),
            Field("grad_norm", r" norm +", r"(?= [(|l])"),
            Field("learning_rate", r" lr ", r"(?= [(|])"),
            Field(
                "step_seconds",
                r"(?:\| \(?| \((?:took )?)",
                r"(?= ms(?: \||[,)]))",
                scale=MILLISECONDS,
                needed=True,
            ),
            Field("reported_mfu", r"(?<= ms) \| (?!-)", "(?=% bf16 MFU)", scale=PERCENT),
            Field("tokens_per_second", r"(?:(?:(?<=MFU)|(?<= ms)) \| |(?<= ms), )", " tok/s"),
        ),
        whole=r" (?:MFU|ms) \| [0-9]+ tok/s| ms(?:, [0-9]+(?:\.[0-9]{6})? tok/s)?\)",
        never=r", val loss ",  # nanoGPT
        log_interval=1,
    )
)

LLM_C_PYTORCH = line_format(
    Declaration(
        name="llm.c, PyTorch",
        anchors=(b"ms, tok/s: ",),
        head=rf"(?<!\w)iteration {ITERATION}, loss: ",
        fields=(
            Field("loss", r", loss: ", r"(?=, time: )", needed=True),
            Field("step_seconds", r", time: ", "ms", scale=MILLISECONDS, needed=True),
            Field("tokens_per_second", r", tok/s: ", r"(?=,|\s|$)", needed=True),
            Field("grad_norm", r", norm: ", r"(?=\s|$)"),
        ),
        whole=r"ms, tok/s: [0-9]+\.[0-9]{2}(?:, norm: (?:[0-9]+\.[0-9]{3}|nan|inf))?(?=\s|$)",
        log_interval=1,
    )
)

LLM_C_LOSSES = line_format(
    Declaration(
        name="llm.c, file of losses",
        anchors=(b" trl:",),
        head=rf"(?<!\w)s:{ITERATION} trl:",
        fields=(
            Field("loss", r" trl:", r"(?=\s|$)", needed=True),
            Field("learning_rate", r" lr:", r"(?= )"),
            Field("grad_norm", r" norm:", r"(?=\s|$)"),
        ),
        whole=r" norm:(?:[0-9]+\.[0-9]{2}|-?nan|inf)(?=\s|$)"
        r"| trl:(?:[0-9]+\.[0-9]{6}|nan|inf)(?=\s*$)",
    )
)

# Of nanochat and build-nanogpt.
_LOSS = Field("loss", r"\| loss: ", r"(?= \|)", needed=True)
_STEP_TIME = Field("step_seconds", r"\| dt: ", r"ms(?= \|)", scale=MILLISECONDS, needed=True)

NANOCHAT = line_format(
    Declaration(
        name="nanochat",
        anchors=(b"| lrm: ",),
        head=rf"(?<!\w)step {ITERATION}(?:/{ITERATIONS})? \([0-9.]+%\) \| loss: ",
        fields=(
            _LOSS,
            _STEP_TIME,
            Field("tokens_per_second", r"\| tok/sec: ", r"(?= \|)", needed=True),
            Field(
                "reported_mfu",
                r"\| (?:bf16_)?mfu: (?!0\.00?(?![0-9]))",
                r"(?=%|\s|$)",
                scale=PERCENT,
            ),
        ),
        whole=r"\| (?:bf16_)?mfu: (?:[0-9]+\.[0-9]{2}(?![0-9])|[0-9]+\.[0-9]%)",
        log_interval=1,
    )
)

BUILD_NANOGPT = line_format(
    Declaration(
        name="build-nanogpt",
        anchors=(b"| norm: ",),
        head=rf"(?<!\w)step +{ITERATION} \| loss: ",
        fields=(
            _LOSS,
            Field("learning_rate", r"\| lr:? ", r"(?= \|)"),
            Field("grad_norm", r"\| norm: ", r"(?= \|)"),
            _STEP_TIME,
            Field("tokens_per_second", r"\| tok/sec: ", needed=True),
        ),
        whole=r"\| tok/sec: [0-9]+\.[0-9]{2}(?![0-9])",
        log_interval=1,
    )
)

MODDED_NANOGPT = line_format(
    Declaration(
        name="modded-nanogpt",
        anchors=(b" step_avg:", b"ms avg:"),
        head=rf"(?<!\w)step:{ITERATION}/{ITERATIONS} (?:\[[^\]\n]{{1,40}}\] )?(?:\w+:\S+ )*"
        r"(?:train_time|t):[0-9]",
        fields=(
            Field("loss", r" (?:train_)?loss:", r"(?= )"),
            Field("train_seconds", r" (?:train_time|t):", r"ms(?= )", scale=MILLISECONDS),
            Field("train_seconds", r" train_time:", r"s(?= )"),
            Field("running_step_seconds", r" (?:step_)?avg:", "ms", scale=MILLISECONDS),
        ),
        whole=r" (?:step_)?avg:(?:[0-9]+\.[0-9]{1,2}|nan)ms",
        never=r" val_\w+:",
    )
)

PARAMETER_GOLF = line_format(
    Declaration(
        name="parameter-golf",
        anchors=(b"m tok/s: ",),
        head=rf"(?<![\w/]){ITERATION}/{ITERATIONS} train_loss: ",
        fields=(Field("loss", r" train_loss: ", r"(?= )", needed=True),),
        whole=r" train_time: [0-9]+\.[0-9]m tok/s: [0-9]",
    )
)

_MEAN_ROUNDED, _SECONDS_ROUNDED = 0.51e-5, 1e-3
_MOST_DIFFERENCE = 0.1
_RESULT = re.compile(
    rf"(?<!\w)step:(?P<steps>(?!0){COUNT})/(?P<of>{COUNT}) val_loss:\S+"
    r"(?: (?!train_time:)\w+:\S+)* train_time:(?P<time>[0-9]{1,12}(?:\.[0-9]{1,6})?)(?P<unit>m?s)"
    r"(?: step_avg:(?:nan|(?P<mean>[0-9]{1,12}(?:\.[0-9]{1,6})?))ms|(?=\s*$))"
)
_STOPPED = re.compile(
    r"(?<!\w)stopping_early: wallclock_cap train_time: ?(?P<time>[0-9]{1,12})ms"
    rf" step: ?(?P<steps>{COUNT})/[0-9]"
)


def _parse_result(offset: int, line: str) -> Iterator[RunTotals]:
    for match in matches(_STOPPED, line) if "stopping_early" in line else ():
        steps, seconds = int(match["steps"]), int(match["time"]) / 1000
        yield RunTotals(
            iterations=steps, last_iteration=steps, train_seconds=seconds, offset=offset
        )
    for match in matches(_RESULT, line):
        last, mean = int(match["steps"]), float(match["mean"] or 0) / 1000
        in_seconds = match["unit"] == "s"
        if not in_seconds and last != int(match["of"]):
            continue  # a validation in a log with step reports
        seconds = float(match["time"]) / (1 if in_seconds else 1000)
        timed = _timed_in_track_3 if in_seconds else _timed
        yield RunTotals(
            iterations=timed(last, seconds, mean) if mean else None,
            last_iteration=last,
            train_seconds=seconds,
            step_seconds=mean or None,
            offset=offset,
        )


def _timed(steps: int, seconds: float, mean: float) -> int:
    """Return how many steps a training took `seconds` for.

    These are fewer than all `steps` if the training was resumed, or if its first steps are not
    timed (2024). Then `mean` is the seconds divided by the timed steps, rounded to 0.01 ms.
    """
    timed = round(seconds / mean)
    is_quotient = abs(timed * mean - seconds) <= timed * _MEAN_ROUNDED + _SECONDS_ROUNDED
    return timed if 0 < timed < steps and is_quotient else steps


def _timed_in_track_3(steps: int, seconds: float, mean: float) -> int | None:
    """Return how many steps a training took `seconds` for; None if this is unknown.

    In track 3, all steps are timed, and `mean` is that of the steps since the previous validation.
    If it differs much from the mean of all steps, the training was probably resumed.
    """
    return steps if math.isclose(mean, seconds / steps, rel_tol=_MOST_DIFFERENCE) else None


MODDED_NANOGPT_RESULT = LogFormat(
    name="modded-nanogpt, result",
    anchors=(b" val_loss:", b"stopping_early: "),
    # results, and the first line of a training, which is a launch sign
    only=re.compile(
        rb"\bstep:(?:0/[0-9]+|([0-9]+)/\1) val_loss:| train_time:[0-9.]+s"
        rb"|\bstopping_early: wallclock_cap |[\r\x1b]"
    ),
    parse=_parse_result,
    report=NEVER,
)

# peak memory consumption: 30908 MiB                                                of 2024
# Peak memory usage: 30908.12MiB                                                    nanochat
# peak_vram_mb:     45060.2                                                         autoresearch
_PEAK = re.compile(
    rf"(?<!\w)(?:peak memory (?:allocated|consumption): (?P<mib>{COUNT}) MiB"
    rf"(?: reserved: (?P<reserved>{COUNT}) MiB)?"
    r"|(?:Peak memory usage: (?=[0-9]+\.[0-9]{2}MiB)|peak_vram_mb: +(?=[0-9]+\.[0-9]\s*$))"
    r"(?P<usage>[0-9]{1,9}\.[0-9]{1,2})(?:MiB)?)(?!\w)"
)


def _parse_memory(offset: int, line: str) -> Iterator[Usage]:
    for match in matches(_PEAK, line):
        reserved = match["reserved"]
        yield Usage(
            source=UsageSource.TORCH,
            max_memory_allocated_gib=float(match["mib"] or match["usage"]) / 1024,
            max_memory_reserved_gib=None if reserved is None else int(reserved) / 1024,
            offset=offset,
        )


NANOGPT_MEMORY = LogFormat(
    name="nanochat and modded-nanogpt, peak memory",
    anchors=(b"peak memory ", b"Peak memory usage: ", b"peak_vram_mb: "),
    parse=_parse_memory,
    report=re.compile(
        r"(?<!\w)[Pp]eak(?: memory |_)(?:allocated|consumption|usage|vram_mb): +[0-9]"
    ),
)
