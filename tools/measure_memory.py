"""Measure the memory of tensors while the gpt workload trains, and compare it with the forecast.

A TorchDispatchMode sees every allocation of a tensor, including those of the backward pass and of
DDP's buckets. It adds the bytes of the tensor's storage to a sum, and subtracts them when the
storage is freed. The highest sum corresponds to `torch.cuda.max_memory_allocated`, but
can be measured on any device. Memory that an operation uses internally is not seen.
Needs the `train` extra and no GPU:

    python tools/measure_memory.py        prints a table of docs/background/memory-accuracy.md
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from orchestrator.campaign.entry_problems import entry_problems
from orchestrator.campaign.expansion import Entry, make_run
from orchestrator.common.errors import UserError
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.memory.forecast import GIB, forecast
from orchestrator.run.model import Run, sizes
from orchestrator.workloads import gpt, gpt_model
from orchestrator.workloads.reporting import print_line
from orchestrator.workloads.settings import Settings

ROOT = Path(__file__).parent.parent
MODEL = {
    "num_layers": 6,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "vocab_size": 4096,
    "seq_length": 256,
}
# The buckets are smaller than the model, as in trainings of large models.
BUCKETS = {"reduce_bucket_size": 500_000, "allgather_bucket_size": 500_000}
LIVE = {"stage3_max_live_parameters": 1_000_000, "stage3_prefetch_bucket_size": 500_000}
CASES: tuple[dict[str, Any], ...] = (
    {"strategy": "ddp"},
    {"strategy": "ddp", "activation_checkpointing": True},
    {"strategy": "ddp", "precision": "bf16"},
    {"strategy": "ddp", "micro_batch_size": 16},
    *({"strategy": f"zero{stage}"} for stage in range(4)),
    *({"strategy": f"zero{stage}", "precision": "bf16"} for stage in range(4)),
    *(
        {"strategy": f"zero{stage}", "precision": "bf16", "activation_checkpointing": True}
        for stage in range(4)
    ),
    {"strategy": "zero3", "precision": "bf16", "num_microbatches": 4},
    {"strategy": "zero2", "precision": "bf16", "micro_batch_size": 16},
)


class Tally(TorchDispatchMode):
    """A counter of the bytes of all tensors in use.

    now: the current sum. peak: the highest sum so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.now = 0
        self.peak = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation of torch, and call `count` with each tensor that it returns."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.count(leaf)
        return result

    def count(self, tensor: Tensor) -> None:
        """Add the bytes of a tensor's storage to `now`; `peak` becomes `now` if `now` is higher.

        A storage that several tensors share is added only once. Tensors on the meta device are not
        counted.
        """
        if tensor.device.type == "meta":
            return
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001  # the only name of a storage that lasts
        size = storage.nbytes()
        if key in self.alive:
            # The storage may have been resized.
            self.now += size - self.alive[key]
        else:
            weakref.finalize(storage, self.forget, key)
            self.now += size
        self.alive[key] = size
        self.peak = max(self.peak, self.now)

    def forget(self, key: int) -> None:
        """Subtract the bytes of a freed storage from `now`.

        key: identifies the storage in the dictionary `alive`.
        """
        self.now -= self.alive.pop(key, 0)


def measure(settings: Settings) -> None:
    """Train three iterations on this rank; rank 0 prints the bytes of its tensors as JSON.

    The keys of the JSON:
    rest: the bytes in use after the last iteration.
    peak: the most bytes in use at once during the iterations.
    """
    importlib.import_module("torch._dynamo")  # it cannot be loaded within ZeRO's Init
    device = torch.device("cpu")
    torch.distributed.init_process_group("gloo")
    deepspeed = config = None
    if settings.deepspeed_config:
        deepspeed = importlib.import_module("deepspeed")
        config = json.loads(settings.deepspeed_config.read_text())
        deepspeed.init_distributed()
    with Tally() as tally:
        model = gpt_model.build_model(settings, device, deepspeed, config)
        trainer = (
            gpt.deepspeed_trainer(model, deepspeed, config)
            if deepspeed
            else gpt.ddp_trainer(model, settings, device)
        )
        tally.peak = 0
        for iteration in range(3):
            tokens = gpt_model.dummy_tokens(settings, iteration, torch.distributed.get_rank())
            for number, micro_batch in enumerate(tokens, start=1):
                trainer(micro_batch, number == settings.num_microbatches)
    print_line("measured " + json.dumps({"rest": tally.now, "peak": tally.peak}))
    torch.distributed.destroy_process_group()


def case(values: dict[str, Any]) -> Run:
    """Return the run whose memory a row of the table shows.

    values: the parameters of the run, e.g. the strategy. The run has two ranks. Under ZeRO, its
    communication buckets are small.
    """
    zero = dict(BUCKETS) if values["strategy"] != "ddp" else {}
    if values["strategy"] == "zero3":
        zero |= LIVE
    given = {"framework": "gpt", "model": MODEL, "gpus_per_node": 2, "micro_batch_size": 4}
    overlay = {"deepspeed": {"zero_optimization": zero}} if zero else {}
    entry = Entry("case", {**given, **overlay, **values})
    if problems := entry_problems([entry]):
        raise UserError(*problems)
    return make_run(entry, "local")


def measured(run: Run, folder: Path) -> dict[str, int]:
    """Train a run; return how many bytes the tensors of its rank 0 use.

    The keys of the result:
    rest: the bytes in use after the last iteration.
    peak: the most bytes in use at once.
    """
    names = Settings.__dataclass_fields__
    chosen = {name: value for name, value in sizes(run).items() if name in names}
    configs = FRAMEWORKS[run.framework].start.files_on(run, gpus=False)
    for name, content in configs.items():
        (folder / name).write_text(json.dumps(content))
    chosen["device"] = "cpu"
    chosen["deepspeed_config"] = str(folder / next(iter(configs))) if configs else None
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node", str(run.world_size), __file__, json.dumps(chosen)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    _, marker, line = done.stdout.partition("[teralog] measured ")
    if not marker:
        sys.exit(done.stderr)
    report: dict[str, int] = json.loads(line.splitlines()[0])
    return report


def row(values: dict[str, Any], folder: Path) -> str:
    """Return the table row for a run: the measured and the forecast memory of tensors, in MiB.

    values: the parameters of the run. folder: where to write the run's configuration files.
    """
    run = case(values)
    placement = FRAMEWORKS[run.framework].model.placement(run)
    expected = placement and forecast(run, placement)
    if expected is None:
        sys.exit(f"{values}: no forecast")
    report, tensors = measured(run, folder), expected.tensors
    peak = report["peak"] / GIB
    title = " ".join(
        str(value) if name in ("strategy", "precision") else f"{name}={value}"
        for name, value in values.items()
    )
    within = "yes" if tensors.low_gib <= peak <= tensors.high_gib else "no"
    mib = (f"{gib * 1024:.0f}" for gib in (peak, tensors.low_gib, tensors.high_gib))
    cells = (title, f"{report['rest'] / 2**20:.0f}", *mib, f"{tensors.middle_gib / peak - 1:+.0%}")
    return f"| {' | '.join(cells)} | {within} |"


def main() -> None:
    """Train as a rank, or start the ranks of every case and print the table."""
    if sys.argv[1:]:
        given = json.loads(sys.argv[1])
        config = given.pop("deepspeed_config")
        measure(Settings(**given, deepspeed_config=Path(config) if config else None))
        return
    print("| run | at rest | peak | low | high | middle to peak | within |")
    print("|---|--:|--:|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for values in CASES:
            print(row(values, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
