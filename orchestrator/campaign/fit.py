"""Check whether a rank's memory and the machine's cores are sufficient for a run."""

from dataclasses import dataclass, replace

from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.gpus import compute_capability, memory_gib
from orchestrator.hardware.machine import (
    cores,
    host_memory_gib,
    oversubscription_problem,
    visible_gpus,
)
from orchestrator.memory.forecast import MemoryForecast, forecast
from orchestrator.run.model import Run

_NAMED_PARTS = 3


@dataclass(frozen=True, slots=True)
class Capacity:
    """The memory available to a rank, in GiB, and the device that has it."""

    gib: float
    owner: str


def run_forecast(run: Run, cluster: Cluster) -> MemoryForecast | None:
    """Return the memory forecast of a rank; None if the model or framework has no forecast.

    On a cluster without GPUs, this is a forecast of the host's memory. If the cluster's GPU is too
    old for the framework's fused attention, the forecast includes the memory of the attention
    scores.
    """
    placement = FRAMEWORKS[run.framework].model.placement(run)
    if placement is None:
        return None
    if placement.fused_since is not None and cluster.gpu is not None:
        has = compute_capability(cluster.gpu)
        if has is not None and has < placement.fused_since:
            placement = replace(placement, fused_attention=False)
    return forecast(run, placement, gpu=cluster.has_gpus)


def capacity(run: Run, cluster: Cluster) -> Capacity | None:
    """Return the memory that one rank of a run can use.

    With GPUs, this is the memory of the rank's GPU. On this machine's cores, it is the memory of
    this machine divided by the number of ranks. Returns None if the memory of the cluster's GPU is
    not known. Also returns None if the cluster has no GPUs and its nodes are not this machine.
    """
    if cluster.has_gpus:
        gib = cluster.gpu_memory_gib or (cluster.gpu and memory_gib(cluster.gpu).value)
        return Capacity(gib, cluster.gpu or "the GPU") if gib else None
    if cluster.scheduler != "local":
        return None
    ranks = run.resources.gpus_per_node
    owner = "this machine" if ranks == 1 else f"each of {ranks} ranks on this machine"
    return Capacity(host_memory_gib() / ranks, owner)


def gib(number: float) -> str:
    """Format a number of GiB with three digits, or as an integer if it is 100 or more."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def fits(forecast: MemoryForecast | None, room: Capacity | None) -> str | None:
    """Return whether a memory forecast fits into a capacity: `yes`, `no` or `maybe`.

    `yes`: the high end fits, and the model has no parts of unknown size. `no`: not even the low end
    fits. `maybe`: all other cases. Returns None if the forecast or the capacity is None.
    """
    if forecast is None or room is None:
        return None
    if forecast.high_gib <= room.gib and not forecast.is_open:
        return "yes"
    return "no" if forecast.low_gib > room.gib else "maybe"


def memory_problem(forecast: MemoryForecast | None, room: Capacity | None) -> str | None:
    """Return why a run will not fit into memory, with the largest parts of its forecast.

    Returns None if the run fits or may fit, or if its forecast or the capacity is not known.
    """
    if forecast is None or room is None or fits(forecast, room) != "no":
        return None
    largest = sorted(forecast.parts, key=lambda part: part.low_gib, reverse=True)[:_NAMED_PARTS]
    named = ", ".join(f"{part.name} {gib(part.low_gib)}" for part in largest if part.low_gib)
    return (
        f"a rank needs at least {gib(forecast.low_gib)} GiB of memory ({named}), but "
        f"{room.owner} has {gib(room.gib)}; to start the run anyway, use submit --force"
    )


def core_problem(run: Run, cluster: Cluster) -> str | None:
    """Return why this machine has too few cores for the ranks of a run; None if it has enough.

    Also None if runs start on another machine, or if they use GPUs of this machine.
    """
    if cluster.scheduler != "local" or (cluster.has_gpus and visible_gpus()):
        return None
    return oversubscription_problem(run.resources.gpus_per_node, cores())
