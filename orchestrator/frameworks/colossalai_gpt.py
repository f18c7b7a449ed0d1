"""`colossalai_gpt`: ColossalAI's benchmark of RLHF with GPTs, `benchmark_gpt_dummy.py`."""

from dataclasses import dataclass

from orchestrator import presets
from orchestrator.frameworks import colossalai
from orchestrator.frameworks.base import Framework, framework_on_gpus

BENCHMARK = "benchmark_gpt_dummy.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiGptOptions(colossalai.ColossalaiOptions):
    """Parameters that only the benchmark with GPTs has."""

    @property
    def benchmark(self) -> str:
        """The program, in its folder."""
        return f"{colossalai.FOLDER}/{BENCHMARK}"


COLOSSALAI_GPT = Framework(
    name="colossalai_gpt",
    options=ColossalaiGptOptions,
    template="colossalai.sh.j2",
    log_formats=colossalai.LOG_FORMATS,
    problems=colossalai.problems(presets.GPT),
    implied=colossalai.implied,
    columns=colossalai.COLUMNS,
    measures=colossalai.MEASURES,
    measured_by=colossalai.MEASURED_BY,
    reports_steps=False,
    needs_gpus=framework_on_gpus,
    paths=("source",),
    files=colossalai.files(BENCHMARK),
    steps_on_cpu=colossalai.steps_on_cpu,
    program=lambda run: "colossalai_gpt",
)
