"""`colossalai_gpt`: ColossalAI's benchmark of RLHF with GPTs, `benchmark_gpt_dummy.py`."""

from dataclasses import dataclass

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

BENCHMARK = "benchmark_gpt_dummy.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiGptOptions(shared.ColossalaiOptions):
    """Parameters that only the benchmark with GPTs has."""

    @property
    def benchmark(self) -> str:
        """The path of the benchmark program in ColossalAI's folder."""
        return f"{shared.FOLDER}/{BENCHMARK}"


COLOSSALAI_GPT = Framework(
    name="colossalai_gpt",
    description=(
        "ColossalAI's benchmark of RLHF with GPTs on dummy prompts, with the throughput and "
        "TFLOPS that it prints"
    ),
    options=ColossalaiGptOptions,
    labelled_by=("strategy",),
    implied=shared.implied,
    checks=Checks(
        problems=shared.problems(presets.GPT),
        needs_gpus=framework_on_gpus,
    ),
    start=Start(
        template="colossalai.sh.j2",
        paths=("source",),
        files=shared.files(BENCHMARK),
        steps_on_cpu=shared.steps_on_cpu,
        program=lambda run: "colossalai_gpt",
        asks=lambda run: "ask_argparse",
    ),
    log=ProgramLog(
        formats=shared.LOG_FORMATS,
        reports_steps=False,
    ),
    report=OwnColumns(
        chosen=shared.COLUMNS,
        measures=shared.MEASURES,
        measured_by=shared.MEASURED_BY,
    ),
)
