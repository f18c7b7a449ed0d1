"""Columns of a report that show how a run used its GPUs.

The values are from samples of nvidia-smi, in a file next to the run's log or in the log itself. The
log of OneFlow's benchmark can also contain its own samples.
"""

from orchestrator.common.tables import Column
from orchestrator.frameworks.base import Logged
from orchestrator.measure.gpu_samples import by_device, utilization_percent
from parsers.formats.nvidia_smi import NVIDIA_SMI_CSV, NVIDIA_SMI_MEMORY_CSV
from parsers.records import Usage, UsageSource

GPU_SAMPLES = (NVIDIA_SMI_CSV, NVIDIA_SMI_MEMORY_CSV)

_OF_DEVICES = (UsageSource.NVIDIA_SMI, UsageSource.ONEFLOW)


def peak_mib(logged: Logged) -> int | None:
    """Return the highest memory use of any GPU in any sample, in MiB; None if no sample exists."""
    beside = logged.summary.device_memory_gib
    used = [] if beside is None else [beside]
    used += [
        gib
        for sample in _samples(logged)
        for gib in (sample.memory_allocated_gib, sample.max_memory_allocated_gib)
        if gib is not None
    ]
    return round(max(used) * 1024) if used else None


def busy_percent(logged: Logged) -> float | None:
    """Return the median utilization of a run's GPUs in percent; None if it is not known.

    A sample is busy if its utilization is above 0. For each GPU, samples before its first busy
    sample and after its last busy sample are left out.
    """
    if logged.summary.gpu_utilization_percent is not None:
        return logged.summary.gpu_utilization_percent
    return utilization_percent(by_device(_samples(logged)))


def _samples(logged: Logged) -> list[Usage]:
    return [
        record
        for record in logged.records
        if isinstance(record, Usage) and record.source in _OF_DEVICES
    ]


GPU_MEMORY: Column[Logged] = Column("gpu_mem (MiB)", "gpu_memory_mib", peak_mib)
GPU_USE: Column[Logged] = Column("gpu_util (%)", "gpu_utilization_percent", busy_percent)
