"""Runs and steps as pandas frames, for scripts, notebooks and CSV.

    from orchestrator.frames import runs, steps

    runs("campaign.yaml").sort_values("tflops_per_gpu")
    steps("results/my-campaign").groupby("label")["step_seconds"].median()

Both take a campaign file or a campaign's folder of results, read the logs again, and write nothing.
What is absent is NaN in a column of measured numbers, also where all are absent, else None or NaN,
as pandas has it. A unit ends a column's name: a GiB is 2**30 bytes, tflops_per_gpu are 10**12 FLOPs
a second.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.campaign.campaign import load_campaign
from orchestrator.collect.collected import Collected, collect_campaign, collect_runs
from orchestrator.measure.summary import Summary
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.recorded_runs import recorded_campaign
from orchestrator.store.results_folder import folder_of, results_folder
from parsers.records import Step
from parsers.summary.frames import with_numbers

if TYPE_CHECKING:
    import pandas as pd

_Path = str | PathLike[str]


def runs(source: _Path, results: _Path | None = None) -> "pd.DataFrame":
    """Return one row per run of a campaign file, or of a campaign's folder of results.

    results: the folder of all campaigns' results, for a campaign file; if None, the folder that
    `teralog` uses for that file. A folder gives the runs that were started; a file gives all, and
    those that were not started have no numbers. On Slurm the states are those that the last command
    saw; `teralog status` brings them up to date.

    Columns, in this order:

    - run_id, label: by which a run is found, and what people call it.
    - framework and cluster; the framework's own parameters, as strategy; precision, train_iters,
      learning_rate, seed, repeat and the like, as a campaign file has them.
    - num_layers, hidden_size, num_attention_heads, ffn_hidden_size, vocab_size, seq_length:
      the model's; padded_vocab_size, parameters, parameters_billions (10**9): what follows.
    - nodes, gpus_per_node, world_size, tensor_parallel_size, pipeline_parallel_size,
      context_parallel_size, data_parallel_size: in ranks, but for nodes.
    - micro_batch_size, global_batch_size: sequences; num_microbatches: an optimizer step and rank.
    - time_limit_seconds, gpu_hours: what is asked for; sbatch, srun: further options of these
      commands, a list, or None.
    - state, outcome: docs/results.md has the words; outcome is None before the end.
    - what was measured after the warm-up, the fields of `Summary`: reports
      (how many), skipped_reports (how many more, with skipped updates), last_iteration,
      step_seconds_mean, step_seconds_median, step_seconds_spread (sample standard deviation),
      samples_per_second, running_samples_per_second,
      tflops_per_gpu (recomputation counts), model_tflops_per_gpu (it does not),
      memory_allocated_gib, max_memory_allocated_gib, final_loss, parameters_logged, device,
      device_memory_gib, gpu_utilization_percent.
    - measures that only the framework has.

    Raises UserError if the file has mistakes, or the folder has no run.
    """
    return collected_runs_frame(_collected(source, results))


def steps(source: _Path, results: _Path | None = None) -> "pd.DataFrame":
    """Return one row per run and iteration that its log reports; see `runs` for the arguments.

    Columns, in this order; what a program does not print is absent:

    - run_id, label: those of `runs`.
    - iteration, from 1 or 0 as the program counts; iterations: how many there are to be.
    - step_seconds: of an iteration, or their mean over log_interval iterations.
    - samples_per_second, tokens_per_second, running_samples_per_second: over all ranks.
    - consumed_samples, consumed_tokens: since the beginning; global_batch_size: sequences.
    - loss, learning_rate, loss_scale, grad_norm: as printed; the loss may be nan or inf.
    - skipped: iterations without an update so far; skipped_iterations, nan_iterations: those since
      the report before.
    - reported_tflops_per_gpu: what the program claims.
    - memory_allocated_gib, max_memory_allocated_gib: now and at the peak, of the reporting rank.
    - timestamp: ISO 8601, in the log's time zone; offset: the byte of the log where it stands.
    - warmup: true for the iterations that the numbers of `runs` leave out.
    """
    return collected_steps_frame(_collected(source, results))


def _collected(source: _Path, results: _Path | None) -> list[Collected]:
    if Path(source).is_dir():
        store = CampaignStore(Path(source).absolute())
        planned, warmup = recorded_campaign(store)
        return collect_runs(planned, warmup, store)
    campaign = load_campaign(Path(source))
    place = results_folder(folder_of(Path(source))) if results is None else Path(results)
    store = campaign_store(place, campaign.name)
    return collect_campaign(campaign, store)


def collected_steps_frame(runs: Sequence[Collected]) -> "pd.DataFrame":
    """Return one row per run and iteration, as the logs report them.

    Columns: run_id, label, the fields of `parsers.records.Step`, and `warmup`, which is true for
    the iterations that the numbers leave out. `step_seconds` is worked out from the rate where
    the log gives only that.
    """
    import pandas as pd

    rows = [
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **asdict(step),
            "step_seconds": seconds,
            "warmup": step.iteration <= launch.last_warmup,
        }
        for run in runs
        for launch in run.reports.launches
        for step, seconds in zip(launch.steps.steps(), launch.step_seconds, strict=True)
    ]
    names = ("run_id", "label", *(field.name for field in fields(Step)), "warmup")
    # Named, for without a report there is no row to take them from.
    frame = pd.DataFrame(rows, columns=list(names)).astype({"warmup": bool})
    return with_numbers(frame, Step)


def collected_runs_frame(runs: Sequence[Collected]) -> "pd.DataFrame":
    """Return one row per run: identity, label, sizes, state, outcome, `Summary`, measures."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "run_id": run.planned.run_id,
            "label": run.planned.label,
            **sizes(run.planned.run),
            "state": run.state,
            "outcome": run.outcome,
            **asdict(run.summary),
            **run.measures,
        }
        for run in runs
    )
    return with_numbers(frame, Summary)
