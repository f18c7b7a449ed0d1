"""Parse the lines of verl, slime and OpenRLHF, programs for reinforcement learning.

verl prints dozens of `key:value` per step, joined by ` - `:

    (TaskRunner pid=247607) step:1 - global_seqlen/min:159906 - … - perf/mfu/actor:0.0 - … -
        timing_s/step:48.70 - … - perf/time_per_step:48.70 - perf/throughput:3283.32

A step includes generation, scoring and training. Throughput is in tokens per second and
GPU. The MFU is read from `perf/mfu/actor` (`mfu/actor` in older versions), the training of
the actor. The MFU of `actor_infer`, the actor's forward passes, is not read. Since 2026 the
peaks of memory are `actor/perf/max_memory_…`. A validation before the training has `step:0`
and no times. Until mid-2025, numbers have three decimals. Nearly every learning rate is then
printed as `0.000`, which is not read.

verl's trainer for supervised fine-tuning prints fewer values, in the same form. Older releases
print the learning rate in thousandths, and some print no time:

    Epoch 1/3:   0%|          | 0/35 [00:00<?, ?it/s]step:1 - train/loss:1.1166 -
        train/lr(1e-3):0.001 - train/time(s):2.81

slime, and the program `miles` with the same code, print a dictionary of seconds per
rollout:

    (MegatronTrainRayActor pid=1) … - perf 3: {'perf/train_wait_time': 101.2, …,
        'perf/actor_train_tok_per_s': 4851.7, 'perf/step_time': 143.9, …}

A step of slime is the wait for a rollout and the training on it, which may take several
optimizer steps. The printed TFLOPs and tokens/s are only of the training, so they are not
read.

OpenRLHF prints a dictionary per step, in which `timing/step_total` is the time of
generation and training together, in seconds. Older releases print no times:

    Global step 1: {'reward': 0.4499, 'policy_loss': -2.37e-07, 'actor_grad_norm': 5.4978, …,
        'timing/generation': 2.97, 'timing/step_total': 12.19}
"""

from parsers.formats.declared.declaration import (
    ITERATION,
    THOUSANDTHS,
    Declaration,
    Field,
    line_format,
)

_END = r"(?= - |\s*$)"
# The end of a value in a dictionary.
_NEXT = r"(?=, '|\})"

VERL = line_format(
    Declaration(
        name="verl",
        anchors=(b"timing_s/step:",),
        head=rf"(?<![\w/])step:{ITERATION} - ",
        fields=(
            Field("step_seconds", r" - timing_s/step:", r"(?= - )", needed=True),
            Field("tokens_per_second_per_gpu", r" - perf/throughput:", _END),
            Field("reported_mfu", r" - (?:perf/)?mfu/actor:(?!0\.0+(?: |$))", _END),
            Field("max_memory_allocated_gib", r" - (?:actor/)?perf/max_memory_allocated_gb:", _END),
            Field("max_memory_reserved_gib", r" - (?:actor/)?perf/max_memory_reserved_gb:", _END),
            Field("learning_rate", r" - actor/lr:(?!0\.000(?: |$))", _END),
            Field("grad_norm", r" - actor/grad_norm:", _END),
            Field("loss", r" - actor/pg_loss:", _END),
        ),
        whole=r" - timing_s/step:\S+",
        log_interval=1,
    )
)

VERL_SFT = line_format(
    Declaration(
        name="verl, supervised fine-tuning",
        anchors=(b" - train/loss:",),
        head=rf"(?<![\w/])step:{ITERATION} - ",
        fields=(
            Field("loss", r" - train/loss:", r"(?= - )", needed=True),
            Field("grad_norm", r" - train/grad_norm:", _END),
            Field("learning_rate", r" - train/lr:", _END),
            Field("learning_rate", r" - train/lr\(1e-3\):", _END, scale=THOUSANDTHS),
            Field("step_seconds", r" - train/time\(s\):", _END),
            Field("reported_mfu", r" - train/mfu:(?!0\.0+(?: |$))", _END),
        ),
        whole=r" - train/loss:\S+ - \S",
        log_interval=1,
    )
)

SLIME = line_format(
    Declaration(
        name="slime",
        anchors=(b"'perf/step_time': ",),
        head=rf"(?<![\w/])perf {ITERATION}: \{{",
        fields=(Field("step_seconds", "'perf/step_time': ", _NEXT, needed=True),),
        whole=r"'perf/step_time': [^,}\n]+[,}]",
        log_interval=1,
    )
)

OPENRLHF = line_format(
    Declaration(
        name="OpenRLHF",
        anchors=(b"'timing/step_total': ", b"'policy_loss': "),
        head=rf"(?<!\w)Global step {ITERATION}: \{{",
        fields=(
            Field("step_seconds", "'timing/step_total': ", _NEXT),
            Field("loss", "'policy_loss': ", _NEXT),
            Field("grad_norm", "'actor_grad_norm': ", _NEXT),
            Field("learning_rate", "'actor_lr': ", _NEXT),
        ),
        whole=r"'(?:timing/step_total|policy_loss)': [^,}\n]+[,}]",
        log_interval=1,
    )
)
