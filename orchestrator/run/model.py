"""Define a run: frozen values that hold what was chosen; derived sizes are properties."""

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
    """How one copy of the model is split over ranks, and a sequence over copies of the weights.

    `contradicted_data_parallel_size` is a number of copies that was given, and that the ranks do
    not make. `asked` is the split that was given, if the program trains with a smaller one.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1
    contradicted_data_parallel_size: int | None = None
    asked: "Parallelism | None" = None

    @property
    def given(self) -> "Parallelism":
        """The split as it was given, which the program's command line has."""
        return self.asked or self

    @property
    def ranks_per_replica(self) -> int:
        """Number of ranks that take a sequence through the model together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences per rank and pass, and per optimizer step.

    `global_batch_size` is None where the sizes chosen leave it undetermined.
    `contradicted_num_microbatches` is a number of micro-batches that was given beside it and does
    not make it.
    """

    micro_batch_size: int
    global_batch_size: int | None
    contradicted_num_microbatches: int | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What is asked of the machine; the time limit is no part of a run's identity.

    sbatch, srun: further options of these commands, which may change how fast a run is.
    """

    nodes: int = 1
    gpus_per_node: int = 1
    time_limit_seconds: int = field(default=1800, metadata={"identity": False})
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """Number of ranks: one a GPU, or one a process where there is no GPU."""
        return self.nodes * self.gpus_per_node

    @property
    def gpu_hours(self) -> float:
        """GPU-hours asked for: every GPU for the whole time limit."""
        return self.world_size * self.time_limit_seconds / 3600


@dataclass(frozen=True, slots=True)
class Training:
    """How the model is trained, whatever the framework."""

    train_iters: int = 20
    precision: Precision = DEFAULT_PRECISION
    activation_checkpointing: bool = False
    learning_rate: float = DEFAULT_LEARNING_RATE
    seed: int = DEFAULT_SEED


@dataclass(frozen=True, slots=True)
class Run:
    """One training to be measured. `options` is the frozen dataclass of its framework.

    `model` is None where a user's own script is run whose shape is not known; `model_name` is the
    preset it was chosen by, for people.
    `vocab_size_multiple` is what the framework pads the vocabulary to, per tensor-parallel rank.
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

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.resources.world_size

    @property
    def data_parallel_size(self) -> int | None:
        """Number of copies of the model, or None where the ranks do not divide into copies."""
        copies, rest = divmod(self.world_size, self.parallelism.ranks_per_replica)
        return copies if copies and not rest else None

    @property
    def num_microbatches(self) -> int | None:
        """Micro-batches per optimizer step and rank, or None where the batch does not divide.

        The same number is called gradient accumulation steps by DeepSpeed, and chunks by those
        who think in pipelines.
        """
        if self.data_parallel_size is None or self.batch.global_batch_size is None:
            return None
        per_pass = self.batch.micro_batch_size * self.data_parallel_size
        count, rest = divmod(self.batch.global_batch_size, per_pass)
        return count if count and not rest else None

    @property
    def padded_vocab_size(self) -> int | None:
        """The vocabulary rounded up to a multiple of what the framework pads to."""
        if self.model is None:
            return None
        multiple = self.vocab_size_multiple * self.parallelism.tensor_parallel_size
        return padded_vocab_size(self.model.vocab_size, multiple)

    @property
    def parameters(self) -> int | None:
        """Number of trained parameters, padded vocabulary included."""
        if self.model is None or self.padded_vocab_size is None:
            return None
        return self.model.parameters(self.padded_vocab_size)

    @property
    def zero_stage(self) -> int | None:
        """ZeRO stage (0 to 3) as the options have it, or None where the framework has no ZeRO."""
        stage: int | None = getattr(self.options, "zero_stage", None)
        return stage


def sizes(run: Run) -> dict[str, Any]:
    """Return every chosen and derived size of a run by name, flat, as JSON and expressions see it.

    Absent is None. `parameters_billions` counts in 10**9; `gpu_hours` is what is asked for.
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


@dataclass(frozen=True, slots=True)
class _NoOptions:
    """Stands for a framework's options where there is none."""


@cache
def size_names() -> frozenset[str]:
    """Return the names `sizes` gives whatever the framework."""
    parts = (Parallelism(), Batch(1, 1), Resources(), Training())
    return frozenset(sizes(Run("", "", None, *parts, options=_NoOptions())))


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    # dataclasses.fields() filters anew at every call, which ten thousand runs feel.
    return tuple(item.name for item in fields(kind))
