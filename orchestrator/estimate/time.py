"""Estimate how long a training takes, from tokens and speed or from iterations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.common.tables import EXACT, Column, Table, make_table
from orchestrator.estimate.case import Case, distinct, option_case
from orchestrator.run.flops import training_seconds

_DAY = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTraining:
    """The known values of a training; absent values are None.

    recomputed: whether the training uses activation checkpointing.
    """

    label: str = ""
    parameters: int | None = None
    recomputed: bool = False
    world_size: int | None = None
    train_iters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """The time that a training takes, and how it was computed.

    way: the values from which it was computed, e.g. `iterations`.
    formula: the formula in names or letters: T tokens, P parameters, n GPUs, X FLOP/s of a GPU.
    numbers: the same formula with numbers.
    """

    label: str
    way: str
    formula: str
    numbers: str
    seconds: float
    world_size: int | None

    @property
    def gpu_hours(self) -> float | None:
        """The hours of all GPUs together; None if the number of GPUs is not known."""
        return None if self.world_size is None else self.seconds / 3600 * self.world_size


_COLUMNS: tuple[Column[Duration], ...] = (
    Column("from", "way", lambda duration: duration.way),
    Column("days", "days", lambda duration: duration.seconds / _DAY, EXACT),
    Column("hours", "hours", lambda duration: duration.seconds / 3600, EXACT),
    Column("GPU-hours", "gpu_hours", lambda duration: duration.gpu_hours, EXACT),
)
_RUN: Column[Duration] = Column("run", "label", lambda duration: duration.label)


def case_training(case: Case) -> KnownTraining:
    """Return the known values of a case's training, e.g. its number of iterations."""
    return KnownTraining(
        label=case.label,
        parameters=case.parameters,
        recomputed=case.recomputed,
        world_size=case.world_size,
        train_iters=case.train_iters,
    )


def option_training(values: Mapping[str, Any]) -> KnownTraining:
    """Return the known values of the training that options describe.

    values: the value of each option by the option's name; None if the option was not given.
    Instead of a model, options may give only the number of `parameters`. Raises UserError if
    options give `parameters` and a model, or if some sizes of the model are given and others
    are missing.
    """
    others = {"parameters", "activation_checkpointing", "world_size", "train_iters"}
    parameters = values["parameters"]
    if any(value is not None for name, value in values.items() if name not in others):
        if parameters is not None:
            raise UserError("give --parameters or a model, not both")
        return case_training(option_case(values))
    return KnownTraining(
        parameters=parameters,
        recomputed=bool(values["activation_checkpointing"]),
        world_size=values["world_size"],
        train_iters=values["train_iters"],
    )


def durations(
    trainings: Sequence[KnownTraining],
    *,
    tokens: int | None,
    tflops_per_gpu: float | None,
    step_seconds: float | None,
) -> list[Duration]:
    """Return the durations of all trainings, each computed in one or two ways.

    - If `tokens` and `tflops_per_gpu` are given, a duration is computed from these two values, the
      number of parameters and the number of GPUs. `tflops_per_gpu` is the speed of a GPU, by
      BigScience's count of FLOPs.
    - If `step_seconds` is given, a duration is computed from this value and the number of
      iterations.

    Raises UserError if all three values are None, or if only one of `tokens` and `tflops_per_gpu`
    is given. Also raises UserError if a training lacks a value, e.g. its number of iterations.
    """
    if (tokens is None) != (tflops_per_gpu is None):
        raise UserError("--tokens and --tflops-per-gpu: give both, or neither")
    if tokens is None and step_seconds is None:
        raise UserError("give --tokens and --tflops-per-gpu, or --step-seconds, or all of them")
    results = []
    for training in trainings:
        if tokens is not None and tflops_per_gpu is not None:
            results.append(_of_tokens(training, tokens, tflops_per_gpu))
        if step_seconds is not None:
            results.append(_of_iterations(training, step_seconds))
    return results


def _of_tokens(training: KnownTraining, tokens: int, tflops_per_gpu: float) -> Duration:
    if training.parameters is None:
        raise UserError("the number of parameters is not known; give --parameters or a model")
    if training.world_size is None:
        raise UserError("the number of GPUs is not known; give --world-size")
    seconds = training_seconds(
        tokens=tokens,
        parameters=training.parameters,
        world_size=training.world_size,
        tflops_per_gpu=tflops_per_gpu,
        recomputed=training.recomputed,
    )
    factor = 8 if training.recomputed else 6
    numbers = f"{tokens}·{training.parameters} / ({training.world_size}·{tflops_per_gpu:g}e12)"
    return Duration(
        label=training.label,
        way=f"tokens, {'with' if training.recomputed else 'without'} recomputation",
        formula=f"{factor}·T·P / (n·X)",
        numbers=f"{factor}·{numbers}",
        seconds=seconds,
        world_size=training.world_size,
    )


def _of_iterations(training: KnownTraining, step_seconds: float) -> Duration:
    if training.train_iters is None:
        raise UserError("the number of iterations is not known; give --train-iters")
    return Duration(
        label=training.label,
        way="iterations",
        formula="train_iters·step_seconds",
        numbers=f"{training.train_iters}·{step_seconds:g}",
        seconds=training.train_iters * step_seconds,
        world_size=training.world_size,
    )


def durations_table(all_durations: Sequence[Duration]) -> Table:
    """Return the table of the durations; equal durations share a row."""
    several = len({duration.label for duration in all_durations}) > 1
    rows = distinct(all_durations, lambda duration: replace(duration, label=""))
    return make_table((*([_RUN] if several else []), *_COLUMNS), rows)


def derivations(all_durations: Sequence[Duration]) -> list[str]:
    """Return an empty line, and then the formula of each duration with its numbers and its result.

    Equal texts appear once.
    """
    derived = dict.fromkeys(
        f"{duration.formula} = {duration.numbers} = {duration.seconds:,.6g} s"
        for duration in all_durations
    )
    return ["", *derived]


def duration_record(duration: Duration) -> dict[str, Any]:
    """Return a duration as a JSON object."""
    return {
        "label": duration.label,
        "way": duration.way,
        "formula": duration.formula,
        "numbers": duration.numbers,
        "seconds": duration.seconds,
        "days": duration.seconds / _DAY,
        "gpu_hours": duration.gpu_hours,
    }
