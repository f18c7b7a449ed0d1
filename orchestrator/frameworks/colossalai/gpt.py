"""`colossalai_gpt`: ColossalAI's benchmark of RLHF with GPTs, `benchmark_gpt_dummy.py`."""

from dataclasses import dataclass

from orchestrator.frameworks.base import Framework, framework_on_gpus
from orchestrator.frameworks.colossalai import shared
from orchestrator.run import presets

BENCHMARK = "benchmark_gpt_dummy.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiGptOptions(shared.ColossalaiOptions):
    """Parameters that only the benchmark with GPTs has."""

    @property
    def benchmark(self) -> str:
        """The program, in its folder."""
        return f"{shared.FOLDER}/{BENCHMARK}"


COLOSSALAI_GPT = Framework(
    name="colossalai_gpt",
    options=ColossalaiGptOptions,
    template="colossalai.sh.j2",
    log_formats=shared.LOG_FORMATS,
    problems=shared.problems(presets.GPT),
    implied=shared.implied,
    columns=shared.COLUMNS,
    measures=shared.MEASURES,
    measured_by=shared.MEASURED_BY,
    reports_steps=False,
    needs_gpus=framework_on_gpus,
    paths=("source",),
    files=shared.files(BENCHMARK),
    steps_on_cpu=shared.steps_on_cpu,
    program=lambda run: "colossalai_gpt",
)
