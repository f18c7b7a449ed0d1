"""`megatron`: NVIDIA's Megatron-LM, of 2021 (2.x) and of today (Megatron core)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from orchestrator.frameworks.arguments import given
from orchestrator.frameworks.base import (
    Checks,
    Framework,
    ModelUse,
    OwnColumns,
    ProgramLog,
    Start,
    framework_on_gpus,
    only_gpt2,
)
from orchestrator.frameworks.megatron import argument_rules, memory, pipeline, releases, shared
from orchestrator.frameworks.megatron.shared import MegatronOptions
from orchestrator.memory.placement import Placement, megatron_placement
from orchestrator.run.model import Parallelism, Run
from parsers.formats.megatron import iterations
from parsers.formats.megatron.memory import MEGATRON_MEMORY

if TYPE_CHECKING:
    from orchestrator.model.description import Layer

# Each overflow except the first halves the loss scale: 18 overflows lower it from 2**32 to 2**15.
_ITERS_OF_OVERFLOW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronLmOptions(MegatronOptions):
    """Parameters that only the megatron framework has."""

    version: Annotated[
        str,
        AfterValidator(releases.checked_version),
        Field(
            description="`2` for Megatron-LM 2.x (2021), `core` for today's Megatron, or a "
            "release, e.g. `core-0.16`. With a release, teralog can check `extra_args` "
            "even if `source` is not on this machine.",
            json_schema_extra={"examples": releases.VERSIONS},
        ),
    ] = "core"
    virtual_pipeline_parallel_size: Annotated[
        int,
        Field(
            description="Chunks of layers per pipeline stage; 2 or more select the "
            "interleaved schedule.",
            ge=1,
        ),
    ] = 1
    sequence_parallel: Annotated[
        bool, Field(description="Split norms and dropout along the sequence, too.")
    ] = False
    use_distributed_optimizer: Annotated[
        bool, Field(description="Divide the optimizer's states over data-parallel ranks.")
    ] = False
    transformer_impl: Annotated[
        Literal["transformer_engine", "local"],
        Field(description="Layers of Transformer Engine, or Megatron's own layers (local)."),
    ] = "transformer_engine"

    @property
    def is_core(self) -> bool:
        """Whether the program is Megatron core; otherwise it is Megatron-LM 2."""
        return self.version != "2"

    @property
    def uneven(self) -> bool:
        """Whether the further arguments may give pipeline stages different numbers of layers."""
        return self.gives(*pipeline.UNEVEN)

    @property
    def brings_data(self) -> bool:
        """Whether the further arguments name data to train on."""
        return self.gives(*argument_rules.OWN_DATA)


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a Megatron-LM run is impossible."""
    options: MegatronLmOptions = run.options
    chunks = options.virtual_pipeline_parallel_size
    yield from shared.split_problems(run)
    if not options.is_core:
        yield from pipeline.even_problems(run, chunks)
        yield from pipeline.interleaving_problems(run, chunks, least_stages=3)
        yield from pipeline.checkpoint_problems_of_2(run, chunks)
        yield from _missing_in_2(run)
        yield from shared.data_problems(run)
        yield from argument_rules.blend_problems(run)
    else:
        yield from pipeline.core_stage_problems(run, chunks)
        overlaps = not options.gives(pipeline.NO_OVERLAP)
        yield from pipeline.interleaving_problems(run, chunks, 2 if overlaps else 3)
        yield from _sequence_problems(run)
        yield from argument_rules.data_source_problems(run)
        if (options.vocab_file is None) != (options.merge_file is None):
            yield "vocab_file, merge_file: give both, or neither"
    yield from argument_rules.common_problems(run)
    yield from shared.megatron_option_problems(run, _selective(run))


def model_problems(run: Run) -> Iterator[str]:
    """Yield each reason why Megatron-LM cannot build the model of a run."""
    if not run.options.is_core:
        yield from only_gpt2(run)
        return
    if run.model is None or not run.model.variants:
        return
    from orchestrator.model.config_json import ConfigError

    try:
        model_arguments(run)
    except ConfigError as error:
        yield str(error)
        return
    if run.model.described is not None and run.model.is_hybrid:
        yield from _hybrid_problems(run, run.model.described.layers)


def _hybrid_problems(run: Run, layers: Iterable["Layer"]) -> Iterator[str]:
    """Yield each reason why `pretrain_mamba.py` cannot train the hybrid model of a run."""
    from orchestrator.model.megatron_arguments import layer_letter

    letters = {layer_letter(layer) for layer in layers}
    yield from releases.hybrid_problems(letters, run.options.version)
    if run.options.transformer_impl == "local":
        yield "transformer_impl=local: hybrid models need transformer_impl=transformer_engine"
    if run.options.virtual_pipeline_parallel_size > 1:
        yield (
            "virtual_pipeline_parallel_size: Megatron does not accept this option for hybrid "
            "models; remove it"
        )


def model_arguments(run: Run) -> list[list[str]]:
    """Return the arguments with which Megatron core builds the run's model.

    The result is empty for GPT-2 of any size, because the job script contains its arguments. It
    is also empty for Megatron-LM 2, which builds only GPT-2. Raises ConfigError if Megatron
    core has no argument for a part of the model.
    """
    if run.model is None or not run.model.variants or not run.options.is_core:
        return []
    from orchestrator.model.megatron_arguments import megatron_arguments
    from orchestrator.run.described import description

    groups = megatron_arguments(description(run.model, run.model.vocab_size))
    if run.model.is_hybrid:
        groups = list(releases.hybrid_arguments(groups, run.options.version))
    # Megatron requires this option even if the model has no table of positions.
    if not any("--max-position-embeddings" in words for words in groups):
        groups.append(["--max-position-embeddings", str(run.model.seq_length)])
    return groups


def _is_hybrid(run: Run) -> bool:
    return run.model is not None and run.model.is_hybrid


def _selective(run: Run) -> list[str]:
    """Return further arguments that request selective recomputation; empty for Megatron-LM 2."""
    return memory.selective(run) if run.options.is_core else []


def _missing_in_2(run: Run) -> Iterator[str]:
    for name, asked in (
        ("sequence_parallel", run.options.sequence_parallel),
        ("use_distributed_optimizer", run.options.use_distributed_optimizer),
        ("context_parallel_size", run.parallelism.context_parallel_size > 1),
    ):
        if asked:
            yield f"Megatron-LM 2 has no {name}; remove it, or use version=core"


def _unfused(options: MegatronLmOptions) -> bool:
    return given(options.extra_args).get("--attention-backend") == ["unfused"]


def _sequence_problems(run: Run) -> Iterator[str]:
    split, options = run.parallelism, run.options
    tensor, context = split.tensor_parallel_size, split.context_parallel_size
    if context > 1 and options.transformer_impl == "local":
        yield f"context_parallel_size={context} needs transformer_impl=transformer_engine"
    elif context > 1 and run.training.precision == "fp32":
        # Transformer Engine splits sequences only in fused attention, which does not support fp32.
        yield (f"context_parallel_size={context} needs precision=bf16 or fp16 for fused attention")
    elif context > 1 and _unfused(options):
        yield (
            f"context_parallel_size={context} does not work with --attention-backend unfused; "
            "choose another backend in extra_args"
        )
    if run.model is None:
        return
    length = run.model.seq_length
    # Each rank has an early and a late piece of a sequence, so that all ranks have equal work.
    if context > 1 and length % (2 * context):
        yield f"seq_length={length} is not divisible by 2*context_parallel_size={2 * context}"
    elif options.sequence_parallel and length // context % tensor:
        yield (
            "sequence_parallel=true: seq_length/context_parallel_size="
            f"{length // context} is not divisible by tensor_parallel_size={tensor}"
        )


def split(given: Parallelism, world_size: int, options: MegatronLmOptions) -> Parallelism:
    """Return how the program divides the model.

    Older versions lower parallel sizes that are too large for the number of ranks.
    """
    lowers = releases.lowers_parallel_sizes(options.version)
    return pipeline.least_split(given, world_size) if lowers else given


def warnings(run: Run) -> Iterator[str]:
    """Yield warnings about valid but unusual settings of a Megatron-LM run."""
    yield from pipeline.split_warnings(run)
    yield from shared.option_warnings(run, run.options.virtual_pipeline_parallel_size)
    yield from pipeline.forecast_warnings(run)
    yield from memory.warnings(run)
    for option in _selective(run):
        yield (
            "extra_args: TFLOPs will be too low, because they do not count the recomputation "
            f"that {option} causes"
        )
    if run.options.sequence_parallel and run.parallelism.tensor_parallel_size == 1:
        yield (
            "sequence_parallel=true with tensor_parallel_size=1 has no effect: the program turns "
            "it off"
        )
    iterations = run.training.train_iters
    if (
        run.training.precision == "fp16"
        and iterations <= _ITERS_OF_OVERFLOW
        and not run.options.gives("--loss-scale", "--initial-loss-scale")
    ):
        yield (
            f"train_iters={iterations} with precision=fp16: the loss scale starts at 2**32, so "
            "about 18 of the first 20 updates are skipped, and their reports left out; to start "
            "lower, add `extra_args: [--initial-loss-scale, 4096]`"
        )


def unreckoned(run: Run) -> list[str]:
    """Return the further arguments whose effect on sizes or FLOPs teralog does not count."""
    return shared.unreckoned(run) + _selective(run)


def program(run: Run) -> str:
    """Return the name of the record that contains the options of the run's program."""
    return releases.record_name(run.options.version)


def placement(run: Run) -> Placement:
    """Return the placement of a run's states and activations.

    Attention is fused if Transformer Engine computes it in fp16 or bf16, and the further arguments
    do not request unfused attention.
    """
    options: MegatronLmOptions = run.options
    fused = (
        options.is_core
        and options.transformer_impl == "transformer_engine"
        and run.training.precision != "fp32"
        and not _unfused(options)
    )
    return replace(
        megatron_placement(run.training.precision),
        zero_stage=1 if options.use_distributed_optimizer else None,
        recomputation=memory.mode(run),
        checkpoint_num_layers=options.checkpoint_num_layers,
        virtual_stages=options.virtual_pipeline_parallel_size,
        sequence_parallel=options.sequence_parallel,
        may_save=memory.may_save(run),
        may_hold_more=memory.may_hold_more(run),
        experts=memory.experts(run),
        fused_attention=fused,
        fused_since=memory.FUSED_ATTENTION if fused else None,
    )


MEGATRON = Framework(
    name="megatron",
    description=(
        "Megatron-LM, of 2021 or of today: tensor, pipeline, data, sequence and context parallelism"
    ),
    options=MegatronLmOptions,
    split=split,
    checks=Checks(
        problems=problems,
        warnings=warnings,
        needs_gpus=framework_on_gpus,
        needs_capability=lambda run: memory.needed(run) if run.options.is_core else (),
    ),
    start=Start(
        template="megatron.sh.j2",
        paths=shared.PATHS,
        files=shared.opened("pretrain_gpt.py"),
        program=program,
        own_program=shared.program_in("pretrain_gpt.py"),
        further=shared.further_arguments,
        imports=lambda run: ("torch", "mamba_ssm") if _is_hybrid(run) else ("torch",),
        asks=lambda run: "ask_megatron",
    ),
    log=ProgramLog(formats=(iterations.MEGATRON, MEGATRON_MEMORY)),
    model=ModelUse(
        placement=placement,
        vocab_size_multiple=shared.VOCAB_SIZE_MULTIPLE,
        problems=model_problems,
        arguments=model_arguments,
    ),
    report=OwnColumns(
        unreckoned=unreckoned,
        chosen=shared.COLUMNS,
    ),
)
