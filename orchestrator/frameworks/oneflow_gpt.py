"""`oneflow_gpt`: OneFlow's GPT-2, with and without optimizer placement.

Every node runs the same command. The command starts one process, which uses all GPUs of its node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.base import (
    Checks,
    Framework,
    Logged,
    ModelUse,
    OwnColumns,
    Partner,
    ProgramLog,
    Start,
    framework_on_gpus,
)
from orchestrator.frameworks.gpu_usage import GPU_MEMORY, GPU_SAMPLES, GPU_USE
from orchestrator.frameworks.limits import unaccumulated, unheard, unsplit
from orchestrator.memory.placement import Placement, megatron_placement
from orchestrator.run.model import Run
from orchestrator.run.presets import GPT2_VOCAB_SIZE
from parsers.formats.oneflow import ONEFLOW_ARGUMENTS, ONEFLOW_MEMORY, ONEFLOW_STEP, ONEFLOW_TABLE

# The number of iterations between two reports of the program, by default.
REPORT_INTERVAL = 10
# A file of tokens; the program encodes texts as GPT-2 does.
_TOKENS = ".npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneflowOptions:
    """Parameters that only OneFlow's GPT-2 has."""

    source: Annotated[
        str,
        Field(
            description="Folder LanguageModeling/gpt-2 of OneFlow-Benchmark, relative to the "
            "campaign file.",
            min_length=1,
        ),
    ]
    dataset: Annotated[
        str,
        Field(
            description="Text files or a .npz file to train on, relative to the campaign file.",
            min_length=1,
        ),
    ]
    optimizer_placement: Annotated[
        Literal["off", "on"],
        Field(description="Whether the optimizer's states are divided over the GPUs."),
    ] = "off"

    @property
    def launcher(self) -> str:
        """The launcher `node`, which starts one process on each node."""
        return "node"


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a run is impossible."""
    yield from unsplit(run)
    yield from unaccumulated(run)
    yield from unheard(run, "activation_checkpointing", "seed")
    if run.training.precision == "bf16":
        yield f"framework {run.framework} has no precision=bf16; use fp16 or fp32"
    if run.model is not None and run.model.ffn_width != 4 * run.model.hidden_size:
        yield (
            f"framework {run.framework} has an MLP of 4*hidden_size={4 * run.model.hidden_size}, "
            f"not ffn_hidden_size={run.model.ffn_width}; remove ffn_hidden_size"
        )
    if run.training.train_iters < REPORT_INTERVAL:
        yield (
            f"train_iters={run.training.train_iters} is too small: the program first reports after "
            f"{REPORT_INTERVAL} iterations"
        )


def warnings(run: Run) -> Iterator[str]:
    """Yield a warning if the data may contain tokens outside the vocabulary."""
    model = run.model
    if (
        model is not None
        and model.vocab_size < GPT2_VOCAB_SIZE
        and not run.options.dataset.endswith(_TOKENS)
    ):
        yield (
            f"vocab_size={model.vocab_size} is less than the {GPT2_VOCAB_SIZE} tokens of GPT-2's "
            "tokenizer, which the program uses for text files"
        )


def placement(run: Run) -> Placement:
    """Return the placement of states and activations; the states need as many bytes as in Megatron.

    In fp16, the program keeps a copy of the weights in fp32, as Megatron does. Attention is not
    fused. Optimizer placement divides the same states as ZeRO stage 1.
    docs/background/memory-accuracy.md compares the forecast with eight measured runs.
    """
    stage = 1 if run.options.optimizer_placement == "on" else None
    states = megatron_placement(run.training.precision)
    return replace(states, zero_stage=stage, fused_attention=False)


def arrangement(run: Run) -> str:
    """Return nodes, GPUs per node and batch size per GPU in OneFlow's notation.

    For example, `4n_8g_dp_4bs` means 4 nodes, 8 GPUs per node and a batch of 4 per GPU.
    """
    resources = run.resources
    return f"{resources.nodes}n_{resources.gpus_per_node}g_dp_{run.batch.micro_batch_size}bs"


def _throughput(logged: Logged) -> float | None:
    return logged.summary.running_samples_per_second


ONEFLOW_GPT = Framework(
    name="oneflow_gpt",
    description="OneFlow's GPT-2, with or without optimizer placement",
    options=OneflowOptions,
    checks=Checks(
        problems=problems,
        warnings=warnings,
        needs_gpus=framework_on_gpus,
    ),
    start=Start(
        template="oneflow_gpt.sh.j2",
        paths=("source", "dataset"),
        files=lambda paths: (
            f"{paths['source']}/src/train.py",
            f"{paths['source']}/models/117M/encoder.json",
            f"{paths['source']}/models/117M/vocab.bpe",
            paths["dataset"],
        ),
        program=lambda run: "oneflow_gpt",
        asks=lambda run: "ask_argparse",
    ),
    log=ProgramLog(
        formats=(ONEFLOW_STEP, ONEFLOW_TABLE, ONEFLOW_MEMORY, ONEFLOW_ARGUMENTS, *GPU_SAMPLES)
    ),
    model=ModelUse(
        placement=placement,
        # The program itself pads the vocabulary to a multiple of this number.
        vocab_size_multiple=128,
    ),
    report=OwnColumns(
        chosen=(
            Column(
                "test_desc",
                "test_desc",
                lambda run: f"{run.options.optimizer_placement}_optimization",
            ),
            Column("xn_xg_xdp_xmp_xbs", "arrangement", arrangement),
        ),
        measures=(
            GPU_MEMORY,
            GPU_USE,
            # This column replaces the common one: the published page has this title.
            Column("throughput (samples/s)", "running_samples_per_second", _throughput),
        ),
        measured_by=(
            "gpu_mem: the largest sample of any GPU; gpu_util: the median of the samples while a "
            "GPU is active; changes: relative to the run without optimizer placement"
        ),
        partner=Partner(
            option="optimizer_placement",
            base="off",
            columns={"gpu_memory_mib": True, "running_samples_per_second": False},
        ),
    ),
)
