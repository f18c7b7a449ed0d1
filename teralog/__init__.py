"""Read training logs and the runs of campaigns, and estimate models, in Python.

    import teralog

    teralog.read("slurm-123.out")[0].outcome
    teralog.runs("campaign.yaml").sort_values("tflops_per_gpu")
    teralog.steps("campaign.yaml").groupby("label")["step_seconds"].median()
    teralog.estimate("params", model="52B")[0]["parameters"]

Only these four functions are public. All other parts of teralog may change with any version. If
arguments are wrong, a function raises ValueError, with a line for each mistake. `import teralog`
imports no other packages; its functions import what they need.

teralog's own packages are `orchestrator`, `parsers` and `slurm_templates`. Your own packages may
have the same names. While one of teralog's functions runs, these names mean teralog's packages. So
do not import your packages with such names in another thread at that time. You can always use the
objects that teralog's functions return. But if you have a package with such a name, you
cannot pickle the objects that `read` returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from teralog._own_packages import borrowed_names

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd

    from orchestrator.estimate.records import (
        AdapterOptions,
        FlopsOptions,
        MemoryOptions,
        TimeOptions,
    )
    from parsers.runs.run import LogRun

__all__ = ["estimate", "read", "runs", "steps"]


def read(log: str | PathLike[str]) -> list[LogRun]:
    """Return the runs in a log, in the order of the log.

    log: a file, or `-` for standard input. The log may be compressed with gzip, Zstandard, xz or
    bzip2.

    Each run has `outcome`, `config` and `steps`. The list `steps` has an object for each reported
    iteration, with `iteration`, `step_seconds`, `loss` and more. A value is None if the log does
    not contain it. If the log contains no run, the result is one run without steps. The `notes` of
    this run contain the reason. Raises OSError if the file cannot be read.
    """
    with _own_packages():
        from parsers.runs.reading import read

        return read(str(log))


def runs(campaign: str | PathLike[str], results: str | PathLike[str] | None = None) -> pd.DataFrame:
    """Return one row per run of a campaign: its parameters, state, outcome and measured numbers.

    campaign: a campaign file, or a folder `results/<campaign>`. With a file, the result contains
    all runs; those that were not started have no measured numbers. With a folder, it contains the
    runs that were started.
    results: the folder with the results of all campaigns. If None, it is the folder that the
    command `teralog` uses for this campaign file. Not used if `campaign` is a folder.

    The function reads the logs again, and writes nothing. For runs on Slurm, the state is the one
    that the last command recorded; `teralog status` brings it up to date. A missing value is NaN in
    a column of measured numbers, and None or NaN in other columns. If a column has a unit, its name
    ends with the unit. A GiB is 2**30 bytes; tflops_per_gpu is in 10**12 FLOPs per second.

    Columns, in this order:

    - run_id: identifies a run; label: the words that distinguish the run from the other runs.
    - framework and cluster; the framework's own parameters, e.g. strategy; precision, train_iters,
      learning_rate, seed, repeat and similar ones of the campaign file.
    - num_layers, hidden_size, num_attention_heads, ffn_hidden_size, vocab_size, seq_length:
      sizes of the model; padded_vocab_size, parameters, parameters_billions (10**9): derived sizes;
      num_key_value_heads, head_dim, gated_mlp, untied_head, position_table, biases, norm,
      num_experts, num_experts_per_token, expert_ffn_hidden_size: variants of its layers;
      model_choice: the model as the campaign file describes it; None if the model is a GPT-2,
      for which the sizes are enough.
    - nodes: the number of nodes; gpus_per_node, world_size, tensor_parallel_size,
      pipeline_parallel_size, context_parallel_size, data_parallel_size: numbers of ranks.
    - micro_batch_size, global_batch_size: sequences; num_microbatches: per optimizer step and rank.
    - time_limit_seconds, gpu_hours: as requested; sbatch, srun: lists of further options of these
      commands, or None.
    - state, outcome: see docs/reference/states.md; outcome is None before the end.
    - what was measured after the warm-up, the fields of `Summary`: reports (how many step reports
      are averaged), skipped_reports (how many are left out because of a skipped update),
      last_iteration, step_seconds_mean, step_seconds_median, step_seconds_spread (sample standard
      deviation), samples_per_second, running_samples_per_second,
      tflops_per_gpu (with recomputation), model_tflops_per_gpu (without recomputation),
      memory_allocated_gib, max_memory_allocated_gib, final_loss, parameters_logged, device,
      device_memory_gib, gpu_utilization_percent.
    - measures that only some frameworks have.

    Raises ValueError if the file has mistakes, or the folder contains no run.
    """
    with _own_packages():
        from orchestrator.frames import runs

        return runs(campaign, results)


def steps(
    campaign: str | PathLike[str], results: str | PathLike[str] | None = None
) -> pd.DataFrame:
    """Return one row for each iteration that the log of a run reports, for all runs of a campaign.

    The arguments are those of `runs`. A value that a program does not print is NaN or None.
    Columns, in this order:

    - run_id, label: those of `runs`.
    - iteration, from 1 or 0 as the program counts; iterations: how many are planned.
    - step_seconds: of one iteration, or the mean over several; log_interval: over how many.
    - samples_per_second, tokens_per_second, running_samples_per_second: over all ranks.
    - running_step_seconds: the program's own mean step time so far.
    - consumed_samples, consumed_tokens: since the beginning; global_batch_size, tokens: sequences
      and tokens of an iteration.
    - loss, learning_rate, loss_scale, grad_norm: as printed; the loss may be nan or inf.
    - skipped: how many updates were skipped so far; skipped_iterations, nan_iterations: how many
      iterations since the previous report skipped their update, or had a loss of nan or inf.
    - tokens_per_second_per_gpu; train_seconds: since the training began; nominal_step_seconds:
      since the previous report, divided by the log interval.
    - reported_tflops_per_gpu, reported_mfu: what the program claims.
    - memory_allocated_gib, max_memory_allocated_gib: memory allocated on the
      reporting rank, now and at its peak; max_memory_reserved_gib: the most memory that the
      allocator of this rank has reserved.
    - energy_joules_per_gpu, power_watts_per_gpu: energy of an iteration, and its
      mean power.
    - timestamp: ISO 8601, in the log's time zone; offset: the byte where the report starts.
    - end_to_end: true if the report covers a whole iteration of a program with several engines.
    - covered: true if the report is a mean over iterations that other reports cover, too.
    - unnumbered: true if the log does not contain the iteration.
    - warmup: true for the iterations that the numbers of `runs` leave out.

    Raises ValueError if the file has mistakes, or the folder contains no run.
    """
    with _own_packages():
        from orchestrator.frames import steps

        return steps(campaign, results)


@overload
def estimate(
    what: Literal["params"],
    campaign: str | PathLike[str] | None = None,
    **options: Unpack[AdapterOptions],
) -> list[dict[str, Any]]: ...
@overload
def estimate(
    what: Literal["flops"],
    campaign: str | PathLike[str] | None = None,
    **options: Unpack[FlopsOptions],
) -> list[dict[str, Any]]: ...
@overload
def estimate(
    what: Literal["memory"],
    campaign: str | PathLike[str] | None = None,
    **options: Unpack[MemoryOptions],
) -> list[dict[str, Any]]: ...
@overload
def estimate(
    what: Literal["time"],
    campaign: str | PathLike[str] | None = None,
    **options: Unpack[TimeOptions],
) -> list[dict[str, Any]]: ...
def estimate(
    what: str, campaign: str | PathLike[str] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return what `teralog estimate WHAT --json` prints: parameters, FLOPs, memory or time.

    what: "params", "flops", "memory" or "time".
    campaign: the campaign file whose runs are estimated; None if the options describe a model.
    options: the options of the command, with underscores, e.g. `zero_stage=3`.

    Returns one dictionary per run or model. For "flops", a run or model has one dictionary for each
    convention, i.e. for each way to count FLOPs. Memory is in GiB (2**30 bytes), FLOPs are per
    iteration, and the name of a time contains its unit. Raises ValueError if the options or the
    file have mistakes.
    """
    with _own_packages():
        from orchestrator.estimate.records import estimate_records

        return estimate_records(what, None if campaign is None else Path(campaign), options)


@contextmanager
def _own_packages() -> Iterator[None]:
    """Import teralog's packages for a `with` block; turn a UserError into a ValueError."""
    with borrowed_names():
        from orchestrator.common.errors import UserError

        try:
            yield
        except UserError as error:
            raise ValueError(str(error)) from None
