"""`gpt`: the project's own training program, under torch DDP or DeepSpeed ZeRO."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.base import Checks, Framework, ModelUse, OwnColumns, ProgramLog, Start
from orchestrator.frameworks.deepspeed import zero
from orchestrator.frameworks.deepspeed.config import without_fused_adam
from orchestrator.frameworks.limits import unsplit
from orchestrator.memory.placement import Placement, ddp_placement, recomputation
from orchestrator.run.model import Run
from orchestrator.run.run_columns import PRECISION
from parsers.formats.deepspeed import DEEPSPEED_TIMER
from parsers.formats.gpt_workload import GPT_WORKLOAD

GptStrategy = Literal["ddp", "zero0", "zero1", "zero2", "zero3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GptOptions:
    """Parameters that only the gpt framework has."""

    strategy: Annotated[
        GptStrategy,
        Field(description="torch DistributedDataParallel (ddp), or a ZeRO stage of DeepSpeed."),
    ] = "ddp"
    offload_optimizer: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO's optimizer states.")
    ] = "none"
    offload_param: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO-3's parameters.")
    ] = "none"
    launcher: Annotated[
        zero.DeepspeedLauncher,
        Field(description="Program that starts the ranks; srun needs a Slurm cluster."),
    ] = "torchrun"
    deepspeed: Annotated[
        dict[str, Any],
        Field(description="Changes to the DeepSpeed configuration, section by section."),
    ] = field(default_factory=dict)

    @property
    def zero_stage(self) -> int | None:
        """The ZeRO stage of the strategy; None for ddp."""
        return None if self.strategy == "ddp" else int(self.strategy.removeprefix("zero"))


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a gpt run is impossible."""
    options: GptOptions = run.options
    yield from unsplit(run)
    if options.strategy == "ddp" and options.deepspeed:
        yield (
            "strategy=ddp does not use DeepSpeed; remove the key deepspeed, or choose strategy "
            "zero0, zero1, zero2 or zero3"
        )
    yield from zero.problems(run)


def _imports(run: Run) -> tuple[str, ...]:
    """Return the modules that a run imports; they include `teralog`, which contains the program."""
    return ("teralog", "torch", *(() if run.options.strategy == "ddp" else ("deepspeed",)))


def placement(run: Run) -> Placement:
    """Return the placement of states and activations; attention is torch's fused attention."""
    return replace(
        zero.placement(run) or ddp_placement(run.training.precision),
        recomputation=recomputation(run.training.activation_checkpointing),
        fused_attention=True,
    )


GPT = Framework(
    name="gpt",
    description=(
        "teralog's own training program, in `orchestrator/workloads/`: a GPT on random tokens, by "
        "torch DDP or DeepSpeed ZeRO 0 to 3, with offload, on GPUs or on a CPU"
    ),
    options=GptOptions,
    labelled_by=("strategy",),
    checks=Checks(
        problems=problems,
        warnings=zero.warnings,
        unknown_keys=lambda run: zero.unknown_config_keys(zero.config_files(run)),
    ),
    start=Start(
        template="gpt.sh.j2",
        config_files=zero.config_files,
        without_gpus=without_fused_adam,
        steps_on_cpu=zero.steps_on_cpu,
        program=lambda run: "gpt",
        imports=_imports,
        asks=lambda run: "ask_argparse" if run.zero_stage is None else "ask_deepspeed",
    ),
    log=ProgramLog(formats=(GPT_WORKLOAD, DEEPSPEED_TIMER)),
    model=ModelUse(placement=placement),
    report=OwnColumns(
        chosen=(
            Column("strategy", "strategy", lambda run: run.options.strategy),
            Column("offload", "offload", zero.offload),
            PRECISION,
        ),
    ),
)
