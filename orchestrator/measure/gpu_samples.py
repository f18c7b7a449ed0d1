"""Read nvidia-smi's samples of a run's GPUs, which are next to the run's log."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parsers.formats.nvidia_smi import NVIDIA_SMI_CSV
from parsers.records import Record, Usage
from parsers.scan.reader import read_records

# One file per node; the template sample_gpus.sh.j2 gives these names.
PATTERN = "gpus-*.csv"


@dataclass(frozen=True, slots=True)
class GpuSamples:
    """GPU memory and use over all devices of a run, on all its nodes; absent values are None.

    memory_gib: the highest memory use of one device, including the driver and other programs.
    utilization_percent: the median of the samples of all devices. For each device, samples before
        the first use and after the last use of the device are left out. This idle time would lower
        the median of a short run.
    """

    memory_gib: float | None
    utilization_percent: float | None

    def show_training(self, peak_gib: float | None) -> bool:
        """Return whether nvidia-smi saw the GPUs while the run trained.

        peak_gib: the highest memory that the program itself logged for one device; None if it
            logged none. A program keeps the memory of its peak until it ends. If nvidia-smi shows
            less, its last sample was before the training, as in a run of a second.
        """
        return peak_gib is None or self.memory_gib is None or self.memory_gib >= peak_gib


def read_gpu_samples(folder: Path) -> GpuSamples | None:
    """Return the GPU samples in the folder of an attempt; None if the folder has none."""
    devices = [
        device
        for path in sorted(folder.glob(PATTERN))
        for device in by_device(read_records(path, (NVIDIA_SMI_CSV,), complete=False))
    ]
    if not devices:
        return None
    memory = [sample.memory_allocated_gib for device in devices for sample in device]
    return GpuSamples(
        memory_gib=max((gib for gib in memory if gib is not None), default=None),
        utilization_percent=utilization_percent(devices),
    )


def by_device(records: Iterable[Record]) -> Iterable[Sequence[Usage]]:
    """Return one list of samples per device, from the records of one node."""
    samples: dict[int | None, list[Usage]] = {}
    for record in records:
        if isinstance(record, Usage):
            samples.setdefault(record.device, []).append(record)
    return samples.values()


def utilization_percent(devices: Iterable[Sequence[Usage]]) -> float | None:
    """Return the median use of devices in percent; None if no sample is busy.

    A sample is busy if its use is above 0. For each device, samples before its first busy sample
    and after its last busy sample are left out.
    """
    busy = [percent for device in devices for percent in _while_busy(device)]
    return statistics.median(busy) if busy else None


def _while_busy(samples: Sequence[Usage]) -> Sequence[float]:
    percents = [sample.gpu_utilization_percent for sample in samples]
    known_percents = [percent for percent in percents if percent is not None]
    busy = [number for number, percent in enumerate(known_percents) if percent]
    return known_percents[busy[0] : busy[-1] + 1] if busy else []
