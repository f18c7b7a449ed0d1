"""Set up and end the process of a rank: environment, device, settings, exit."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from typing import Any, NoReturn

import torch

from .settings import Settings, SettingsError


def set_rank_environment() -> None:
    """Set the environment variables of torch.distributed, e.g. RANK, if no launcher has set them.

    In a Slurm task, their values come from Slurm's variables. Otherwise, this process becomes the
    only rank. Raises SettingsError if the host of rank 0 cannot be found.
    """
    env = os.environ
    if "RANK" in env:
        return
    if "SLURM_PROCID" not in env or "SLURM_NTASKS" not in env:
        env.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # 0: any free port
        return
    env.update(RANK=env["SLURM_PROCID"], WORLD_SIZE=env["SLURM_NTASKS"])
    env["LOCAL_RANK"] = env["SLURM_LOCALID"]
    if "MASTER_PORT" not in env:  # another port for each job, below the ephemeral ones
        env["MASTER_PORT"] = str(20_000 + int(env["SLURM_JOB_ID"]) % 10_000)
    if "MASTER_ADDR" not in env:
        command = ["scontrol", "show", "hostnames", env["SLURM_JOB_NODELIST"]]
        try:
            hosts = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            env["MASTER_ADDR"] = hosts.split()[0]
        except (OSError, subprocess.CalledProcessError, IndexError) as error:
            sentence = (
                f"`{' '.join(command)}` names no host ({error}); set MASTER_ADDR to the host of "
                "rank 0"
            )
            raise SettingsError(sentence) from error


def select_device(settings: Settings) -> torch.device:
    """Return the device on which this rank trains: its GPU, or the CPU.

    Raises SettingsError if the settings require a GPU and there is none, or if this rank would
    train in fp16 on the CPU.
    """
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("--device cuda: torch finds no CUDA device here; try --device cpu")
    if settings.device == "cpu" or not torch.cuda.is_available():
        if settings.precision == "fp16":
            raise SettingsError(
                "--precision fp16 does not train on the CPU; try bf16, fp32 or a GPU"
            )
        return torch.device("cpu")
    # Slurm may show each task only its own GPU. This GPU has number 0, whatever the local rank is.
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    os.environ["LOCAL_RANK"] = str(index)  # DeepSpeed reads the number of the GPU here
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def load_module(module: str, otherwise: str) -> Any:
    """Import and return a module.

    Raises SettingsError with the message `otherwise` if the module is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise SettingsError(otherwise) from error


def print_settings_error(program: str, error: SettingsError) -> int:
    """Print the message of a mistake of the user, on rank 0 only; return exit code 1.

    Other ranks wait 5 seconds, because the launcher may stop all ranks after the first exit.
    """
    if os.environ["RANK"] == "0":
        print(f"{program}: {error}", file=sys.stderr)
    else:
        time.sleep(5)  # so that rank 0 can print the message before the launcher stops it
    return 1


def leave(exit_code: int) -> NoReturn:
    """End the process immediately with an exit code.

    sys.exit is not used: with it, some DeepSpeed runs aborted after their work was done, when the
    interpreter ended ("terminate called without an active exception").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
