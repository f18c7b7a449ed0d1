"""What a log says, as values: absent is None, a loss of nan or inf is a fact and kept as float.

An `offset` is the byte at which the line starts in its log. GiB is 2**30 bytes.
"""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One report about one iteration, holding only what its own line says.

    iteration: number of the iteration, counted as the line counts.
    iterations: how many the run is to do.
    step_seconds: duration of this iteration.
    samples_per_second: of this iteration, over all ranks.
    running_samples_per_second: mean since the program's own warm-up, over all ranks.
    loss: may be nan or inf.
    skipped: iterations left out so far, mostly for overflowing gradients.
    memory_allocated_gib, max_memory_allocated_gib: now and at the peak, of the reporting rank.
    offset: byte at which the line starts.
    """

    iteration: int
    iterations: int | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None
    running_samples_per_second: float | None = None
    loss: float | None = None
    skipped: int | None = None
    memory_allocated_gib: float | None = None
    max_memory_allocated_gib: float | None = None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """What a line says about a run as a whole: its set-up, or its sums.

    strategy, world_size, backend, device, precision, parameters: the set-up; parameters are
        those of the whole model, device is a GPU's name or `cpu`.
    versions: (package, version) pairs, in the order of the line; empty if it names none.
    iterations, train_seconds: how many were done, and the seconds of the whole training loop.
    final_loss: of the last iteration; may be nan or inf.
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
    final_loss: float | None = None
    max_memory_allocated_gib: float | None = None
    offset: int


Record = Step | RunTotals


class OutcomeKind(StrEnum):
    """How a run ended, as far as its log tells; says nothing on whether its numbers are of use."""

    COMPLETED = "completed"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    NAN_LOSS = "nan_loss"  # the last loss is nan or inf, or the program gave up for it
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    NODE_FAILURE = "node_failure"
    CANCELLED = "cancelled"
    KILLED = "killed"  # by signal 9, without a line that says why: often the host's memory
    TRACEBACK = "traceback"
    FAILED = "failed"  # a process ended badly, without a line that says why
    TRUNCATED = "truncated"  # the log stops without an end


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, and the line that says so.

    line: without rank prefix, progress bar and colours; None if no line says it.
    offset: byte at which that line starts.
    requested_gib: size of the allocation that failed, where a memory failure names it.
    """

    kind: OutcomeKind
    line: str | None = None
    offset: int | None = None
    requested_gib: float | None = None
