"""Collect the input of an estimate.

Such an input is called a case: a model, its training, and the GPU. It comes from a run of a
campaign, or from the options of a command.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.hardware.gpus import Figure, peak_tflops
from orchestrator.model.config_json import read_model_config
from orchestrator.model.description import Adapters, Model
from orchestrator.model.huggingface import model_of_config
from orchestrator.model.megatron import read_megatron_arguments
from orchestrator.model.named import is_named, named_model, named_models
from orchestrator.model.parts import ADAPTER_TARGETS
from orchestrator.run.described import described_shape
from orchestrator.run.flops import Iteration
from orchestrator.run.presets import PRESETS, is_preset, preset
from orchestrator.run.shape import ModelShape, padded_vocab_size
from orchestrator.workloads.precision import Precision

# The precision of a model on the command line; the help of `teralog estimate` names it.
ESTIMATED_PRECISION: Precision = "fp16"
_NEEDED = ("num_layers", "hidden_size", "vocab_size", "seq_length")
# Sizes that the user may give for a described model; its file or name sets all others.
_OF_ANY_MODEL = ("vocab_size", "seq_length")


class Labelled(Protocol):
    """A dataclass with a field `label`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def label(self) -> str:
        """The label of a run or the name of a preset; may be empty."""


Of = TypeVar("Of", bound=Labelled)


def distinct(values: Sequence[Of], key: Callable[[Of], Hashable]) -> list[Of]:
    """Return the values without duplicates, in the order of their first occurrence.

    Two values are duplicates if `key` returns the same result for both. The first of them remains.
    Its label then also shows how many duplicates were left out, e.g. `ddp and 6 more`.
    """
    groups: dict[Hashable, list[Of]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return [
        replace(first, label=first_label([first.label, *(value.label for value in more)]))
        for first, *more in groups.values()
    ]


def first_label(labels: Sequence[str]) -> str:
    """Return the first label, and how many labels follow it, e.g. `ddp and 6 more`."""
    first, *more = labels
    return f"{first} and {len(more)} more" if more else first


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model, and the training to estimate; absent values are None.

    label: a run's label, or the name or path of a model; may be empty.
    padded_vocab_size: the vocabulary size from which parameters and FLOPs are counted.
    recomputed: whether the training uses activation checkpointing.
    peak: the peak TFLOP/s of the GPU, or why it is not known; None if there is no GPU or if the
        user named none.
    """

    label: str
    model: ModelShape
    padded_vocab_size: int
    recomputed: bool = False
    global_batch_size: int | None = None
    world_size: int | None = None
    train_iters: int | None = None
    peak: Figure | None = None

    @property
    def parameters(self) -> int:
        """The number of parameters of the model, including frozen ones and those of adapters."""
        return self.model.parameters(self.padded_vocab_size)

    @property
    def iteration(self) -> Iteration | None:
        """The model, batch and recomputation of an iteration, from which its FLOPs are counted.

        None if the global batch size is unknown.
        """
        if self.global_batch_size is None:
            return None
        return Iteration(
            model=self.model,
            padded_vocab_size=self.padded_vocab_size,
            global_batch_size=self.global_batch_size,
            recomputed=self.recomputed,
        )


def campaign_cases(campaign: Campaign) -> list[Case]:
    """Return a case for each run of a campaign that has a model.

    Raises UserError if no run has a model.
    """
    cases = [case for planned in campaign.runs for case in _run_case(campaign, planned)]
    if not cases:
        raise UserError(
            f"{campaign.path}: nothing to estimate, because none of its runs has a model"
        )
    return cases


def option_case(values: Mapping[str, Any]) -> Case:
    """Return the case that the options of a command describe: a model, its training, a GPU.

    The user can give the model in three ways: by sizes, by a name, or by a file. If the name is
    that of a preset, the user can replace some of its sizes. Raises UserError if options are
    missing or contradictory.
    """
    model = _shape(values)
    multiple = (values.get("vocab_size_multiple") or 1) * (values.get("tensor_parallel_size") or 1)
    return Case(
        label=model_label(values) or "",
        model=model,
        padded_vocab_size=padded_vocab_size(model.vocab_size, multiple),
        recomputed=bool(values.get("activation_checkpointing")),
        global_batch_size=values.get("global_batch_size"),
        world_size=values.get("world_size"),
        train_iters=values.get("train_iters"),
        peak=_peak(values),
    )


def _run_case(campaign: Campaign, planned: PlannedRun) -> list[Case]:
    run = planned.run
    if run.model is None or run.padded_vocab_size is None:
        return []
    case = Case(
        label=planned.label,
        model=run.model,
        padded_vocab_size=run.padded_vocab_size,
        recomputed=run.training.activation_checkpointing,
        global_batch_size=run.batch.global_batch_size,
        world_size=run.world_size,
        train_iters=run.training.train_iters,
        peak=campaign.cluster.peak_tflops(run.training.precision),
    )
    return [case]


def _shape(values: Mapping[str, Any]) -> ModelShape:
    names = {field.name for field in fields(ModelShape)}
    given = {name: value for name, value in values.items() if name in names and value is not None}
    described = _described(values, given)
    if described is not None:
        return described_shape(described)
    key = values.get("model")
    missing = [name for name in _NEEDED if name not in given]
    if key is None and missing:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise UserError(f"the model lacks {options}; give them, or --model, --config or a campaign")
    # The number of heads affects parameters and FLOPs only if keys and values are grouped.
    model = (
        replace(preset(key), **given) if key else ModelShape(**{"num_attention_heads": 1, **given})
    )
    heads, groups = model.num_attention_heads, model.num_key_value_heads
    if groups is not None and (heads % groups or model.hidden_size % heads):
        raise UserError(
            f"num_key_value_heads={groups} must divide num_attention_heads={heads}, "
            f"which must divide hidden_size={model.hidden_size}"
        )
    if model.hidden_size % heads:
        raise UserError(f"num_attention_heads={heads} must divide hidden_size={model.hidden_size}")
    return model


def _described(values: Mapping[str, Any], given: Mapping[str, Any]) -> Model | None:
    """Return the model that a file or a name describes, with LoRA adapters if the user wants them.

    given: the sizes of the model among the options.
    Returns None if neither a file nor a name is given, or if the name is that of a preset.
    Raises UserError if several of `--model`, `--config` and `--megatron-arguments` are given, or
    if an option for adapters cannot be used. Also raises UserError if `given` contains a size
    other than `vocab_size` and `seq_length`, because the file or name sets all other sizes.
    """
    sources = {
        "--model": values.get("model"),
        "--config": values.get("config"),
        "--megatron-arguments": values.get("megatron_arguments"),
    }
    chosen = {option: value for option, value in sources.items() if value is not None}
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} each give a model; keep only one of them")
    key, rank = values.get("model"), values.get("lora_rank")
    if not chosen or (key is not None and is_preset(key)):
        if rank is not None:
            raise UserError("--lora-rank: needs --config, or a --model that `teralog models` lists")
        return None
    (option,) = chosen
    wrong = [name for name in given if name not in _OF_ANY_MODEL]
    if wrong:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise UserError(
            f"{options}: cannot be used with {option}, which sets the whole model; remove one "
            "of them"
        )
    model = _read(values)
    model = replace(model, **given)
    targets = tuple(values.get("lora_target") or ())
    if rank is None:
        if targets:
            raise UserError("--lora-target: needs --lora-rank; add it")
        return model
    return replace(model, adapters=Adapters(rank=rank, targets=_known_targets(targets)))


def _read(values: Mapping[str, Any]) -> Model:
    if (config := values.get("config")) is not None:
        return model_of_config(read_model_config(Path(config)))
    if (arguments := values.get("megatron_arguments")) is not None:
        return read_megatron_arguments(Path(arguments))
    name = values["model"]
    if not is_named(name):
        names = (*PRESETS, *named_models())
        raise UserError(
            f"there is no model {name!r}; `teralog models` lists all{did_you_mean(name, names)}"
        )
    return named_model(name).model()


def _known_targets(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the parts of a model that get LoRA adapters, e.g. `query`.

    targets: the names that the user gave. If there are none, returns `query` and `value`, as in
    Hu et al. 2021. Raises UserError for an unknown name.
    """
    for target in targets:
        if target not in ADAPTER_TARGETS:
            raise UserError(
                f"--lora-target: {target!r} is not a part that can have adapters"
                f"{did_you_mean(target, ADAPTER_TARGETS)}; choose from {', '.join(ADAPTER_TARGETS)}"
            )
    return targets or ("query", "value")


def model_label(values: Mapping[str, Any]) -> str | None:
    """Return the name or the path by which the user gave a model; None if there is neither."""
    given = (values.get(name) for name in ("model", "config", "megatron_arguments"))
    return next((str(value) for value in given if value is not None), None)


def given_shape(values: Mapping[str, Any]) -> ModelShape | None:
    """Return the model that the options give by name or by file; ignore options for its sizes.

    Returns None if the options contain neither a name nor a file. Raises UserError if they contain
    several models, if the model or file does not exist, or if a LoRA option cannot be used.
    """
    described = _described(values, {})
    if described is not None:
        return described_shape(described)
    key = values.get("model")
    return None if key is None else preset(key)


def _peak(values: Mapping[str, Any]) -> Figure | None:
    given, name = values.get("gpu_peak_tflops"), values.get("gpu")
    if given is not None:
        return Figure(given, f"{given:g} TFLOP/s, given by the user")
    return (
        None if name is None else peak_tflops(name, values.get("precision") or ESTIMATED_PRECISION)
    )
