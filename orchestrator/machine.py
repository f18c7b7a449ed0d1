"""This machine, as far as a run cares: its GPUs, its cores."""

import os
import re
from pathlib import Path

_GPU_DEVICE = re.compile(r"nvidia(\d+)")


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs this process may use, as CUDA_VISIBLE_DEVICES would name them.

    Read from the variable where it is set, else from the driver's device files: no driver call, so
    it costs nothing and needs no library.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1"))
    numbers = (_GPU_DEVICE.fullmatch(entry.name) for entry in Path("/dev").glob("nvidia*"))
    return tuple(str(number) for number in sorted(int(match[1]) for match in numbers if match))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
