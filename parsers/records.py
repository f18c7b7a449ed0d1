"""The types of records, i.e. of the facts that teralog reads from a log.

An absent value is None. A loss of nan or inf is kept as a float. An `offset` is the byte of
the log at which a line starts. GiB is 2**30 bytes.
"""

import copyreg
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, get_args


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step report; a value that its line does not contain is None.

    iteration: number of the iteration, from 0 or 1, as the program counts.
    iterations: the number of iterations of the run.
    step_seconds: duration of an iteration, or the mean over several.
    log_interval: the number of iterations, up to this one, over which `step_seconds` is the mean.
        It is 1 if a program times each iteration separately. If the line alone does not show it,
        `merged_steps` computes it from the reports before and after.
    samples_per_second, tokens_per_second: of this report, over all ranks.
    running_samples_per_second: mean since the program's own warm-up, over all ranks.
    running_step_seconds: mean step time since the program's own warm-up, as printed.
    consumed_samples, consumed_tokens: since the beginning of training.
    global_batch_size, tokens: sequences per iteration, and tokens per iteration, over all ranks.
    loss: may be nan or inf. learning_rate, loss_scale, grad_norm: as printed.
    skipped: how many updates were skipped so far, mostly because gradients overflowed (DeepSpeed).
    skipped_iterations, nan_iterations: how many iterations since the previous report
        skipped their update, and how many had a loss of nan or inf (Megatron).
    tokens_per_second_per_gpu: like tokens_per_second, but per rank.
    train_seconds: seconds since the training began.
    nominal_step_seconds: seconds since the previous report, divided by the log interval, even if
        the report covers fewer iterations. Then it is not the time of a step (torchtitan).
    reported_tflops_per_gpu, reported_mfu: claims of the program; the MFU is a fraction of 1.
    memory_allocated_gib, max_memory_allocated_gib: memory allocated on the reporting
        rank, now and at its peak.
    max_memory_reserved_gib: the most memory that this rank's allocator has reserved.
    energy_joules_per_gpu, power_watts_per_gpu: energy of an iteration, and
        its mean power; both are means over GPUs.
    timestamp: ISO 8601, in the log's own time zone, which is unknown.
    end_to_end: True if the report is about the whole iteration of a program with several engines,
        each of which may also report its own part.
    covered: True if the report is a mean over iterations, up to this one, that other reports cover,
        too.
    unnumbered: True if the line does not contain the iteration. Then `iteration` is the number of
        the report in its launch, from 1. If the line contains a number of samples or of tokens,
        `iteration` is this number until all reports of the launch are known.
    offset: byte at which the line starts.
    """

    iteration: int
    iterations: int | None = None
    step_seconds: float | None = None
    log_interval: int | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    running_samples_per_second: float | None = None
    running_step_seconds: float | None = None
    consumed_samples: int | None = None
    consumed_tokens: int | None = None
    global_batch_size: int | None = None
    tokens: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    loss_scale: float | None = None
    grad_norm: float | None = None
    skipped: int | None = None
    skipped_iterations: int | None = None
    nan_iterations: int | None = None
    tokens_per_second_per_gpu: float | None = None
    train_seconds: float | None = None
    nominal_step_seconds: float | None = None
    reported_tflops_per_gpu: float | None = None
    reported_mfu: float | None = None
    memory_allocated_gib: float | None = None
    max_memory_allocated_gib: float | None = None
    max_memory_reserved_gib: float | None = None
    energy_joules_per_gpu: float | None = None
    power_watts_per_gpu: float | None = None
    timestamp: str | None = None
    end_to_end: bool | None = None
    covered: bool | None = None
    unnumbered: bool | None = None
    offset: int

    @property
    def has_finite_loss(self) -> bool:
        """False if the loss is nan or inf."""
        return has_finite_loss(
            self.loss, self.nan_iterations, self.skipped_iterations, self.grad_norm
        )


COUNT_FIELDS = frozenset(field.name for field in fields(Step) if field.type in {int, int | None})
"""The fields of `Step` that are integers."""
NOT_FINITE_FIELDS = frozenset({"loss", "grad_norm"})
"""The fields of `Step` that may be nan or inf."""


def has_finite_loss(
    loss: float | None,
    nan_iterations: int | None,
    skipped_iterations: int | None,
    grad_norm: float | None,
) -> bool:
    """Return False if a step report shows that its loss is nan or inf, otherwise True.

    Megatron does not print a loss of nan or inf. It counts such losses as `nan_iterations`, but
    only in iterations that skip their update. If no update is skipped, a gradient norm of nan shows
    that the loss is nan.
    """
    if loss is not None:
        return math.isfinite(loss)
    lost = skipped_iterations == 0 and grad_norm is not None and math.isnan(grad_norm)
    return not (nan_iterations or lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """A report of the training that does not contain the iteration number, only an epoch.

    epoch: with decimals, e.g. 0.31. loss: may be nan or inf. learning_rate, grad_norm: as printed.
    The other fields have the same meaning as in `Step`.
    """

    epoch: float
    loss: float
    learning_rate: float | None = None
    grad_norm: float | None = None
    tokens_per_second_per_gpu: float | None = None
    max_memory_allocated_gib: float | None = None
    max_memory_reserved_gib: float | None = None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A step report with a rate in samples or in tokens per second: the log does not show which.

    The global batch size shows it, see `parsers.steps.units`.
    iteration: a number of samples or of tokens. rate: over all ranks.
    """

    iteration: int
    rate: float
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedStep:
    """An update of the weights that was skipped because its gradients overflowed.

    The lines that report it do not contain the iteration.

    rank: the process that reports it; several may report the same step.
    loss_scale: the factor by which the loss of this step was multiplied.
    reduced_to: the factor for the next steps; None if it does not change, or if the line
        does not contain it.
    """

    rank: int | None = None
    loss_scale: float | None = None
    reduced_to: float | None = None
    offset: int


class UsageSource(StrEnum):
    """The names of the programs that report memory, or how busy a GPU is."""

    TORCH = "torch"  # its allocator, of one process
    DEEPSPEED = "deepspeed"  # likewise, and the node's memory
    ONEFLOW = "oneflow"  # the whole device, sampled while its benchmark runs
    NVIDIA_SMI = "nvidia-smi"  # the whole device


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One report of memory, or of how busy a GPU is.

    source: the program that reports it.
    rank: the process that reports. device: the GPU's index on its node. Both may be
    unknown.
    memory_*_gib, max_memory_*_gib: the memory now, and its peak. From nvidia-smi and
        OneFlow it is the memory of the whole device. From other programs it is the memory
        of torch's allocator: "allocated" is held by tensors, "reserved" is held by the
        allocator.
    host_memory_gib: memory of the node that is in use.
    gpu_utilization_percent: 0 to 100.
    """

    source: UsageSource
    iteration: int | None = None
    rank: int | None = None
    device: int | None = None
    memory_allocated_gib: float | None = None
    max_memory_allocated_gib: float | None = None
    memory_reserved_gib: float | None = None
    max_memory_reserved_gib: float | None = None
    host_memory_gib: float | None = None
    gpu_utilization_percent: float | None = None
    timestamp: str | None = None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """The durations of parts of an iteration: (name, seconds) pairs in the order of the log.

    If the log contains times of several ranks, each duration is that of the slowest rank.
    """

    seconds: tuple[tuple[str, float], ...]
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value of the run's configuration in the log, as text: `hidden_size` is `8192`.

    source: where it appears: "arguments" (the program's own dump), "echo" (`set -x` of the
        script), "report" (a sentence of the program), "host" (the name of a host or GPU).
    """

    name: str
    value: str
    source: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """The content of a line about a whole run: its set-up, or its results.

    strategy, world_size, backend, device, precision, parameters: the set-up. parameters are those
        of the whole model; device is a GPU's name or `cpu`.
    versions: (package, version) pairs, in the order of the line; may be empty.
    iterations, train_seconds: the seconds of the training loop, and how many iterations they
        include.
    last_iteration: the number of the last iteration. It is higher than `iterations` if the training
        continued from a checkpoint, or if the first iterations are not timed.
    step_seconds: the mean step time over the whole run, as printed. In modded-nanogpt's track 3,
        it is the mean since the previous validation.
    samples_per_second, steps_per_second, tokens_per_second: over the whole run. If
        `per_gpu` is true, they are rates of one GPU, otherwise of all ranks.
    tflops_per_gpu: what the program claims.
    phase: to which part of the work the numbers belong, if a program reports several parts
        (ColossalAI: "make_experience", "learn", "overall").
    final_loss: of the last iteration. mean_loss: over the run. Both may be nan or inf.
    max_memory_allocated_gib: peak of the reporting rank.
    offset: byte at which the line starts.
    """

    strategy: str | None = None
    world_size: int | None = None
    backend: str | None = None
    device: str | None = None
    precision: str | None = None
    parameters: int | None = None
    versions: tuple[tuple[str, str], ...] = ()
    iterations: int | None = None
    train_seconds: float | None = None
    last_iteration: int | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None
    steps_per_second: float | None = None
    tokens_per_second: float | None = None
    per_gpu: bool = False
    tflops_per_gpu: float | None = None
    phase: str | None = None
    final_loss: float | None = None
    mean_loss: float | None = None
    max_memory_allocated_gib: float | None = None
    offset: int


Record = Step | LossReport | Throughput | SkippedStep | Usage | Timers | Setting | RunTotals


def _restored(kind: type[Any], *values: Any) -> Any:
    return kind(**dict(zip(kind.__slots__, values, strict=True)))


def _register(kind: type[Any]) -> None:
    # The default pickling of dataclasses takes five times as long.
    values = attrgetter(*kind.__slots__)
    copyreg.pickle(kind, lambda record: (_restored, (kind, *values(record))))


for _kind in get_args(Record):
    _register(_kind)


class OutcomeKind(StrEnum):
    """The ways in which a run can end, according to its log alone.

    A failed run may have usable numbers, too.
    """

    COMPLETED = "completed"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    NAN_LOSS = "nan_loss"  # the last loss is nan or inf, or the program gave up because of it
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    NODE_FAILURE = "node_failure"
    CANCELLED = "cancelled"
    COMMUNICATION_FAILURE = "communication_failure"  # of NCCL or the network, without another cause
    KILLED = "killed"  # without a line that says why: often the host's memory
    ERROR = "error"  # an exception, or a process that ended badly
    TRUNCATED = "truncated"  # the log of a run stops without an end
    UNKNOWN = "unknown"  # the log contains no output of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, and the line of the log that shows it.

    line: the number of this line, the first being 1; None if lines were not counted.
    offset: the byte at which the line starts.
    text: the line without rank prefix, progress bar and colours; None if no line shows how
        the run ended, and if the line was read together with others.
    requested_gib: how much memory the program asked for when it ran out of memory, if the
        line contains it.
    source: the name of the log that contains the line, if the run has several logs.
    """

    kind: OutcomeKind
    line: int | None = None
    offset: int | None = None
    text: str | None = None
    requested_gib: float | None = None
    source: str | None = None
