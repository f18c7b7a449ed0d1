"""Print the reports of a training program: speed, loss and memory, by rank 0 on stdout.

A report is a line at the start, after each iteration, or at the end. The lines have exactly this
form. On CUDA, `device` is the GPU's name. The first line ends with the versions of the packages
that the program uses:

    [teralog] start | strategy zero2 | world_size 2 | backend gloo | device cpu | precision fp32 | \
parameters 136960 | torch 2.13.0+cpu | deepspeed 0.19.8
    [teralog] iteration 3/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss 6.238123 | \
memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402
    [teralog] finished | iterations 20 | train_seconds 1.234567 | final_loss 6.238123 | \
max_memory_allocated_gib 0.402

If DeepSpeed itself prints the time of each iteration, the line after an iteration is shorter:

    [teralog] iteration 3/20 | loss 6.238123 | mean over ranks

`samples_per_second` is the global batch divided by `step_seconds`. A loss is the mean over ranks
and micro-batches, and may be nan or inf. Memory is that of rank 0: on CUDA the memory of torch's
allocator, on the CPU the resident set of the process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from .settings import Settings


def memory_in_use_gib(device: torch.device) -> tuple[float, float]:
    """Return two numbers in GiB: the memory that this process uses now, and its peak.

    On CUDA, both are from torch's allocator. On the CPU, both are from the kernel: VmRSS and
    VmHWM. The peak of getrusage is not used, because it would include the parent process.
    """
    if device.type == "cuda":
        used, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
        return used / 2**30, peak / 2**30
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kib = dict(line.split(":", 1) for line in status.splitlines())
    return int(kib["VmRSS"].split()[0]) / 2**20, int(kib["VmHWM"].split()[0]) / 2**20


def print_line(line: str) -> None:
    """Print `[teralog]` and a line, on rank 0 only.

    The line is written in one call, so that the output of other ranks cannot split it.
    """
    if dist.get_rank() == 0:
        sys.stdout.write(f"[teralog] {line}\n")
        sys.stdout.flush()


def report_start(
    settings: Settings, device: torch.device, model: nn.Module, versions: Mapping[str, str]
) -> None:
    """Print the report of the start: the settings, the number of parameters and the versions.

    versions: the version of each package other than torch, by name.
    """
    # ZeRO-3 leaves a partitioned weight empty and keeps its size in ds_numel.
    parameters = sum(getattr(weight, "ds_numel", weight.numel()) for weight in model.parameters())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    packages = {"torch": torch.__version__, **versions}
    print_line(
        f"start | strategy {settings.strategy} | world_size {dist.get_world_size()}"
        f" | backend {dist.get_backend()} | device {name} | precision {settings.precision}"
        f" | parameters {parameters}"
        + "".join(f" | {package} {version}" for package, version in packages.items())
    )


def report_iteration(
    settings: Settings, device: torch.device, iteration: int, step_seconds: float, loss: float
) -> None:
    """Print the report of a completed iteration: its time, loss and memory."""
    global_batch_size = settings.micro_batch_size * settings.num_microbatches
    global_batch_size *= dist.get_world_size()
    used, peak = memory_in_use_gib(device)
    print_line(
        f"iteration {iteration}/{settings.train_iters} | step_seconds {step_seconds:.6f}"
        f" | samples_per_second {global_batch_size / step_seconds:.2f} | loss {loss:.6f}"
        f" | memory_allocated_gib {used:.3f} | max_memory_allocated_gib {peak:.3f}"
    )


def report_loss(settings: Settings, iteration: int, loss: float) -> None:
    """Print only the loss of an iteration, because DeepSpeed itself prints the iteration's time."""
    print_line(f"iteration {iteration}/{settings.train_iters} | loss {loss:.6f} | mean over ranks")


def report_end(settings: Settings, device: torch.device, train_seconds: float, loss: float) -> None:
    """Print the report of the end, after all iterations; `loss` is that of the last iteration."""
    print_line(
        f"finished | iterations {settings.train_iters} | train_seconds {train_seconds:.6f}"
        f" | final_loss {loss:.6f} | max_memory_allocated_gib {memory_in_use_gib(device)[1]:.3f}"
    )


def clock(device: torch.device) -> float:
    """Wait until the device has completed its queued work, and return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
