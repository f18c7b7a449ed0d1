"""Train a GPT on dummy tokens with PyTorch DDP or DeepSpeed ZeRO, and report its speed.

The program needs torch, DeepSpeed if the strategy is zero*, and the files next to it. So this
folder can be copied to another machine and used alone. There are four ways to start it, each
followed by the arguments that --help lists:

    python -m torch.distributed.run --standalone --nproc_per_node 2 -m teralog.gpt
    deepspeed --num_gpus 2 --module teralog.gpt
    srun --ntasks 2 python -m teralog.gpt    (ranks from the SLURM_* variables)
    python -m teralog.gpt                    (one process)

Rank 0 reports on stdout, in lines that reporting.py describes. It reports the time of each
iteration only with ddp, because DeepSpeed prints its own timer lines. `step_seconds` is the wall
time on rank 0 of all micro-batches and the optimizer step. It does not include the time to make the
tokens. `train_seconds` is the time of the whole loop.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .gpt_model import GPT, build_model, dummy_tokens
from .rank_process import (
    leave,
    load_module,
    print_settings_error,
    select_device,
    set_rank_environment,
)
from .reporting import clock, report_end, report_iteration, report_loss, report_start
from .settings import (
    Settings,
    SettingsError,
    add_arguments,
    check_heads,
    config_value,
    read_config,
    settings_of,
)

STRATEGIES = ("ddp", "zero0", "zero1", "zero2", "zero3")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# A function of a micro-batch's token ids and whether it is the last one; returns its loss.
MicroBatchTrainer = Callable[[Tensor, bool], Tensor]


def ddp_trainer(model: GPT, settings: Settings, device: torch.device) -> MicroBatchTrainer:
    """Return a function that trains the model on one micro-batch, with torch's DDP.

    The function adds up the gradients, and updates the weights after an iteration's last
    micro-batch.
    """
    ddp = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(
        ddp.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01
    )
    dtype = DTYPES[settings.precision]
    scaler = torch.GradScaler(device.type, enabled=dtype is torch.float16)

    def train_micro_batch(tokens: Tensor, last: bool) -> Tensor:
        with nullcontext() if last else ddp.no_sync():
            with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
                loss: Tensor = ddp(tokens)
            torch.autograd.backward(scaler.scale(loss / settings.num_microbatches))
        if last:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return loss.detach()

    return train_micro_batch


def deepspeed_trainer(model: GPT, deepspeed: Any, config: Any) -> MicroBatchTrainer:
    """Return a function that trains the model on one micro-batch, with ZeRO.

    DeepSpeed itself counts the micro-batches of an iteration, and updates the weights after the
    last one.
    """
    weights = model.parameters()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=weights, config=config)

    def train_micro_batch(tokens: Tensor, last: bool) -> Tensor:
        loss: Tensor = engine(tokens)
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return train_micro_batch


def train(settings: Settings, device: torch.device, train_micro_batch: MicroBatchTrainer) -> None:
    """Train all iterations; print a report after each iteration and at the end."""
    mean_loss = math.nan
    started = clock(device)
    for iteration in range(1, settings.train_iters + 1):
        tokens = dummy_tokens(settings, iteration, dist.get_rank()).to(device)
        step_started = clock(device)
        losses = [
            train_micro_batch(micro_batch, number == settings.num_microbatches)
            for number, micro_batch in enumerate(tokens, start=1)
        ]
        step_seconds = clock(device) - step_started
        loss = torch.stack(losses).mean()
        dist.all_reduce(loss)
        mean_loss = loss.item() / dist.get_world_size()
        if settings.strategy == "ddp":
            report_iteration(settings, device, iteration, step_seconds, mean_loss)
        else:
            # DeepSpeed reports the time of its steps, but not their loss.
            report_loss(settings, iteration, mean_loss)
    report_end(settings, device, clock(device) - started, mean_loss)


def run_gpt(settings: Settings, device: torch.device, deepspeed: Any, config: Any) -> None:
    """Build the model, print the report of the start, and train.

    deepspeed: the imported module. config: the content of DeepSpeed's JSON file. Both are None if
    the strategy is ddp.
    """
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if deepspeed:
        deepspeed.init_distributed()
    model = build_model(settings, device, deepspeed, config)
    versions = {"deepspeed": deepspeed.__version__} if deepspeed else {}
    report_start(settings, device, model, versions)
    if deepspeed:
        train(settings, device, deepspeed_trainer(model, deepspeed, config))
    else:
        train(settings, device, ddp_trainer(model, settings, device))
    dist.destroy_process_group()


def load_deepspeed(settings: Settings, device: torch.device) -> tuple[Any, Any]:
    """Return the module deepspeed and the content of the DeepSpeed configuration file.

    Both are None if the strategy is ddp. Raises SettingsError if the module or the file is missing,
    or if the file contradicts the settings.
    """
    if settings.strategy == "ddp":
        return None, None
    if (path := settings.deepspeed_config) is None:
        raise SettingsError(f"--strategy {settings.strategy} needs --deepspeed-config FILE")
    config = read_config(path)
    expected: dict[str, int] = {
        "zero_optimization.stage": int(settings.strategy.removeprefix("zero")),
        "train_micro_batch_size_per_gpu": settings.micro_batch_size,
        "gradient_accumulation_steps": settings.num_microbatches,
        "bf16.enabled": settings.precision == "bf16",
        "fp16.enabled": settings.precision == "fp16",
    }
    for name, wanted in expected.items():
        value = config_value(config, name)
        if (value or type(wanted)()) != wanted:
            sentence = (
                f"{path}: {name} is {value}, but the arguments give {wanted}; change one of them"
            )
            raise SettingsError(sentence)
    os.environ["DS_ACCELERATOR"] = device.type  # otherwise DeepSpeed uses any GPU that it finds
    return load_module(
        "deepspeed", "DeepSpeed is not installed; try `pip install deepspeed`, or --strategy ddp"
    ), config


def gpt_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="gpt.py", description=str(__doc__).split("\n")[0])
    add = parser.add_argument
    add("--strategy", choices=STRATEGIES, required=True, help="data-parallel strategy")
    add_arguments(parser)
    return parser


def parse_arguments(arguments: Sequence[str] | None) -> Settings:
    """Return the settings on the command line; a usage error ends the process with exit code 2."""
    options = vars(gpt_parser().parse_args(arguments))
    return settings_of(options, options["strategy"])


def gpt_main(arguments: Sequence[str] | None = None) -> int:
    """Train with the settings on the command line; return 0, or 1 after a mistake of the user."""
    settings = parse_arguments(arguments)
    try:
        set_rank_environment()
        check_heads(settings)
        device = select_device(settings)
        deepspeed, config = load_deepspeed(settings, device)
    except SettingsError as error:
        return print_settings_error("gpt.py", error)
    run_gpt(settings, device, deepspeed, config)
    return 0


if __name__ == "__main__":
    leave(gpt_main())
