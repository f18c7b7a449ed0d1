"""Options, limits and files of ZeRO that all frameworks under DeepSpeed share."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from orchestrator.frameworks.deepspeed.config import (
    FILE_NAME,
    contradictions,
    deepspeed_config,
    value_at,
)
from orchestrator.frameworks.deepspeed.known_keys import earlier_keys, renamed_keys, unknown_keys
from orchestrator.memory.placement import (
    ZERO_LIVE,
    ZERO_PREFETCH,
    Placement,
    bf16_optimizer_placement,
    deepspeed_placement,
)
from orchestrator.run.model import Run

DeepspeedLauncher = Literal["torchrun", "deepspeed", "srun"]
OffloadDevice = Literal["none", "cpu"]

# Only this stage writes to NVMe. The optimizer of the other stages (stage_1_and_2.py of DeepSpeed
# 0.19.8) treats any device as the CPU.
_NVME_STAGE = 3


def problems(run: Run) -> Iterator[str]:
    """Yield one sentence for each wrong ZeRO setting or DeepSpeed key of a run."""
    yield from config_problems(run, config_files(run))


def config_problems(
    run: Run,
    files: Mapping[str, dict[str, Any]],
    *,
    filled_in: bool = False,
    kept: Collection[str] = (),
) -> Iterator[str]:
    """Yield one sentence for each wrong ZeRO setting or DeepSpeed key of a run.

    Examples are an offload that the ZeRO stage does not support, a key that DeepSpeed has
    renamed, and a value that contradicts the run's parameters.

    files: the run's DeepSpeed configurations, by file name.
    filled_in: whether the program replaces "auto" in the configuration by its own values.
    kept: dotted paths of keys that keep their old names, because the program has an old
        DeepSpeed that needs these names.
    """
    stage = run.zero_stage
    optimizer = getattr(run.options, "offload_optimizer", "none")
    if optimizer != "none" and stage not in (1, 2, 3):
        yield f"offload_optimizer={optimizer} needs ZeRO stage 1, 2 or 3"
    parameters = getattr(run.options, "offload_param", "none")
    if parameters != "none" and stage != 3:
        yield f"offload_param={parameters} needs ZeRO stage 3"
    for config in files.values():
        yield from renamed_keys(config, kept)
        yield from contradictions(run, config, filled_in=filled_in)
        if stage == _NVME_STAGE:
            yield from _homeless_offload(config)


def unknown_config_keys(files: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each key that the recorded version of DeepSpeed does not know.

    files: DeepSpeed's configurations by file name.
    """
    for config in files.values():
        yield from unknown_keys(config)


def pipeline_problems(run: Run) -> Iterator[str]:
    """Yield a problem if a run has both a pipeline and ZeRO stage 2 or 3.

    These stages divide the gradients over ranks, but a pipeline must add up whole gradients.
    """
    stage, stages = run.zero_stage or 0, run.parallelism.pipeline_parallel_size
    if stage > 1 and stages > 1:
        yield (
            f"zero_stage={stage} divides gradients, but a pipeline "
            f"(pipeline_parallel_size={stages}) needs whole gradients; use zero_stage=0 or 1, or "
            "pipeline_parallel_size=1"
        )


def _homeless_offload(config: dict[str, Any]) -> Iterator[str]:
    for key in ("offload_optimizer", "offload_param"):
        section = f"zero_optimization.{key}"
        if value_at(config, f"{section}.device") == "nvme" and not value_at(
            config, f"{section}.nvme_path"
        ):
            yield (
                f"{key}=nvme needs a folder; write e.g. "
                f"`deepspeed: {{zero_optimization: {{{key}: {{nvme_path: /local/ssd}}}}}}`"
            )


def warnings(run: Run) -> Iterator[str]:
    """Yield warnings about valid but unusual settings of a run with today's DeepSpeed."""
    yield from earlier_keys(run.options.deepspeed)
    yield from _silent_steps(run)
    if run.options.offload_optimizer == "nvme" and run.zero_stage != _NVME_STAGE:
        yield (
            "offload_optimizer=nvme moves the optimizer states to NVMe only with ZeRO stage "
            f"{_NVME_STAGE}; with other stages they stay in memory"
        )


def _silent_steps(run: Run) -> Iterator[str]:
    """Yield one sentence for each setting that would make DeepSpeed print no steps of the run."""
    iterations = run.training.train_iters
    for config in config_files(run).values():
        interval, level = config["steps_per_print"], config["log_level"]
        if interval is None or (isinstance(interval, int) and interval > iterations):
            written = "null" if interval is None else interval
            yield (
                f"deepspeed: with steps_per_print={written}, DeepSpeed would report none of the "
                f"{iterations} steps; give at most {iterations}"
            )
        if level not in ("debug", "info"):
            yield (
                f"deepspeed: with log_level={level}, DeepSpeed would report none of the "
                f"{iterations} steps; give info or debug"
            )


def config_files(run: Run) -> dict[str, dict[str, Any]]:
    """Return DeepSpeed's configuration by file name; empty if the run has no ZeRO stage."""
    if run.zero_stage is None:
        return {}
    options = run.options
    return {
        FILE_NAME: deepspeed_config(
            run,
            offload_optimizer=options.offload_optimizer,
            offload_param=options.offload_param,
            extra=options.deepspeed,
        )
    }


def steps_on_cpu(run: Run) -> bool:
    """Return whether the run's optimizer is offloaded.

    If it is, DeepSpeed's CPU Adam updates the weights.
    """
    return bool(run.options.offload_optimizer != "none")


def placement(run: Run) -> Placement | None:
    """Return how DeepSpeed places the run's states; None if the run has no ZeRO stage."""
    stage = run.zero_stage
    return None if stage is None else config_placement(run, stage, config_files(run)[FILE_NAME])


def config_placement(run: Run, stage: int, config: Mapping[str, Any]) -> Placement:
    """Return the placement of a run's states under this DeepSpeed configuration.

    If the configuration does not contain a value, DeepSpeed's own default is used. Activations are
    left out, because they depend on the script.
    """
    usual = states(run.training.precision, stage, config)
    least, most = usual.buckets
    overlap = value_at(config, "zero_optimization.overlap_comm", absent=stage == 3)
    contiguous = value_at(config, "zero_optimization.contiguous_gradients", absent=True)
    return replace(
        usual,
        offload_optimizer=steps_on_cpu(run),
        offload_parameters=run.options.offload_param != "none",
        bucket_elements=_elements(config, "reduce_bucket_size", usual.bucket_elements),
        buckets=(least, 2.0 if stage and overlap else min(most, 1.0)) if contiguous else (0.0, 0.0),
        live_elements=_elements(config, "stage3_max_live_parameters", ZERO_LIVE)
        + _elements(config, "stage3_prefetch_bucket_size", ZERO_PREFETCH),
    )


def states(
    precision: str, stage: int, config: Mapping[str, Any], *, pipeline: bool = False
) -> Placement:
    """Return the placement of DeepSpeed's weights, gradients and optimizer states.

    The placement depends on the optimizer class that DeepSpeed uses. In bf16 with stage 0 or 1,
    DeepSpeed uses BF16_Optimizer if gradients are added up in fp32. If they are not, but the run
    has a pipeline, some versions of DeepSpeed use BF16_Optimizer, and others do not. The result
    then covers both cases.
    """
    accumulated = value_at(config, "data_types.grad_accum_dtype")
    in_fp32 = accumulated in ("fp32", "float32", "float")
    if precision != "bf16" or stage > 1 or not (in_fp32 or pipeline):
        return deepspeed_placement(precision, stage)
    return bf16_optimizer_placement(stage, sure=in_fp32)


def _elements(config: Mapping[str, Any], key: str, default: int) -> int:
    value = value_at(config, f"zero_optimization.{key}")
    # The value may be "auto", which the program fills in, or nonsense, which DeepSpeed refuses.
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**63 else default


def offload(run: Run) -> str | None:
    """Return what the run offloads and to which device, as text for a table cell.

    Returns None if the run offloads nothing. Example: `optimizer+parameters → cpu`.
    """
    devices = {
        "optimizer": run.options.offload_optimizer,
        "parameters": run.options.offload_param,
    }
    moved: dict[str, list[str]] = {where: [] for where in devices.values() if where != "none"}
    for what, where in devices.items():
        if where in moved:
            moved[where].append(what)
    return ", ".join(f"{'+'.join(what)} → {where}" for where, what in moved.items()) or None
