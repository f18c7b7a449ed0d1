"""`colossalai_opt_lora`: ColossalAI's benchmark of RLHF with OPTs and LoRA."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from orchestrator import presets
from orchestrator.frameworks import colossalai
from orchestrator.frameworks.base import Framework, framework_on_gpus
from orchestrator.model import Run
from orchestrator.tables import Column

BENCHMARK = "benchmark_opt_lora_dummy.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiOptLoraOptions(colossalai.ColossalaiOptions):
    """Parameters that only the benchmark with OPTs has."""

    lora_rank: Annotated[
        int, Field(description="Rank of LoRA's matrices; 0 trains all weights.", ge=0)
    ] = 4
    cuda_mem_frac: Annotated[
        float, Field(description="Part of a GPU's memory that a rank may take.", gt=0, le=1)
    ] = 1.0

    @property
    def benchmark(self) -> str:
        """The program, in its folder."""
        return f"{colossalai.FOLDER}/{BENCHMARK}"


_MODELS = {key.removeprefix("opt-"): shape for key, shape in presets.OPT.items()}


def problems(run: Run) -> Iterator[str]:
    """Yield what makes a run impossible."""
    yield from colossalai.problems(_MODELS)(run)
    rank = run.options.lora_rank
    if run.model is not None and rank > run.model.hidden_size:
        yield f"lora_rank={rank} is more than hidden_size={run.model.hidden_size}"


COLOSSALAI_OPT_LORA = Framework(
    name="colossalai_opt_lora",
    options=ColossalaiOptLoraOptions,
    template="colossalai.sh.j2",
    log_formats=colossalai.LOG_FORMATS,
    problems=problems,
    implied=colossalai.implied,
    columns=(
        *colossalai.COLUMNS,
        Column("LoRA rank", "lora_rank", lambda run: run.options.lora_rank),
    ),
    measures=colossalai.MEASURES,
    measured_by=colossalai.MEASURED_BY,
    reports_steps=False,
    needs_gpus=framework_on_gpus,
    paths=("source",),
    files=colossalai.files(BENCHMARK),
    steps_on_cpu=colossalai.steps_on_cpu,
    program=lambda run: "colossalai_opt_lora",
)
