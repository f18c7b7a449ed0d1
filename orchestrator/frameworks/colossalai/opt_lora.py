"""`colossalai_opt_lora`: ColossalAI's benchmark of RLHF with OPTs and LoRA."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.base import (
    Checks,
    Framework,
    OwnColumns,
    ProgramLog,
    Start,
    framework_on_gpus,
)
from orchestrator.frameworks.colossalai import shared
from orchestrator.run import presets
from orchestrator.run.model import Run

BENCHMARK = "benchmark_opt_lora_dummy.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiOptLoraOptions(shared.ColossalaiOptions):
    """Parameters that only the benchmark with OPTs has."""

    lora_rank: Annotated[
        int, Field(description="Rank of LoRA's matrices; 0 trains all weights.", ge=0)
    ] = 4
    cuda_mem_frac: Annotated[
        float, Field(description="Fraction of a GPU's memory that a rank may use.", gt=0, le=1)
    ] = 1.0

    @property
    def benchmark(self) -> str:
        """The path of the benchmark program in ColossalAI's folder."""
        return f"{shared.FOLDER}/{BENCHMARK}"


_MODELS = {key.removeprefix("opt-"): shape for key, shape in presets.OPT.items()}


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a run of this benchmark is impossible."""
    yield from shared.problems(_MODELS)(run)
    rank = run.options.lora_rank
    if run.model is not None and rank > run.model.hidden_size:
        yield f"lora_rank={rank} is more than hidden_size={run.model.hidden_size}"


COLOSSALAI_OPT_LORA = Framework(
    name="colossalai_opt_lora",
    description=(
        "ColossalAI's benchmark of RLHF with OPTs and LoRA on dummy prompts, with the "
        "throughput and TFLOPS that it prints"
    ),
    options=ColossalaiOptLoraOptions,
    labelled_by=("strategy",),
    implied=shared.implied,
    checks=Checks(
        problems=problems,
        needs_gpus=framework_on_gpus,
    ),
    start=Start(
        template="colossalai.sh.j2",
        paths=("source",),
        files=shared.files(BENCHMARK),
        steps_on_cpu=shared.steps_on_cpu,
        program=lambda run: "colossalai_opt_lora",
        asks=lambda run: "ask_argparse",
    ),
    log=ProgramLog(
        formats=shared.LOG_FORMATS,
        reports_steps=False,
    ),
    report=OwnColumns(
        chosen=(
            *shared.COLUMNS,
            Column("LoRA rank", "lora_rank", lambda run: run.options.lora_rank),
        ),
        measures=shared.MEASURES,
        measured_by=shared.MEASURED_BY,
    ),
)
