"""`megatron_deepspeed_3d`: Megatron under DeepSpeed (2021), with tensor and pipeline parallelism.

The program has two branches. The new branch is based on Megatron-LM 2.4. The old branch is based on
Megatron-LM 1.1.5, which has other names for its options.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks import limits
from orchestrator.frameworks.arguments import given, whole_number
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
from orchestrator.frameworks.megatron import argument_rules, deepspeed, memory, pipeline, shared
from orchestrator.frameworks.megatron.deepspeed import MegatronDeepspeedOptions
from orchestrator.memory.placement import Placement, megatron_placement
from orchestrator.run.model import Parallelism, Run
from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.formats.megatron.iterations import MEGATRON
from parsers.formats.megatron.memory import MEGATRON_MEMORY

_RECORDS = {"new": "megatron-deepspeed-2.4", "old": "megatron-lm-1.1.5-3d"}
_OF_A_CHUNK = "--num-layers-per-virtual-pipeline-stage"
# The values in the scripts of 2021, by branch.
_LOSS_SCALING = {
    "new": {"loss_scale_window": 500, "initial_scale_power": 12},
    "old": {"loss_scale_window": 1000, "initial_scale_power": 10},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronDeepspeed3dOptions(MegatronDeepspeedOptions):
    """Parameters that only the megatron_deepspeed_3d framework has."""

    branch: Annotated[
        Literal["new", "old"],
        Field(
            description=("Branch of the program: new (Megatron-LM 2.4) or old (Megatron-LM 1.1.5).")
        ),
    ] = "new"
    engine: Annotated[
        Literal["deepspeed", "megatron"],
        Field(
            description="What trains: deepspeed, or megatron without DeepSpeed, which needs "
            "`branch: new`."
        ),
    ] = "deepspeed"
    zero_stage: Annotated[
        int,
        Field(
            description="ZeRO stage, 0 or 1; DeepSpeed's pipeline cannot use stages 2 and 3.",
            ge=0,
            le=3,
        ),
    ] = 0


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a run is impossible."""
    options: MegatronDeepspeed3dOptions = run.options
    yield from shared.split_problems(run)
    yield from shared.data_problems(run)
    yield from limits.whole_sequences(run)
    if options.branch == "old":
        yield from deepspeed.version_1_problems(run)
    else:
        yield from argument_rules.common_problems(run)
        yield from argument_rules.blend_problems(run)
    if options.engine == "megatron":
        yield from _without_deepspeed(run)
    else:
        yield from _under_deepspeed(run)
    yield from shared.megatron_option_problems(run)


def _without_deepspeed(run: Run) -> Iterator[str]:
    options: MegatronDeepspeed3dOptions = run.options
    yield from pipeline.even_problems(run)
    if options.branch == "old":
        yield "branch=old needs engine=deepspeed"
    else:
        yield from pipeline.checkpoint_problems_of_2(run)
        yield from _interleaving_problems(run)
    asked = deepspeed.checkpointing(run)
    asked += ["zero_stage"] * bool(options.zero_stage) + ["deepspeed"] * bool(options.deepspeed)
    if asked:
        yield f"engine=megatron does not use DeepSpeed; remove {', '.join(asked)}"


def _interleaving_problems(run: Run) -> Iterator[str]:
    """Yield each reason why the run cannot use the interleaved schedule of Megatron 2.4.

    Yields nothing if the run does not request this schedule.
    """
    each = whole_number(given(run.options.extra_args), _OF_A_CHUNK)
    layers, stages = _layers_and_stages(run)
    if each is None or layers is None or layers % stages:
        return
    if each < 1 or layers // stages % each:
        yield (
            f"extra_args: {_OF_A_CHUNK}={each} does not divide the {layers // stages} layers of a "
            "pipeline stage"
        )
    else:
        chunks = layers // stages // each
        yield from pipeline.interleaving_problems(run, chunks, least_stages=3)


def _under_deepspeed(run: Run) -> Iterator[str]:
    options: MegatronDeepspeed3dOptions = run.options
    layers, stages = _layers_and_stages(run)
    if options.zero_stage > 1:
        # The program makes a pipeline even for one stage, and DeepSpeed checks the kind of model.
        yield (
            f"zero_stage={options.zero_stage} divides gradients, but DeepSpeed's pipeline needs "
            "whole gradients, even with one pipeline stage; use zero_stage=0 or 1, or framework "
            "megatron_deepspeed_zero"
        )
    if layers is not None and layers < stages:
        yield f"num_layers={layers} is less than pipeline_parallel_size={stages}"
    if options.zero_stage and run.training.precision != "fp16":
        yield f"zero_stage={options.zero_stage} needs precision=fp16 in DeepSpeed of 2021"
    elif options.branch == "new" and run.training.precision == "bf16":
        yield "DeepSpeed of 2021 has no bf16; use precision=fp16"
    yield from deepspeed.checkpointing_problems(run)
    yield from deepspeed.optimizer_problems(run)
    yield from zero.config_problems(run, config_files(run), kept=deepspeed.KEYS_OF_2021)


def split(given: Parallelism, world_size: int, options: MegatronDeepspeed3dOptions) -> Parallelism:
    """Return how the program divides the model.

    Megatron 2.4 lowers parallel sizes that are too large for the number of ranks.
    """
    return pipeline.least_split(given, world_size) if options.branch == "new" else given


def warnings(run: Run) -> Iterator[str]:
    """Yield warnings about valid but unusual settings."""
    yield from pipeline.split_warnings(run)
    if run.options.engine == "megatron":
        yield from shared.option_warnings(run)
        yield from memory.warnings(run)
        return
    yield from deepspeed.warnings(run)
    layers, stages = _layers_and_stages(run)
    if layers is not None and layers % stages:
        yield (
            f"num_layers={layers} is not divisible by pipeline_parallel_size={stages}: DeepSpeed "
            "gives some stages one more layer, and the other stages wait for them"
        )


def _layers_and_stages(run: Run) -> tuple[int | None, int]:
    layers = None if run.model is None else run.model.num_layers
    return layers, run.parallelism.pipeline_parallel_size


def program(run: Run) -> str:
    """Return the name of the record that contains the options of the run's program."""
    return _RECORDS[run.options.branch]


def config_files(run: Run) -> dict[str, dict[str, Any]]:
    """Return DeepSpeed's configuration by file name; empty if Megatron runs without DeepSpeed."""
    options: MegatronDeepspeed3dOptions = run.options
    if options.engine == "megatron":
        return {}
    usual: dict[str, Any] = {
        "gradient_clipping": 1.0,
        "prescale_gradients": False,
        "steps_per_print": 1,
        "wall_clock_breakdown": False,
    }
    if run.training.precision == "fp16":
        scaling = _LOSS_SCALING[options.branch]
        usual["fp16"] = {"loss_scale": 0, "hysteresis": 2, "min_loss_scale": 1, **scaling}
    return {FILE_NAME: program_config(run, usual=usual, extra=options.deepspeed)}


def placement(run: Run) -> Placement:
    """Return the placement of a run's states and activations."""
    options: MegatronDeepspeed3dOptions = run.options
    states = (
        megatron_placement(run.training.precision)
        if options.engine == "megatron"
        else zero.states(
            run.training.precision, options.zero_stage, options.deepspeed, pipeline=True
        )
    )
    return deepspeed.placed(run, states)


MEGATRON_DEEPSPEED_3D = Framework(
    name="megatron_deepspeed_3d",
    description="Megatron of 2021 with DeepSpeed's pipeline, in two branches: new and old",
    options=MegatronDeepspeed3dOptions,
    split=split,
    checks=Checks(
        problems=problems,
        warnings=warnings,
        unknown_keys=lambda run: zero.unknown_config_keys(config_files(run)),
        needs_gpus=framework_on_gpus,
    ),
    start=Start(
        template="megatron_deepspeed_3d.sh.j2",
        config_files=config_files,
        paths=shared.PATHS,
        # The program itself has another name in each branch.
        files=shared.opened("megatron/arguments.py"),
        program=program,
        own_program=shared.program_in("pretrain_gpt.py", "pretrain_gpt2.py"),
        further=shared.further_arguments,
        imports=lambda run: ("torch", "deepspeed"),
        asks=lambda run: "ask_megatron",
    ),
    log=ProgramLog(formats=(MEGATRON, DEEPSPEED_PIPELINE, MEGATRON_MEMORY)),
    model=ModelUse(
        placement=placement,
        vocab_size_multiple=shared.VOCAB_SIZE_MULTIPLE,
    ),
    report=OwnColumns(
        unreckoned=shared.unreckoned,
        chosen=(
            Column("branch", "branch", lambda run: run.options.branch),
            Column("engine", "engine", lambda run: run.options.engine),
            *shared.COLUMNS,
        ),
    ),
)
