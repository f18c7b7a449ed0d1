"""Check the options of `teralog estimate`, and return estimates as objects for JSON."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import Field

from orchestrator.campaign.campaign import load_campaign
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.validation import field_problems, field_types
from orchestrator.estimate.case import Case, campaign_cases, option_case
from orchestrator.estimate.conventions import convention_records
from orchestrator.estimate.memory import (
    MemoryEstimate,
    campaign_estimates,
    estimate_record,
    memory_estimate,
)
from orchestrator.estimate.params_and_flops import flops_records, parameters_record
from orchestrator.estimate.time import (
    KnownTraining,
    case_training,
    duration_record,
    durations,
    option_training,
)
from orchestrator.run.choices import Biases, Norm
from orchestrator.workloads.precision import Precision

_Size = Annotated[int, Field(ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ModelOptions(TypedDict, total=False):
    """Options that describe a model: the name of a preset as `model`, or sizes, or both.

    If both are given, the given sizes replace the sizes of the preset. Alternatively, `model`
    is a name that `teralog models` lists, `config` is a `config.json` or its folder, or
    `megatron_arguments` is a file with Megatron's arguments.
    """

    model: str
    config: str
    megatron_arguments: str
    num_layers: _Size
    hidden_size: _Size
    num_attention_heads: _Size
    vocab_size: _Size
    seq_length: _Size
    ffn_hidden_size: _Size
    num_key_value_heads: _Size
    gated_mlp: bool
    untied_head: bool
    position_table: bool
    embedding_norm: bool
    biases: Biases
    norm: Norm
    vocab_size_multiple: _Size
    tensor_parallel_size: _Size


class AdapterOptions(ModelOptions, total=False):
    """Options that describe a model, perhaps with LoRA adapters.

    lora_rank: the rank of the adapters. If it is given, only the adapters are trained.
    """

    lora_rank: _Size
    lora_target: list[str]


class FlopsOptions(AdapterOptions, total=False):
    """Options for FLOPs: a model, an iteration of its training, the iteration's time, and the GPU.

    conventions: whether to also return the FLOPs that other programs would count, and why they
    differ.
    """

    conventions: bool
    global_batch_size: _Size
    activation_checkpointing: bool
    world_size: _Size
    step_seconds: _Positive
    gpu: str
    precision: Precision
    gpu_peak_tflops: _Positive


class MemoryOptions(ModelOptions, total=False):
    """Options for the memory of a rank: a model, the settings of its training, and the GPU."""

    pipeline_parallel_size: _Size
    expert_parallel_size: _Size
    zero_stage: Annotated[int, Field(ge=0, le=3)]
    world_size: _Size
    micro_batch_size: _Size
    num_microbatches: _Size
    precision: Precision
    activation_checkpointing: bool
    offload_optimizer: bool
    offload_parameters: bool
    gpu: str
    gpu_memory: _Positive


class TimeOptions(ModelOptions, total=False):
    """Options for the time of a training: a model or its parameters, the work, and the speed.

    The work is a number of tokens with the speed `tflops_per_gpu`, or a number of iterations
    with the speed `step_seconds`.
    """

    parameters: _Size
    activation_checkpointing: bool
    world_size: _Size
    tokens: _Size
    tflops_per_gpu: _Positive
    train_iters: _Size
    step_seconds: _Positive


OPTIONS: dict[str, type] = {
    "params": AdapterOptions,
    "flops": FlopsOptions,
    "memory": MemoryOptions,
    "time": TimeOptions,
}
# Options that may be given with a campaign, because a campaign file does not contain them.
_WITH_A_CAMPAIGN = {
    "flops": {"step_seconds", "conventions"},
    "time": {"tokens", "tflops_per_gpu", "step_seconds"},
}


def estimate_records(
    what: str, campaign: Path | None, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the objects that `teralog estimate WHAT --json` prints.

    what: `params`, `flops`, `memory` or `time`.
    campaign: the campaign file whose runs are estimated; None if the options describe a model.
    Raises UserError if the options or the campaign file have problems.
    """
    if what not in OPTIONS:
        raise UserError(f"{what!r}: cannot be estimated{did_you_mean(what, OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    if problems := list(_problems(what, campaign, given)):
        raise UserError(*problems)
    values = {name: given.get(name) for name in field_types(OPTIONS[what])}
    match what:
        case "params":
            return [parameters_record(case) for case in _cases(campaign, values)]
        case "flops":
            records = convention_records if values.pop("conventions") else flops_records
            return records(_cases(campaign, values), values["step_seconds"])
        case "memory":
            return [estimate_record(estimate) for estimate in _memory_estimates(campaign, values)]
    speed = {name: values.pop(name) for name in ("tokens", "tflops_per_gpu", "step_seconds")}
    return [
        duration_record(duration) for duration in durations(_trainings(campaign, values), **speed)
    ]


def _memory_estimates(campaign: Path | None, values: Mapping[str, Any]) -> list[MemoryEstimate]:
    if campaign is None:
        return [memory_estimate(values)]
    return campaign_estimates(load_campaign(campaign))


def _trainings(campaign: Path | None, values: Mapping[str, Any]) -> list[KnownTraining]:
    if campaign is None:
        return [option_training(values)]
    return [case_training(case) for case in _cases(campaign, values)]


def _cases(campaign: Path | None, values: Mapping[str, Any]) -> list[Case]:
    return [option_case(values)] if campaign is None else campaign_cases(load_campaign(campaign))


def _problems(what: str, campaign: Path | None, given: Mapping[str, Any]) -> Iterator[str]:
    options = field_types(OPTIONS[what])
    for name, value in given.items():
        if name not in options:
            yield f"{name}: unknown option of {what}{did_you_mean(name, options)}"
        elif campaign is not None and name not in _WITH_A_CAMPAIGN.get(what, ()):
            yield f"{name}: cannot be used with a campaign, which has its own value"
        else:
            yield from field_problems(name, OPTIONS[what], name, value)
