"""`deepspeed`: any training script of the user that takes a DeepSpeed configuration."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.arguments import Arguments
from orchestrator.frameworks.base import (
    Checks,
    Framework,
    ModelUse,
    OwnColumns,
    ProgramLog,
    Start,
    any_model,
)
from orchestrator.frameworks.deepspeed import zero
from orchestrator.frameworks.deepspeed.config import without_fused_adam
from orchestrator.memory.placement import Placement
from orchestrator.run.model import Run
from orchestrator.run.run_columns import PRECISION
from parsers.formats.deepspeed import DEEPSPEED_TIMER

_CONFIG = "--deepspeed_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepspeedOptions:
    """Parameters that only the deepspeed framework has."""

    script: Annotated[
        str,
        Field(description="The training script, relative to the campaign file.", min_length=1),
    ]
    script_args: Annotated[
        Arguments,
        Field(description="Arguments of the script; --deepspeed_config FILE is added at the end."),
    ] = field(default_factory=list)
    zero_stage: Annotated[int, Field(description="ZeRO stage, 0 to 3.", ge=0, le=3)] = 0
    offload_optimizer: Annotated[
        Literal["none", "cpu", "nvme"],
        Field(description=("Device that keeps ZeRO's optimizer states.")),
    ] = "none"
    offload_param: Annotated[
        Literal["none", "cpu", "nvme"], Field(description="Device that keeps ZeRO-3's parameters.")
    ] = "none"
    launcher: Annotated[
        zero.DeepspeedLauncher, Field(description="Program that starts the ranks.")
    ] = "torchrun"
    deepspeed: Annotated[
        dict[str, Any],
        Field(description="Changes to the DeepSpeed configuration, section by section."),
    ] = field(default_factory=dict)


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a deepspeed run is impossible."""
    if run.training.activation_checkpointing:
        # The TFLOPs would count the recomputation, but the script does not receive the setting.
        yield (
            "framework deepspeed does not pass activation_checkpointing to the script; set it in "
            "script_args"
        )
    if any(argument.partition("=")[0] == _CONFIG for argument in run.options.script_args):
        yield (
            f"script_args: teralog adds {_CONFIG}; remove it, and write changes to the "
            "DeepSpeed configuration under the key deepspeed"
        )
    yield from zero.pipeline_problems(run)
    yield from zero.problems(run)


def placement(run: Run) -> Placement | None:
    """Return how a run's states are placed on the ranks; None if the run has no ZeRO stage.

    The result does not contain whether activations are recomputed, because that depends on the
    user's script.
    """
    placed = zero.placement(run)
    return None if placed is None else replace(placed, recomputation=None)


DEEPSPEED = Framework(
    name="deepspeed",
    description="any training script of yours that takes a DeepSpeed configuration file",
    options=DeepspeedOptions,
    labelled_by=("script",),
    checks=Checks(
        problems=problems,
        warnings=zero.warnings,
        unknown_keys=lambda run: zero.unknown_config_keys(zero.config_files(run)),
    ),
    start=Start(
        template="deepspeed.sh.j2",
        config_files=zero.config_files,
        without_gpus=without_fused_adam,
        steps_on_cpu=zero.steps_on_cpu,
        paths=("script",),
        imports=lambda run: ("torch", "deepspeed"),
        asks=lambda run: "ask_deepspeed",
    ),
    log=ProgramLog(formats=(DEEPSPEED_TIMER,)),
    model=ModelUse(
        placement=placement,
        needed=False,
        problems=any_model,
    ),
    report=OwnColumns(
        chosen=(
            Column("script", "script", lambda run: PurePath(run.options.script).name),
            Column("ZeRO", "zero_stage", lambda run: run.zero_stage),
            Column("offload", "offload", zero.offload),
            PRECISION,
        ),
    ),
)
