"""Examine this machine: its GPUs, its memory and its cores."""

import os
import re
from itertools import takewhile
from pathlib import Path

from orchestrator.common.text import counted

_GPU_DEVICE = re.compile(r"nvidia(\d+)")
_GPU_NAME = re.compile(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+")


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES.

    If the variable is set, only its entries before the first invalid entry count, as in CUDA.
    For example, `0,1,-1,2` means GPUs 0 and 1. If the variable is not set, the GPUs come from
    the device files of the driver. The function calls neither the driver nor a library, so it
    is fast.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = (part.strip() for part in chosen.split(","))
        return tuple(takewhile(_GPU_NAME.fullmatch, names))
    numbers = (_GPU_DEVICE.fullmatch(entry.name) for entry in Path("/dev").glob("nvidia*"))
    return tuple(str(number) for number in sorted(int(match[1]) for match in numbers if match))


def host_memory_gib() -> float:
    """Return the total memory of this machine, in GiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def oversubscription_problem(ranks: int, core_count: int) -> str | None:
    """Return why this machine has too few cores for this number of ranks; None if it has enough.

    TERALOG_OVERSUBSCRIBE=1 allows any number.
    """
    if ranks <= core_count or os.environ.get("TERALOG_OVERSUBSCRIBE", "0") not in ("", "0"):
        return None
    return (
        f"gpus_per_node={ranks} starts {ranks} ranks, and this machine has "
        f"{counted(core_count, 'core')}: step times would be useless; lower gpus_per_node, or "
        "pass --oversubscribe to start such runs anyway"
    )
