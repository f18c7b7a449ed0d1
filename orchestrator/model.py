"""What a run is: frozen values that hold what was chosen; every derived size is a property."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a GPT: learned positions, biases, tied head, two-matrix MLP.

    `ffn_hidden_size` is the width of the MLP; None stands for the usual 4 * hidden_size.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    vocab_size: int
    seq_length: int
    ffn_hidden_size: int | None = None

    @property
    def ffn_width(self) -> int:
        """Width of the MLP's inner layer."""
        return self.ffn_hidden_size or 4 * self.hidden_size

    def parameters(self, padded_vocab_size: int) -> int:
        """Return the exact number of trained parameters.

        With h = hidden_size, f = ffn width, l = num_layers, s = seq_length, V = the vocabulary
        as padded: each layer holds the attention's four h*h matrices with biases (4h² + 4h), the
        MLP's two h*f matrices with biases (2hf + f + h) and two LayerNorms (4h). Around the layers
        stand the token embedding, shared with the head (Vh), the position embedding (sh) and the
        final LayerNorm (2h). With f = 4h this is l(12h² + 13h) + Vh + sh + 2h, which is what
        GPT2LMHeadModel of transformers counts (124,439,808 for GPT-2 small).
        """
        h, f = self.hidden_size, self.ffn_width
        layer = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h
        return self.num_layers * layer + padded_vocab_size * h + self.seq_length * h + 2 * h


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How one copy of the model is split over ranks."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1

    @property
    def ranks_per_replica(self) -> int:
        """Number of ranks that hold one copy of the model."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences per rank and pass, and per optimizer step.

    `global_batch_size` is None where the sizes chosen leave it undetermined.
    """

    micro_batch_size: int
    global_batch_size: int | None


@dataclass(frozen=True, slots=True)
class Resources:
    """What is asked of the machine; the time limit is no part of a run's identity."""

    nodes: int = 1
    gpus_per_node: int = 1
    time_limit_seconds: int = field(default=1800, metadata={"identity": False})

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
    precision: str = "fp32"
    activation_checkpointing: bool = False
    learning_rate: float = 1.5e-4
    seed: int = 1234


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
        return -(-self.model.vocab_size // multiple) * multiple

    @property
    def parameters(self) -> int | None:
        """Number of trained parameters, padded vocabulary included."""
        if self.model is None or self.padded_vocab_size is None:
            return None
        return self.model.parameters(self.padded_vocab_size)

    @property
    def zero_stage(self) -> int | None:
        """ZeRO stage (0 to 3), or None where ZeRO has no part in the run."""
        stage: int | None = getattr(self.options, "zero_stage", None)
        return stage


def sizes(run: Run) -> dict[str, Any]:
    """Return every chosen and derived size of a run by name, flat, as JSON and expressions see it.

    Absent is None. `parameters_billions` counts in 10**9; `gpu_hours` is what is asked for.
    """
    model, training, resources = run.model, run.training, run.resources
    parameters = run.parameters
    kind: type = type(run.options)
    options = {item.name: getattr(run.options, item.name) for item in _fields(kind)}
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
        "data_parallel_size": run.data_parallel_size,
        "micro_batch_size": run.batch.micro_batch_size,
        "num_microbatches": run.num_microbatches,
        "global_batch_size": run.batch.global_batch_size,
        "time_limit_seconds": resources.time_limit_seconds,
        "gpu_hours": resources.gpu_hours,
    }


@dataclass(frozen=True, slots=True)
class _NoOptions:
    """Stands for a framework's options where there is none."""


@cache
def size_names() -> frozenset[str]:
    """Return the names `sizes` gives whatever the framework."""
    parts = (Parallelism(), Batch(1, 1), Resources(), Training())
    return frozenset(sizes(Run("", "", None, *parts, options=_NoOptions())))


def run_id(run: Run) -> str:
    """Return a run's identity: 12 hexadecimal digits of a hash over its parameters.

    Only what differs from a built-in default is hashed, so that a parameter added to a later
    version leaves the identity of older runs alone.
    """
    text = json.dumps(_differing(run), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _differing(value: Any) -> dict[str, Any]:
    kind: type = type(value)
    chosen: dict[str, Any] = {}
    for item in _fields(kind):
        part = getattr(value, item.name)
        if dataclasses.is_dataclass(part):
            part = _differing(part)
            if not part:
                continue
        elif part == _default(item):
            continue
        chosen[item.name] = part
    return chosen


@cache
def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    # dataclasses.fields() filters anew at every call, which ten thousand runs feel.
    return tuple(item for item in dataclasses.fields(kind) if item.metadata.get("identity", True))


def _default(item: "dataclasses.Field[Any]") -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default
