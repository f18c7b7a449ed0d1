"""Estimate the memory that a rank needs, part by part, as text and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.fit import Capacity, capacity, fits, gib
from orchestrator.common.errors import UserError
from orchestrator.common.fitted import fitted_text
from orchestrator.common.tables import Column, Style, Table, make_table
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import printable
from orchestrator.estimate.case import ESTIMATED_PRECISION, distinct, option_case
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.gpus import memory_sizes_gib
from orchestrator.memory.described import placed_experts
from orchestrator.memory.experts import ExpertPlacement
from orchestrator.memory.forecast import MemoryForecast, Part, forecast
from orchestrator.memory.placement import (
    Placement,
    bf16_optimizer_placement,
    deepspeed_placement,
    megatron_placement,
    recomputation,
)
from orchestrator.run.model import Batch, Parallelism, Resources, Run, Training
from orchestrator.run.shape import ModelShape

_SHORT = Style(digits=3)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The forecast of one run, and the memory available to a rank.

    rooms: the memory sizes that a rank may have: several if the GPU is sold with several memory
    sizes, and none if the memory size is not known.
    unknown: a message if the user named a GPU whose memory size is not known; otherwise None.
    """

    label: str
    forecast: MemoryForecast
    rooms: tuple[Capacity, ...]
    unknown: str | None = None

    @property
    def verdicts(self) -> list[str]:
        """Whether the run fits into memory: a list of texts, `yes`, `maybe` or `no`.

        The list has one text if the verdict is the same for every possible memory size of the GPU.
        Otherwise it has a text per size, e.g. `no with 40 GiB`. It is empty if no size is known.
        """
        verdicts = [str(fits(self.forecast, room)) for room in self.rooms]
        if len({*verdicts}) < 2:
            return verdicts[:1]
        pairs = zip(self.rooms, verdicts, strict=True)
        return [f"{verdict} with {gib(room.gib)} GiB" for room, verdict in pairs]


_PARTS: tuple[Column[Part], ...] = (
    Column("part", "part", lambda part: part.name),
    Column("low (GiB)", "low_gib", lambda part: part.low_gib, _SHORT),
    Column("high (GiB)", "high_gib", lambda part: part.high_gib, _SHORT),
    Column("why", "why", lambda part: part.why),
)
_ESTIMATES: tuple[Column[MemoryEstimate], ...] = (
    Column("run", "label", lambda row: row.label),
    Column("low (GiB)", "low_gib", lambda row: row.forecast.low_gib, _SHORT),
    Column("high (GiB)", "high_gib", lambda row: row.forecast.high_gib, _SHORT),
    Column("fits", "fits", lambda row: ", ".join(row.verdicts) or None),
)


def campaign_estimates(campaign: Campaign) -> list[MemoryEstimate]:
    """Return an estimate for each run with a memory forecast.

    Raises UserError if no run has a forecast.
    """
    estimates = [
        MemoryEstimate(planned.label, planned.memory, _run_rooms(planned.run, campaign.cluster))
        for planned in campaign.runs
        if planned.memory is not None
    ]
    if not estimates:
        raise UserError(f"{campaign.path}: none of its runs has a memory forecast")
    return estimates


def memory_estimate(values: Mapping[str, Any]) -> MemoryEstimate:
    """Return the memory estimate for the options of `teralog estimate memory`.

    values: the value of each option by the option's name; None if the option was not given.

    Without a ZeRO stage, the estimate assumes that weights, gradients and optimizer states are
    placed as in Megatron. With a ZeRO stage, it assumes DeepSpeed with its default bucket
    sizes. Raises UserError if options are missing or contradictory.
    """
    case = option_case(values)
    run = Run(
        framework="",
        cluster="",
        model=case.model,
        parallelism=_parallelism(values),
        batch=Batch(values.get("micro_batch_size") or 1, None),
        resources=Resources(1, _world_size(values)),
        training=Training(precision=values.get("precision") or ESTIMATED_PRECISION),
        options=None,
        vocab_size_multiple=values.get("vocab_size_multiple") or 1,
    )
    count = (run.data_parallel_size or 0) * run.batch.micro_batch_size
    run = replace(
        run,
        batch=replace(
            run.batch, global_batch_size=count * (values.get("num_microbatches") or 1) or None
        ),
    )
    placement = replace(
        _placement(values, run.training.precision), experts=_experts(values, case.model)
    )
    memory = forecast(run, placement)
    if memory is None:
        raise UserError(
            f"--world-size {run.world_size} is not divisible by --tensor-parallel-size times "
            f"--pipeline-parallel-size, which is {run.parallelism.ranks_per_replica}"
        )
    name, given = values.get("gpu"), values.get("gpu_memory")
    if given is not None:
        return MemoryEstimate(case.label, memory, (Capacity(given, name or "a GPU"),))
    rooms = _gpu_rooms(name) if name else ()
    unknown = f"{name!r} is not in the table of GPUs; give --gpu-memory GIB"
    return MemoryEstimate(case.label, memory, rooms, unknown if name and not rooms else None)


def _run_rooms(run: Run, cluster: Cluster) -> tuple[Capacity, ...]:
    room = capacity(run, cluster)
    if room is not None:
        return (room,)
    return _gpu_rooms(cluster.gpu) if cluster.gpu else ()


def _gpu_rooms(name: str) -> tuple[Capacity, ...]:
    """Return the memory sizes with which the GPU called `name` is sold; empty if unknown."""
    return tuple(Capacity(size, name) for size in memory_sizes_gib(name))


def estimates_table(estimates: Sequence[MemoryEstimate]) -> Table:
    """Return a table of several estimates; for a single estimate, a table of its parts.

    A part is one use of memory, e.g. the weights. Runs that need the same memory share a row.
    """
    if len(estimates) > 1:
        return make_table(
            _ESTIMATES, distinct(estimates, lambda estimate: replace(estimate, label=""))
        )
    return make_table(_PARTS, estimates[0].forecast.parts)


def estimates_text(estimates: Sequence[MemoryEstimate]) -> str:
    """Return the table of several estimates as text, and below it the parts of each estimate.

    A part is one use of memory, e.g. the weights. Equal estimates appear once. For a single
    estimate, the text has only the table of its parts.
    """
    table = (
        [fitted_text(estimates_table(estimates), terminal_width())] if len(estimates) > 1 else []
    )
    different = distinct(estimates, lambda estimate: replace(estimate, label=""))
    return "\n\n".join([*table, *map(_parts_text, different)])


def estimate_record(estimate: MemoryEstimate) -> dict[str, Any]:
    """Return an estimate as a JSON object.

    `capacities` has each memory size that the GPU may have, with its verdict. `capacity_gib` is
    null if there are several sizes or if no size is known. `fits` is null if the sizes have
    different verdicts or if no size is known.
    """
    capacities = [
        {"gpu": room.owner, "gib": room.gib, "fits": fits(estimate.forecast, room)}
        for room in estimate.rooms
    ]
    verdicts = {capacity["fits"] for capacity in capacities}
    return {
        "label": estimate.label,
        **asdict(estimate.forecast),
        "capacity_gib": estimate.rooms[0].gib if len(estimate.rooms) == 1 else None,
        "fits": verdicts.pop() if len(verdicts) == 1 else None,
        "capacities": capacities,
    }


def _parts_text(estimate: MemoryEstimate) -> str:
    whole = estimate.forecast
    sentence = (
        f"the rank that needs the most memory needs {gib(whole.low_gib)} to {gib(whole.high_gib)} "
        "GiB"
    )
    if estimate.label:
        sentence = f"{estimate.label}: {sentence}"
    if estimate.rooms:
        sizes = " or ".join(gib(room.gib) for room in estimate.rooms)
        verdicts = ", ".join(estimate.verdicts)
        sentence += f"; {estimate.rooms[0].owner} has {sizes}; fits: {verdicts}"
    sentences = [printable(text) for text in (sentence, estimate.unknown) if text]
    return "\n".join(
        [fitted_text(make_table(_PARTS, whole.parts), terminal_width()), "", *sentences]
    )


def _parallelism(values: Mapping[str, Any]) -> Parallelism:
    return Parallelism(
        values.get("tensor_parallel_size") or 1, values.get("pipeline_parallel_size") or 1
    )


def _world_size(values: Mapping[str, Any]) -> int:
    given: int | None = values.get("world_size")
    return given or _parallelism(values).ranks_per_replica


def _experts(values: Mapping[str, Any], model: ModelShape) -> ExpertPlacement | None:
    """Return how the experts of a described model are divided over ranks; None without experts.

    `values` contains the options of the command. Raises UserError if
    `expert_parallel_size` is above 1 for a model without experts. Also raises UserError if this
    size does not divide the number of experts.
    """
    ranks: int | None = values.get("expert_parallel_size")
    tensor = values.get("tensor_parallel_size") or 1
    experts = (
        placed_experts(model.described, ranks=ranks or 1, tensor_ranks=tensor)
        if model.described
        else None
    )
    if ranks is None or ranks == 1:
        return experts
    if experts is None:
        raise UserError("--expert-parallel-size: the model has no experts; remove the option")
    if experts.number % ranks:
        raise UserError(
            f"--expert-parallel-size: {ranks} does not divide the {experts.number} experts"
        )
    return experts


def _states(precision: str, stage: int | None) -> Placement:
    if stage is None:
        return megatron_placement(precision)
    # The options do not show which of DeepSpeed's optimizers holds the bf16 weights.
    if precision == "bf16" and stage <= 1:
        return bf16_optimizer_placement(stage, sure=False)
    return deepspeed_placement(precision, stage)


def _placement(values: Mapping[str, Any], precision: str) -> Placement:
    stage: int | None = values.get("zero_stage")
    offloaded = [
        f"--offload-{what} needs --zero-stage {', '.join(map(str, stages))}"
        for what, stages in (("optimizer", (1, 2, 3)), ("parameters", (3,)))
        if values.get(f"offload_{what}") and stage not in stages
    ]
    if offloaded:
        raise UserError(*offloaded)
    return replace(
        _states(precision, stage),
        fused_attention=None,
        recomputation=recomputation(bool(values.get("activation_checkpointing"))),
        offload_optimizer=bool(values.get("offload_optimizer")),
        offload_parameters=bool(values.get("offload_parameters")),
    )
