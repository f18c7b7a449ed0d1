"""Define a run: frozen values of the chosen settings, and properties for derived sizes."""

import json
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from orchestrator.run.shape import ModelShape, padded_vocab_size
from orchestrator.workloads.precision import Precision
from orchestrator.workloads.settings import (
    DEFAULT_LEARNING_RATE,
    DEFAULT_PRECISION,
    DEFAULT_SEED,
)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a copy of the model, and each sequence, is split over ranks.

    The tensor-, pipeline- and context-parallel sizes are those with which the program trains.
    contradicted_data_parallel_size: a number of copies that the user gave, although the ranks do
        not form that many copies.
    asked: the sizes that the user gave, if the program trains with other sizes; otherwise None.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1
    contradicted_data_parallel_size: int | None = None
    asked: "Parallelism | None" = None

    @property
    def given(self) -> "Parallelism":
        """The tensor-, pipeline- and context-parallel sizes that the user gave.

        The program's command line contains these sizes, even if the program trains with others.
        """
        return self.asked or self

    @property
    def ranks_per_replica(self) -> int:
        """The number of ranks that process a sequence together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size


@dataclass(frozen=True, slots=True)
class Batch:
    """The micro-batch size and the global batch size, in sequences.

    global_batch_size: None if the given sizes do not determine it.
    contradicted_num_microbatches: a number of micro-batches that the user gave, although it
        contradicts the global batch size.
    """

    micro_batch_size: int
    global_batch_size: int | None
    contradicted_num_microbatches: int | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """The nodes, GPUs and time that a run requests. The time limit is not part of a run's identity.

    sbatch, srun: further options for the commands sbatch and srun. They are part of the identity,
        because they may change the speed of a run.
    """

    nodes: int = 1
    gpus_per_node: int = 1
    time_limit_seconds: int = field(default=1800, metadata={"identity": False})
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks of a run: `nodes` times `gpus_per_node`.

        On nodes without GPUs, `gpus_per_node` is the number of processes per node.
        """
        return self.nodes * self.gpus_per_node

    @property
    def gpu_hours(self) -> float:
        """The requested GPU-hours: every GPU for the whole time limit."""
        return self.world_size * self.time_limit_seconds / 3600


@dataclass(frozen=True, slots=True)
class Training:
    """The training settings that all frameworks share."""

    train_iters: int = 20
    precision: Precision = DEFAULT_PRECISION
    activation_checkpointing: bool = False
    learning_rate: float = DEFAULT_LEARNING_RATE
    seed: int = DEFAULT_SEED


@dataclass(frozen=True, slots=True)
class Run:
    """One training to be measured.

    options: the values of its framework's own parameters: a frozen dataclass.
    model: None for a user's own script whose model is unknown.
    model_name: the name of the model that the user chose, e.g. a preset; None if the user
        gave only sizes.
    model_choice: how the user chose the model, in JSON; None if the model is a GPT-2 with other
        sizes, because then its sizes are enough.
    vocab_size_multiple: the framework pads the vocabulary to a multiple of this number
        times the tensor-parallel size.
    """

    framework: str
    cluster: str
    model: ModelShape | None
    parallelism: Parallelism
    batch: Batch
    resources: Resources
    training: Training
    options: Any
    vocab_size_multiple: int = 1
    repeat: int = 1
    model_name: str | None = field(default=None, metadata={"identity": False})
    model_choice: str | None = field(default=None, metadata={"identity": False})

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.resources.world_size

    @property
    def data_parallel_size(self) -> int | None:
        """The number of copies of the model, or None if the ranks do not form whole copies."""
        copies, rest = divmod(self.world_size, self.parallelism.ranks_per_replica)
        return copies if copies and not rest else None

    @property
    def num_microbatches(self) -> int | None:
        """The number of micro-batches per optimizer step and rank.

        None if the global batch size is unknown, or not a multiple of the sequences that all copies
        of the model process at once. DeepSpeed calls this number gradient accumulation steps;
        pipeline schedules call it chunks.
        """
        if self.data_parallel_size is None or self.batch.global_batch_size is None:
            return None
        per_pass = self.batch.micro_batch_size * self.data_parallel_size
        count, rest = divmod(self.batch.global_batch_size, per_pass)
        return count if count and not rest else None

    @property
    def padded_vocab_size(self) -> int | None:
        """The vocabulary size, rounded up as the framework does; None if the model is unknown."""
        if self.model is None:
            return None
        multiple = self.vocab_size_multiple * self.parallelism.tensor_parallel_size
        return padded_vocab_size(self.model.vocab_size, multiple)

    @property
    def parameters(self) -> int | None:
        """The number of parameters of the model, with the padded vocabulary; None if unknown."""
        if self.model is None or self.padded_vocab_size is None:
            return None
        return self.model.parameters(self.padded_vocab_size)

    @property
    def zero_stage(self) -> int | None:
        """The ZeRO stage (0 to 3) in the options, or None if the framework has no ZeRO."""
        stage: int | None = getattr(self.options, "zero_stage", None)
        return stage


def asked_split(run: Run) -> dict[str, int] | None:
    """Return the tensor-, pipeline- and context-parallel sizes that the user gave, by name.

    Returns None if the program trains with exactly these sizes.
    """
    asked = run.parallelism.asked
    if asked is None:
        return None
    return {
        "tensor_parallel_size": asked.tensor_parallel_size,
        "pipeline_parallel_size": asked.pipeline_parallel_size,
        "context_parallel_size": asked.context_parallel_size,
    }


def sizes(run: Run) -> dict[str, Any]:
    """Return every chosen and derived value of a run by name, for JSON and expressions.

    The names are on one level, e.g. `nodes`, not `resources.nodes`. An absent value is None.
    `parameters_billions` is the number of parameters divided by 10**9. `gpu_hours` are the
    requested hours.
    """
    model, training, resources = run.model, run.training, run.resources
    parameters = run.parameters
    kind: type = type(run.options)
    options = {name: getattr(run.options, name) for name in _field_names(kind)}
    return {
        "framework": run.framework,
        "cluster": run.cluster,
        **options,
        "zero_stage": run.zero_stage,
        "precision": training.precision,
        "activation_checkpointing": training.activation_checkpointing,
        "train_iters": training.train_iters,
        "learning_rate": training.learning_rate,
        "seed": training.seed,
        "repeat": run.repeat,
        "model": run.model_name,
        "num_layers": model and model.num_layers,
        "hidden_size": model and model.hidden_size,
        "num_attention_heads": model and model.num_attention_heads,
        "ffn_hidden_size": model and model.ffn_width,
        "vocab_size": model and model.vocab_size,
        "padded_vocab_size": run.padded_vocab_size,
        "seq_length": model and model.seq_length,
        **_variants(model),
        "model_choice": None if run.model_choice is None else json.loads(run.model_choice),
        "parameters": parameters,
        "parameters_billions": None if parameters is None else parameters / 1e9,
        "nodes": resources.nodes,
        "gpus_per_node": resources.gpus_per_node,
        "world_size": run.world_size,
        "tensor_parallel_size": run.parallelism.tensor_parallel_size,
        "pipeline_parallel_size": run.parallelism.pipeline_parallel_size,
        "context_parallel_size": run.parallelism.context_parallel_size,
        "data_parallel_size": run.data_parallel_size,
        "micro_batch_size": run.batch.micro_batch_size,
        "num_microbatches": run.num_microbatches,
        "global_batch_size": run.batch.global_batch_size,
        "time_limit_seconds": resources.time_limit_seconds,
        "gpu_hours": resources.gpu_hours,
        "sbatch": [*resources.sbatch] or None,
        "srun": [*resources.srun] or None,
    }


def _variants(model: ModelShape | None) -> dict[str, Any]:
    """Return the values of `model` for the parameters in which models may differ from GPT-2.

    The keys are the names of the parameters in campaign files. A value is None if the model does
    not have it, or if it is not known.
    """
    if model is None:
        return dict.fromkeys(_VARIANTS)
    described = model.described
    if described is None:
        heads = model.num_attention_heads
        return {
            **dict.fromkeys(_VARIANTS),
            "num_key_value_heads": model.num_key_value_heads or heads,
            "gated_mlp": model.gated_mlp,
            "untied_head": model.untied_head,
            "position_table": model.position_table,
            "biases": model.biases,
            "norm": model.norm,
        }
    experts = described.experts
    attention = described.attention
    return {
        **dict.fromkeys(_VARIANTS),
        "num_key_value_heads": attention and attention.key_value_heads,
        "head_dim": attention and attention.head_size,
        "gated_mlp": described.gated_mlp,
        "untied_head": not described.tied_head,
        "position_table": described.position_rows is not None,
        "norm": described.norm,
        "num_experts": experts and experts.number,
        "num_experts_per_token": experts and experts.top_k,
        "expert_ffn_hidden_size": experts and experts.width,
    }


_VARIANTS = (
    *("num_key_value_heads", "head_dim", "gated_mlp", "untied_head", "position_table", "biases"),
    *("norm", "num_experts", "num_experts_per_token", "expert_ffn_hidden_size"),
)


@dataclass(frozen=True, slots=True)
class _NoOptions:
    """The options of a run without a framework."""


@cache
def size_names() -> frozenset[str]:
    """Return the names of the values that runs of every framework have, e.g. `world_size`.

    They are the keys of the result of `sizes` for a run without a framework.
    """
    parts = (Parallelism(), Batch(1, 1), Resources(), Training())
    return frozenset(sizes(Run("", "", None, *parts, options=_NoOptions())))


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    # dataclasses.fields() filters again at every call, which is slow for ten thousand runs.
    return tuple(item.name for item in fields(kind))
