"""Define the parameters that all runs have: their types, limits and descriptions.

Each framework adds its own parameters (`Framework.options`). All are fields of dataclasses whose
annotations contain pydantic's `Field`: type, limits and description in one place. The checks and
the JSON schema both use them.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, get_args

from pydantic import Field, WithJsonSchema
from pydantic.functional_validators import AfterValidator

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.validation import field_problems, field_types, mapping_problems
from orchestrator.frameworks.arguments import Arguments
from orchestrator.frameworks.table import FRAMEWORKS, framework
from orchestrator.hardware.free_lines import checked_lines
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.run.choices import Biases, Norm
from orchestrator.run.chosen_model import SOURCES, check_source
from orchestrator.run.model import Parallelism, Resources, Training
from orchestrator.workloads.precision import Precision

Size = Annotated[int, Field(ge=1)]

# If a campaign file omits a parameter, the parameter has the default in these objects.
_RESOURCES = Resources()
_PARALLELISM = Parallelism()
_TRAINING = Training()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """The sizes of a model. A size that a run sets replaces the same size of its preset."""

    num_layers: Annotated[Size | None, Field(description="Transformer layers.")] = None
    hidden_size: Annotated[Size | None, Field(description="Width of the model.")] = None
    num_attention_heads: Annotated[Size | None, Field(description="Attention heads per layer.")] = (
        None
    )
    ffn_hidden_size: Annotated[
        Size | None, Field(description="Width of the MLP; 4 * hidden_size if not given.")
    ] = None
    vocab_size: Annotated[
        Size | None, Field(description="Tokens of the vocabulary, before padding.")
    ] = None
    seq_length: Annotated[Size | None, Field(description="Tokens in a sequence.")] = None
    num_key_value_heads: Annotated[
        Size | None, Field(description="Heads of keys and values, if attention heads share them.")
    ] = None
    head_dim: Annotated[
        Size | None,
        Field(description="Width of a head; hidden_size / num_attention_heads if not given."),
    ] = None
    gated_mlp: Annotated[bool | None, Field(description="The MLP has a third matrix (SwiGLU).")] = (
        None
    )
    untied_head: Annotated[
        bool | None, Field(description="The output head does not share the embedding's weights.")
    ] = None
    position_table: Annotated[
        bool | None,
        Field(
            description="true: the model learns a table of positions; false: "
            "its positions are rotary."
        ),
    ] = None
    biases: Annotated[Biases | None, Field(description="Which matrices have a bias.")] = None
    norm: Annotated[Norm | None, Field(description="Type of norm in the layers.")] = None
    num_experts: Annotated[Size | None, Field(description="Experts in the MLP of each layer.")] = (
        None
    )
    num_experts_per_token: Annotated[
        Size | None, Field(description="Experts per token; 2 if not given.")
    ] = None
    expert_ffn_hidden_size: Annotated[
        Size | None, Field(description="Width of an expert; ffn_hidden_size if not given.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonParameters(ModelSizes):
    """Parameters that every framework has, with their defaults."""

    framework: Annotated[
        str, Field(description="The training program.", json_schema_extra={"enum": [*FRAMEWORKS]})
    ]
    model: Annotated[
        str | dict[str, Any],
        WithJsonSchema(
            {
                "description": "The name of a preset, or a name that `teralog models` lists. "
                "Or a mapping with sizes. If the mapping also contains preset, name or config, "
                "the sizes replace those of the named model, e.g. {preset: xl, seq_length: 512}.",
                "anyOf": [{"type": "string"}, {"type": "object"}],
            }
        ),
    ]
    nodes: Annotated[Size, Field(description="Number of nodes.")] = _RESOURCES.nodes
    gpus_per_node: Annotated[
        int,
        Field(
            ge=1,
            le=1024,
            description="Ranks per node: one per GPU, or processes on nodes without GPUs.",
        ),
    ] = _RESOURCES.gpus_per_node
    tensor_parallel_size: Annotated[Size, Field(description="Ranks that share each layer.")] = (
        _PARALLELISM.tensor_parallel_size
    )
    pipeline_parallel_size: Annotated[
        Size, Field(description="Pipeline stages that the layers are divided into.")
    ] = _PARALLELISM.pipeline_parallel_size
    context_parallel_size: Annotated[
        Size,
        Field(description="Ranks that share each sequence; each rank has a copy of the weights."),
    ] = _PARALLELISM.context_parallel_size
    data_parallel_size: Annotated[
        Size | None,
        Field(
            description="Copies of the model; computed from other parameters, and checked if given."
        ),
    ] = None
    micro_batch_size: Annotated[
        Size, Field(description="Sequences that a rank processes at a time.")
    ] = 1
    global_batch_size: Annotated[
        Size | None,
        Field(description="Sequences per optimizer step; default: one micro-batch per model copy."),
    ] = None
    num_microbatches: Annotated[
        Size | None,
        Field(
            description=(
                "Number of micro-batches that each copy of the model trains on per step. Give "
                "either num_microbatches or global_batch_size."
            )
        ),
    ] = None
    train_iters: Annotated[Size, Field(description="Optimizer steps.")] = _TRAINING.train_iters
    precision: Annotated[Precision, Field(description="Number format of the training.")] = (
        _TRAINING.precision
    )
    activation_checkpointing: Annotated[
        bool, Field(description="Recompute activations in the backward pass.")
    ] = _TRAINING.activation_checkpointing
    learning_rate: Annotated[float, Field(description="Learning rate of the optimizer.", gt=0)] = (
        _TRAINING.learning_rate
    )
    seed: Annotated[int, Field(description="Seed of weights and tokens.", ge=0)] = _TRAINING.seed
    time_limit: Annotated[
        int | str,
        AfterValidator(time_limit_seconds),
        Field(description="Time limit of a run: minutes, or Slurm's H:MM:SS."),
    ] = _RESOURCES.time_limit_seconds // 60
    sbatch: Annotated[
        Arguments,
        checked_lines("sbatch"),
        Field(description="Options of sbatch in addition to the profile's, e.g. --core-spec=2."),
    ] = field(default_factory=list)
    srun: Annotated[
        Arguments,
        checked_lines("srun"),
        Field(description="Options of srun in addition to the profile's, e.g. --cpu-bind=cores."),
    ] = field(default_factory=list)


COMMON = frozenset(field.name for field in dataclasses.fields(CommonParameters))
# Records contain the value computed from ranks and global batch, whether it was given or not.
DERIVED = frozenset({"data_parallel_size", "num_microbatches"})
MODEL_SIZES = tuple(field.name for field in dataclasses.fields(ModelSizes))


# Names of parameters in programs and schedulers, and the names of these parameters here.
_CALLED_ELSEWHERE = {
    "batch_size": "micro_batch_size, or global_batch_size",
    "bf16": "precision: bf16",
    "block_size": "seq_length",
    "fp16": "precision: fp16",
    "gpus": "gpus_per_node",
    "gradient_accumulation_steps": "num_microbatches",
    "gradient_checkpointing": "activation_checkpointing",
    "lr": "learning_rate",
    "max_steps": "train_iters",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_layers",
    "optimizer": "deepspeed: {optimizer: ...}",
    "per_device_train_batch_size": "micro_batch_size",
    "pipeline_model_parallel_size": "pipeline_parallel_size",
    "scheduler": "deepspeed: {scheduler: ...}",
    "sequence_length": "seq_length",
    "tensor_model_parallel_size": "tensor_parallel_size",
    "train_batch_size": "global_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "walltime": "time_limit",
    "zero_optimization": "deepspeed: {zero_optimization: ...}, and zero_stage",
}


@cache
def option_names(framework: str) -> frozenset[str]:
    """Return the names of the parameters that `framework` adds to those of `CommonParameters`."""
    return frozenset(field.name for field in dataclasses.fields(FRAMEWORKS[framework].options))


@cache
def argument_names() -> frozenset[str]:
    """Return the names of the parameters whose values are lists of command-line arguments."""
    kinds = (CommonParameters, *(framework.options for framework in FRAMEWORKS.values()))
    return frozenset(
        name
        for kind in kinds
        for name, type_ in field_types(kind).items()
        if get_args(type_)[:1] == (Arguments,)
    )


def is_parameter(name: str, frameworks: Iterable[str]) -> bool:
    """Return whether a campaign file may set `name` as a parameter of one of these frameworks.

    A file may not set values that teralog computes, e.g. the world size.
    """
    return name in COMMON or any(name in option_names(framework) for framework in frameworks)


def parameter_problems(
    where: str,
    values: Mapping[str, Any],
    frameworks: Iterable[str],
    elsewhere: Mapping[str, str] = {},
) -> Iterator[str]:
    """Yield a sentence for each problem of the parameters in one part of a campaign file.

    A parameter is valid if at least one of `frameworks` has it and accepts its value.

    where: the path of this part, e.g. `defaults`; every sentence begins with the path.
    elsewhere: keys that are not parameters, e.g. `repeats`, each with a hint on where it belongs.
        The sentence about the key ends with this hint.
    """
    kinds = (CommonParameters, *(FRAMEWORKS[name].options for name in frameworks))
    for name, value in values.items():
        path = f"{where}.{name}"
        having = [kind for kind in kinds if name in field_types(kind)]
        if not having:
            names = {field for kind in kinds for field in field_types(kind)}
            others = [other for other in FRAMEWORKS if name in option_names(other)]
            if others:
                near = f"; it is a parameter of {', '.join(others)}"
            elif name in elsewhere:
                near = f"; {elsewhere[name]}"
            elif name in _CALLED_ELSEWHERE:
                near = f"; use {_CALLED_ELSEWHERE[name]}"
            else:
                near = did_you_mean(str(name), names)
            yield f"{where}: unknown key {name!r}{near}"
        elif isinstance(value, list) and name not in argument_names():
            yield f"{path}: {value!r} is a list; give one value, or several under matrix"
        elif name == "framework" and isinstance(value, str):
            yield from _unknown(path, framework, value)
        elif name == "model":
            yield from _model_problems(path, value)
        else:
            problem_lists = (list(field_problems(path, kind, name, value)) for kind in having)
            yield from min(problem_lists, key=len)


def _model_problems(where: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for source in ("preset", "name"):
            if value.get(source) is not None:
                key = str(value[source])
                yield from _unknown(where, partial(check_source, source), key)
        sizes = {name: size for name, size in value.items() if name not in SOURCES}
        yield from mapping_problems(where, ModelSizes, sizes)
        if "config" in value and not isinstance(value["config"], dict):
            yield f"{where}.config: must be the path of a config.json, not {value['config']!r}"
    elif value is None:
        yield f"{where}: has no value; give a preset, e.g. model: xl, or sizes"
    else:
        yield from _unknown(where, partial(check_source, "preset"), str(value))


def _unknown(where: str, look_up: Callable[[str], object], key: str) -> Iterator[str]:
    try:
        look_up(key)
    except UserError as error:
        yield f"{where}: {error}"
