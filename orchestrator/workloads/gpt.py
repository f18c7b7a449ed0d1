"""Train a GPT on dummy tokens with PyTorch DDP or DeepSpeed ZeRO, and report its speed.

Needs torch, and DeepSpeed when the strategy is zero*; nothing else, so this file can be copied to
another machine and run alone. Four ways to start it, each followed by the arguments of --help:

    python -m torch.distributed.run --standalone --nproc_per_node 2 -m orchestrator.workloads.gpt
    deepspeed --num_gpus 2 --module orchestrator.workloads.gpt
    srun --ntasks 2 python -m orchestrator.workloads.gpt    (ranks from the SLURM_* variables)
    python -m orchestrator.workloads.gpt                    (one process)

Rank 0 reports on stdout. At the start (`deepspeed` only where it is used, `device` the GPU's name
on CUDA), after each iteration of ddp (DeepSpeed prints its own timer lines instead), and when all
iterations are done, it prints a line of exactly this form:

    [teralog] start | strategy zero2 | world_size 2 | backend gloo | device cpu | precision fp32 | \
parameters 136960 | torch 2.13.0+cpu | deepspeed 0.19.8
    [teralog] iteration 3/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss 6.238123 | \
memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402
    [teralog] finished | iterations 20 | train_seconds 1.234567 | final_loss 6.238123 | \
max_memory_allocated_gib 0.402

`step_seconds` is the wall time of all micro-batches and the optimizer step on rank 0, without the
making of the tokens; `samples_per_second` is the global batch divided by it; `train_seconds` is
the whole loop. A loss is averaged over ranks and micro-batches, and may be nan or inf. Memory is
rank 0's: torch's allocator on CUDA, on the CPU the resident set of the process. Equal seeds give
equal initial weights and equal tokens, so that the losses of the strategies can be compared.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

STRATEGIES = ("ddp", "zero0", "zero1", "zero2", "zero3")
MicroBatchTrainer = Callable[[Tensor, bool], Tensor]  # (token ids, is it the last?) to its loss
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class UserError(Exception):
    """A mistake of the user's, as one sentence: where, what, and what to try."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The command line."""

    strategy: str
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    vocab_size: int
    seq_length: int
    micro_batch_size: int
    num_microbatches: int
    train_iters: int
    precision: str
    activation_checkpointing: bool
    deepspeed_config: Path | None
    learning_rate: float
    seed: int
    device: str


class Block(nn.Module):
    """Pre-LayerNorm causal attention and GELU feed-forward, each added to the residual stream."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        hidden_size, ffn_hidden_size = settings.hidden_size, settings.ffn_hidden_size
        self.num_attention_heads = settings.num_attention_heads
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.attention_in = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_out = nn.Linear(hidden_size, hidden_size)
        self.ffn_norm = nn.LayerNorm(hidden_size)
        self.ffn_in = nn.Linear(hidden_size, ffn_hidden_size)
        self.ffn_out = nn.Linear(ffn_hidden_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Map (micro_batch_size, seq_length, hidden_size) to the same shape."""
        query, key, value = (
            part.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
            for part in self.attention_in(self.attention_norm(x)).chunk(3, dim=-1)
        )
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(attention.transpose(1, 2).flatten(2))
        ffn = functional.gelu(self.ffn_in(self.ffn_norm(x)), approximate="tanh")
        output: Tensor = x + self.ffn_out(ffn)
        return output


class GPT(nn.Module):
    """GPT-2: learned positions, biases everywhere, output head tied to the token embedding.

    Parameters, with l layers, hidden size h, feed-forward size f, vocabulary v, sequence length s,
    each tied weight counted once. A block has 4h^2 + 4h in its attention (query, key, value,
    output), 2hf + f + h in its feed-forward and 4h in its two LayerNorms; the embeddings add
    vh + sh and the final LayerNorm 2h. With f = 4h that is l(12h^2 + 13h) + vh + sh + 2h.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.activation_checkpointing = settings.activation_checkpointing
        self.token_embedding = nn.Embedding(settings.vocab_size, settings.hidden_size)
        self.position_embedding = nn.Embedding(settings.seq_length, settings.hidden_size)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.num_layers))
        self.final_norm = nn.LayerNorm(settings.hidden_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean next-token loss of (micro_batch_size, seq_length + 1) token ids."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.token_embedding(inputs) + self.position_embedding(positions)
        for block in self.blocks:
            if self.activation_checkpointing:
                # Reentrant, because it recomputes the whole block, as the usual FLOPs formulas
                # count it; the other kind leaves out the block's last matrix product.
                x = checkpoint(block, x, use_reentrant=True, preserve_rng_state=False)
            else:
                x = block(x)
        logits = functional.linear(self.final_norm(x), self.token_embedding.weight)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def build_model(settings: Settings, device: torch.device, deepspeed: Any, config: Any) -> GPT:
    """Return a GPT whose weights are GPT-2's: N(0, 0.02), output projections / sqrt(2 layers).

    Under ZeRO-3 it is partitioned from the start.
    """
    partitioned = settings.strategy == "zero3"
    with deepspeed.zero.Init(config_dict_or_path=config) if partitioned else device:
        model = GPT(settings)
    draw_weights(model, settings, device, deepspeed, output="_out.")
    return model


def draw_weights(
    model: nn.Module, settings: Settings, device: torch.device, deepspeed: Any, *, output: str
) -> None:
    """Give a model GPT-2's weights; `output` is in the names of output projections alone.

    Each is drawn whole and in fp32, partitioned or not, so that every strategy starts from the same
    numbers.
    """
    partitioned = settings.strategy == "zero3"
    generator = torch.Generator(device).manual_seed(settings.seed)
    for name, weight in model.named_parameters():
        gather = deepspeed.zero.GatheredParameters(weight, modifier_rank=0) if partitioned else None
        with torch.no_grad(), gather or nullcontext():
            if name.endswith("bias"):
                weight.zero_()
            elif weight.ndim == 2:
                std = 0.02 / math.sqrt(2 * settings.num_layers if output in name else 1)
                drawn = torch.empty(weight.shape, device=device)
                weight.copy_(drawn.normal_(0, std, generator=generator))


def dummy_tokens(settings: Settings, iteration: int, rank: int) -> Tensor:
    """Return token ids (num_microbatches, micro_batch_size, seq_length + 1) for one rank.

    How the samples are cut into micro-batches does not change them.
    """
    seed = ((settings.seed * 1_000_003 + iteration) * 1_000_003 + rank) % 2**63
    shape = (settings.num_microbatches, settings.micro_batch_size, settings.seq_length + 1)
    return torch.randint(settings.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def ddp_trainer(model: GPT, settings: Settings, device: torch.device) -> MicroBatchTrainer:
    """Return what trains a micro-batch with torch's DDP, gradients summed until the last one."""
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
    """Return what trains a micro-batch with ZeRO; DeepSpeed counts for itself which is the last."""
    weights = model.parameters()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=weights, config=config)

    def train_micro_batch(tokens: Tensor, last: bool) -> Tensor:
        loss: Tensor = engine(tokens)
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return train_micro_batch


def memory_gib(device: torch.device) -> tuple[float, float]:
    """Return the memory in use now and at its peak.

    On the CPU from the kernel's VmRSS and VmHWM, not getrusage: that peak begins with the one of
    the process which started this one.
    """
    if device.type == "cuda":
        used, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
        return used / 2**30, peak / 2**30
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kib = dict(line.split(":", 1) for line in status.splitlines())
    return int(kib["VmRSS"].split()[0]) / 2**20, int(kib["VmHWM"].split()[0]) / 2**20


def report(line: str) -> None:
    """Print a line on rank 0, in one write so that no other rank's output gets into it."""
    if dist.get_rank() == 0:
        sys.stdout.write(f"[teralog] {line}\n")
        sys.stdout.flush()


def report_start(
    settings: Settings, device: torch.device, model: nn.Module, versions: Mapping[str, str]
) -> None:
    """Report the set-up; `versions` are those of packages beside torch."""
    # ZeRO-3 leaves a partitioned weight empty and keeps its size in ds_numel.
    parameters = sum(getattr(weight, "ds_numel", weight.numel()) for weight in model.parameters())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    packages = {"torch": torch.__version__, **versions}
    report(
        f"start | strategy {settings.strategy} | world_size {dist.get_world_size()}"
        f" | backend {dist.get_backend()} | device {name} | precision {settings.precision}"
        f" | parameters {parameters}"
        + "".join(f" | {package} {version}" for package, version in packages.items())
    )


def report_iteration(
    settings: Settings, device: torch.device, iteration: int, step_seconds: float, loss: float
) -> None:
    """Report an iteration that has been done."""
    global_batch_size = settings.micro_batch_size * settings.num_microbatches
    global_batch_size *= dist.get_world_size()
    used, peak = memory_gib(device)
    report(
        f"iteration {iteration}/{settings.train_iters} | step_seconds {step_seconds:.6f}"
        f" | samples_per_second {global_batch_size / step_seconds:.2f} | loss {loss:.6f}"
        f" | memory_allocated_gib {used:.3f} | max_memory_allocated_gib {peak:.3f}"
    )


def report_end(settings: Settings, device: torch.device, train_seconds: float, loss: float) -> None:
    """Report that all iterations are done; `loss` is the last one's."""
    report(
        f"finished | iterations {settings.train_iters} | train_seconds {train_seconds:.6f}"
        f" | final_loss {loss:.6f} | max_memory_allocated_gib {memory_gib(device)[1]:.3f}"
    )


def clock(device: torch.device) -> float:
    """Return seconds, once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def train(settings: Settings, device: torch.device, train_micro_batch: MicroBatchTrainer) -> None:
    """Train all iterations, and report each (ddp) and the end."""
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
    report_end(settings, device, clock(device) - started, mean_loss)


def run(settings: Settings, device: torch.device, deepspeed: Any, config: Any) -> None:
    """Build the model, report the start, and train; `deepspeed` and `config` are None for ddp."""
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


def set_rank_environment() -> None:
    """Set torch.distributed's variables where no launcher did: from Slurm's, or for one process.

    Raises UserError if Slurm does not say where rank 0 is.
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
            sentence = f"`{' '.join(command)}` names no host ({error}); set MASTER_ADDR to rank 0's"
            raise UserError(sentence) from error


def select_device(settings: Settings) -> torch.device:
    """Return this rank's device; raises UserError if it is missing or cannot train so."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch finds no CUDA device here; try --device cpu")
    if settings.device == "cpu" or not torch.cuda.is_available():
        if settings.precision == "fp16":
            raise UserError("--precision fp16 does not train on the CPU; try bf16, fp32 or a GPU")
        return torch.device("cpu")
    # Slurm may show each task only its own GPU, which is then number 0 whatever the local rank.
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    os.environ["LOCAL_RANK"] = str(index)  # DeepSpeed takes the number from here
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def load_deepspeed(settings: Settings, device: torch.device) -> tuple[Any, Any]:
    """Return the deepspeed module and its JSON, or None and None for ddp.

    Raises UserError if one of them is missing, or the JSON contradicts the settings.
    """
    if settings.strategy == "ddp":
        return None, None
    if (path := settings.deepspeed_config) is None:
        raise UserError(f"--strategy {settings.strategy} needs --deepspeed-config FILE")
    config = read_config(path)
    expected: dict[str, int] = {
        "zero_optimization.stage": int(settings.strategy.removeprefix("zero")),
        "train_micro_batch_size_per_gpu": settings.micro_batch_size,
        "gradient_accumulation_steps": settings.num_microbatches,
        "bf16.enabled": settings.precision == "bf16",
        "fp16.enabled": settings.precision == "fp16",
    }
    for name, wanted in expected.items():
        section, _, key = name.partition(".")
        found = config.get(section, {}).get(key, type(wanted)()) if key else config.get(section)
        if found != wanted:
            sentence = f"{path}: {name} is {found}, but the arguments say {wanted}; make them agree"
            raise UserError(sentence)
    os.environ["DS_ACCELERATOR"] = device.type  # otherwise it takes any GPU that it finds
    return load(
        "deepspeed", "DeepSpeed is not installed; try `pip install deepspeed`, or --strategy ddp"
    ), config


def read_config(path: Path) -> dict[str, Any]:
    """Return DeepSpeed's JSON; raises UserError where it cannot be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as DeepSpeed's JSON: {error}") from error


def load(module: str, otherwise: str) -> Any:
    """Return a module; raises UserError, with what to do `otherwise`, where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(otherwise) from error


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="gpt.py", description=str(__doc__).split("\n")[0])
    add = parser.add_argument
    add("--strategy", choices=STRATEGIES, required=True, help="data-parallel strategy")
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every training program of this folder takes."""

    def positive(text: str) -> int:
        if int(text) < 1:
            raise ValueError(text)
        return int(text)

    add = parser.add_argument
    add("--num-layers", type=positive, required=True, help="number of blocks")
    add("--hidden-size", type=positive, required=True, help="width of the residual stream")
    add("--ffn-hidden-size", type=positive, help="width of the feed-forward (4 * hidden size)")
    add("--num-attention-heads", type=positive, required=True, help="must divide the hidden size")
    add("--vocab-size", type=positive, required=True, help="number of different tokens")
    add("--seq-length", type=positive, required=True, help="tokens in a sample")
    add("--micro-batch-size", type=positive, required=True, help="samples in a pass on one rank")
    add("--num-microbatches", type=positive, default=1, help="passes in an iteration (1)")
    add("--train-iters", type=positive, required=True, help="number of iterations")
    add("--precision", choices=tuple(DTYPES), default="fp32", help="as in the JSON (fp32)")
    add("--activation-checkpointing", action="store_true", help="recompute blocks backwards")
    add("--deepspeed-config", "--deepspeed_config", type=Path, metavar="FILE", help="for zero*")
    add("--learning-rate", type=float, default=1.5e-4, help="as in the JSON (1.5e-4)")
    add("--seed", type=int, default=1234, help="of the weights and the tokens (1234)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda if any")
    add("--local-rank", "--local_rank", help="set by launchers; LOCAL_RANK is used instead")


def settings_of(options: Mapping[str, Any], strategy: str) -> Settings:
    """Return the settings of what was parsed."""
    names = (field.name for field in fields(Settings))
    chosen = {name: options[name] for name in names if name != "strategy"}
    chosen["ffn_hidden_size"] = chosen["ffn_hidden_size"] or 4 * chosen["hidden_size"]
    return Settings(strategy=strategy, **chosen)


def parse_arguments(arguments: Sequence[str] | None) -> Settings:
    """Return the settings; a usage error ends the process with exit code 2."""
    options = vars(argument_parser().parse_args(arguments))
    return settings_of(options, options["strategy"])


def check_heads(settings: Settings) -> None:
    """Raise UserError where the heads do not divide the hidden size."""
    if settings.hidden_size % settings.num_attention_heads:
        raise UserError(
            f"--hidden-size {settings.hidden_size} is not divisible by "
            f"--num-attention-heads {settings.num_attention_heads}; change one of them"
        )


def complain(program: str, error: UserError) -> int:
    """Say what the user's mistake is, on rank 0; return the exit code."""
    if os.environ["RANK"] == "0":
        print(f"{program}: {error}", file=sys.stderr)
    else:
        time.sleep(5)  # the first to leave makes the launcher stop all: let rank 0 speak
    return 1


def leave(exit_code: int) -> NoReturn:
    """End the process.

    Not by sys.exit: now and then a DeepSpeed run whose work was done aborted while the interpreter
    wound down ("terminate called without an active exception").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says; return 0, or 1 after a mistake of the user's."""
    settings = parse_arguments(arguments)
    try:
        set_rank_environment()
        check_heads(settings)
        device = select_device(settings)
        deepspeed, config = load_deepspeed(settings, device)
    except UserError as error:
        return complain("gpt.py", error)
    run(settings, device, deepspeed, config)
    return 0


if __name__ == "__main__":
    leave(main())
