"""`megatron_deepspeed_zero`: Megatron 1.1.5 under DeepSpeed (2021), with ZeRO stages 1 to 3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks import limits
from orchestrator.frameworks.base import (
    Checks,
    Framework,
    ModelUse,
    OwnColumns,
    ProgramLog,
    Start,
    framework_on_gpus,
)
from orchestrator.frameworks.deepspeed import zero
from orchestrator.frameworks.deepspeed.config import FILE_NAME, program_config
from orchestrator.frameworks.megatron import deepspeed, shared
from orchestrator.frameworks.megatron.deepspeed import MegatronDeepspeedOptions
from orchestrator.memory.placement import Placement
from orchestrator.run import run_columns
from orchestrator.run.model import Run
from parsers.formats.deepspeed_memory import DEEPSPEED_MEMORY
from parsers.formats.megatron.iterations import MEGATRON
from parsers.formats.megatron.memory import MEGATRON_MEMORY

_RECORD = "megatron-lm-1.1.5-zero3"


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronDeepspeedZeroOptions(MegatronDeepspeedOptions):
    """Parameters that only the megatron_deepspeed_zero framework has."""

    zero_stage: Annotated[int, Field(description="ZeRO stage, 1 to 3.", ge=1, le=3)] = 3
    offload_optimizer: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO's optimizer states.")
    ] = "none"
    offload_param: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO-3's parameters.")
    ] = "none"
    scattered_embeddings: Annotated[
        bool, Field(description="Divide the embedding's activations over tensor-parallel ranks.")
    ] = False
    split_transformers: Annotated[
        bool,
        Field(description="Put an activation checkpoint into each layer, before its MLP."),
    ] = False
    memory_centric_tiled_linear: Annotated[
        bool, Field(description="Compute linear layers tile by tile; ZeRO-3 only.")
    ] = False
    tile_factor: Annotated[
        int, Field(description="Tiles are hidden_size/tile_factor wide.", ge=1)
    ] = 1


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a run is impossible."""
    options: MegatronDeepspeedZeroOptions = run.options
    if (stages := run.parallelism.pipeline_parallel_size) > 1:
        yield (
            f"framework megatron_deepspeed_zero has no pipeline: pipeline_parallel_size={stages} "
            "must be 1; for a pipeline, use framework megatron_deepspeed_3d"
        )
    if (count := run.num_microbatches) is not None and count > 1:
        yield (
            f"num_microbatches={count} must be 1, because the program takes a step after each "
            "micro-batch; remove num_microbatches and global_batch_size"
        )
    if run.training.precision == "fp32":
        yield f"zero_stage={options.zero_stage} needs precision=fp16 in DeepSpeed of 2021"
    if options.zero_stage == 1 and options.offload_optimizer != "none":
        # DeepSpeed's optimizer of stage 1 has no setting for offload (engine.py of 0.3.16).
        yield (
            f"offload_optimizer={options.offload_optimizer} needs zero_stage=2 or 3: DeepSpeed of "
            "2021 keeps the optimizer states of stage 1 on the GPU"
        )
    yield from shared.split_problems(run)
    yield from shared.data_problems(run)
    yield from limits.whole_sequences(run)
    yield from deepspeed.version_1_problems(run)
    yield from deepspeed.checkpointing_problems(run)
    yield from deepspeed.optimizer_problems(run)
    yield from _checkpoint_problems(run)
    yield from _tiling_problems(run)
    yield from zero.config_problems(run, config_files(run), kept=deepspeed.KEYS_OF_2021)
    yield from shared.megatron_option_problems(run)


def _checkpoint_problems(run: Run) -> Iterator[str]:
    """Yield a problem if `checkpoint_num_layers` does not divide the number of layers."""
    if run.model is None:
        return
    split = run.options.split_transformers
    yield from shared.checkpoint_problems(
        run,
        run.model.num_layers * (2 if split else 1),
        "the model" + (" (split_transformers=true makes two of each)" if split else ""),
        "after the last layer, the program would run the first layers again",
    )


def _tiling_problems(run: Run) -> Iterator[str]:
    options: MegatronDeepspeedZeroOptions = run.options
    if not options.memory_centric_tiled_linear:
        if options.tile_factor > 1:
            yield f"tile_factor={options.tile_factor} needs memory_centric_tiled_linear=true"
        return
    if options.zero_stage != 3:
        yield "memory_centric_tiled_linear needs zero_stage=3"
    if run.model is not None and run.model.hidden_size % options.tile_factor:
        yield (
            f"hidden_size={run.model.hidden_size} is not divisible by "
            f"tile_factor={options.tile_factor}"
        )


def config_files(run: Run) -> dict[str, dict[str, Any]]:
    """Return DeepSpeed's configuration by file name.

    Some sizes in the configuration are computed from the hidden size h, with the same factors as in
    Hugging Face's Trainer. A bucket of gradients has h² elements. With ZeRO stage 3, DeepSpeed
    fetches 0.9·h² elements of parameters in advance. Parameters with fewer than 10·h elements stay
    on every rank.
    """
    options: MegatronDeepspeedZeroOptions = run.options
    h = 0 if run.model is None else run.model.hidden_size
    section: dict[str, Any] = {"contiguous_gradients": True, "reduce_bucket_size": h**2}
    if options.zero_stage == 3:
        section |= {
            "stage3_max_live_parameters": 1_000_000_000,
            "stage3_max_reuse_distance": 1_000_000_000,
            "stage3_prefetch_bucket_size": 9 * h**2 // 10,
            "stage3_param_persistence_threshold": 10 * h,
        }
    usual: dict[str, Any] = {
        "steps_per_print": 10,
        "zero_optimization": section,
        "gradient_clipping": 1.0,
        "wall_clock_breakdown": False,
        "zero_allow_untested_optimizer": False,
    }
    if run.training.precision == "fp16":
        usual["fp16"] = {
            "loss_scale": 0,
            "initial_scale_power": 10,
            "loss_scale_window": 1000,
            "hysteresis": 2,
            "min_loss_scale": 1,
        }
    config = program_config(
        run,
        offload_optimizer=options.offload_optimizer,
        offload_param=options.offload_param,
        usual=usual,
        extra=options.deepspeed,
    )
    return {FILE_NAME: config}


def placement(run: Run) -> Placement:
    """Return the placement of a run's states and activations."""
    stage, config = run.options.zero_stage, config_files(run)[FILE_NAME]
    return deepspeed.placed(run, zero.config_placement(run, stage, config))


MEGATRON_DEEPSPEED_ZERO = Framework(
    name="megatron_deepspeed_zero",
    description="Megatron's tensor parallelism with ZeRO 1 to 3 and offload",
    options=MegatronDeepspeedZeroOptions,
    checks=Checks(
        problems=problems,
        warnings=deepspeed.warnings,
        unknown_keys=lambda run: zero.unknown_config_keys(config_files(run)),
        needs_gpus=framework_on_gpus,
    ),
    start=Start(
        template="megatron_deepspeed_zero.sh.j2",
        config_files=config_files,
        steps_on_cpu=zero.steps_on_cpu,
        paths=shared.PATHS,
        files=shared.opened("pretrain_gpt2.py"),
        program=lambda run: _RECORD,
        own_program=shared.program_in("pretrain_gpt2.py"),
        further=shared.further_arguments,
        imports=lambda run: ("torch", "deepspeed"),
        asks=lambda run: "ask_megatron",
    ),
    log=ProgramLog(formats=(MEGATRON, MEGATRON_MEMORY, DEEPSPEED_MEMORY)),
    model=ModelUse(
        placement=placement,
        vocab_size_multiple=shared.VOCAB_SIZE_MULTIPLE,
    ),
    report=OwnColumns(
        unreckoned=shared.unreckoned,
        chosen=(
            run_columns.GPUS,
            run_columns.SIZE,
            Column(
                "scattered embeddings",
                "scattered_embeddings",
                lambda run: "yes" if run.options.scattered_embeddings else "no",
            ),
            run_columns.TENSOR,
            run_columns.DATA,
            run_columns.MICRO_BATCH,
            run_columns.GLOBAL_BATCH,
            Column("ZeRO", "zero_stage", lambda run: run.zero_stage),
            Column("offload", "offload", zero.offload),
        ),
    ),
)
