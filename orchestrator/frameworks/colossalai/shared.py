"""Options, checks and numbers that ColossalAI's two RLHF benchmarks share.

The benchmarks train an actor and a critic by PPO, and keep a frozen copy of each of these two
models. An episode has two phases: the program first generates experience, token by token, and then
learns from this experience. Batch sizes are per GPU. For each phase, the benchmarks print a rate
over all episodes except the first. They print no step times. The formulas for the FLOPs of a GPT's
iteration do not apply to them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.base import Logged
from orchestrator.frameworks.limits import unaccumulated, unheard, unsplit
from orchestrator.run import presets
from orchestrator.run.model import Run
from orchestrator.run.shape import ModelShape
from parsers.formats.colossalai import COLOSSALAI_MODELS, COLOSSALAI_THROUGHPUT
from parsers.records import RunTotals

ColossalaiStrategy = Literal[
    "ddp",
    "colossalai_gemini",
    "colossalai_gemini_cpu",
    "colossalai_zero2",
    "colossalai_zero2_cpu",
    "colossalai_zero1",
    "colossalai_zero1_cpu",
]
DEFAULT_STRATEGY: ColossalaiStrategy = "ddp"
FOLDER = "applications/Chat/benchmarks"
LOG_FORMATS = (COLOSSALAI_MODELS, COLOSSALAI_THROUGHPUT)
MEASURED_BY = (
    "samples/s and TFLOPS per GPU: as ColossalAI's benchmark prints them, without the first "
    "episode. Per token and parameter, it counts 2 FLOPs for the forward pass of a model, and 6 "
    "for the training of actor and critic. It does not count attention. Peak memory: that of the "
    "first rank's allocator"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColossalaiOptions:
    """Parameters that only ColossalAI's benchmarks have."""

    source: Annotated[
        str,
        Field(description="The folder of ColossalAI, relative to the campaign file.", min_length=1),
    ]
    strategy: Annotated[
        ColossalaiStrategy,
        Field(description="torch DDP or ColossalAI's ZeRO; names with _cpu offload to the CPU."),
    ] = DEFAULT_STRATEGY
    experience_batch_size: Annotated[
        int | None,
        Field(
            description=("Prompts that a GPU processes at a time; micro_batch_size if not given."),
            ge=1,
        ),
    ] = None
    num_episodes: Annotated[
        int, Field(description="Number of episodes; the first is not measured.", ge=1)
    ] = 3
    max_timesteps: Annotated[
        int, Field(description="Batches of experience that an episode makes.", ge=1)
    ] = 8
    update_timesteps: Annotated[
        int, Field(description="Batches of experience between two phases of learning.", ge=1)
    ] = 8
    max_epochs: Annotated[
        int, Field(description="Passes of learning over the same experience.", ge=1)
    ] = 3

    @property
    def launcher(self) -> str:
        """The launcher of the ranks, which is always `torchrun`."""
        return "torchrun"


def experience_batch_size(run: Run) -> int:
    """Return how many prompts a GPU processes at a time in the phase that generates experience."""
    given: int | None = run.options.experience_batch_size
    return run.batch.micro_batch_size if given is None else given


def implied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the precision of a run, which follows from the value of its parameter `strategy`."""
    return {"precision": _precision(values.get("strategy", DEFAULT_STRATEGY))}


def _precision(strategy: str) -> str:
    return "fp32" if strategy == "ddp" else "fp16"


def steps_on_cpu(run: Run) -> bool:
    """Return whether the optimizer, HybridAdam, has its states on the CPU."""
    return bool(run.options.strategy.endswith("_cpu"))


def problems(models: Mapping[str, ModelShape]) -> Callable[[Run], Iterator[str]]:
    """Return a function that yields each reason why a run of one benchmark is impossible.

    models: the sizes of the models that the benchmark can train, by the model's name.
    """

    def found(run: Run) -> Iterator[str]:
        yield from _model_problems(run, models)
        yield from unsplit(run)
        yield from unaccumulated(run)
        yield from unheard(run, "train_iters", "learning_rate", "seed", "activation_checkpointing")
        yield from _strategy_problems(run)
        yield from _phase_problems(run)

    return found


def _model_problems(run: Run, models: Mapping[str, ModelShape]) -> Iterator[str]:
    key = (run.model_name or "").removeprefix("opt-")
    if key not in models:
        yield (
            f"framework {run.framework} has no model {run.model_name!r}; choose one of "
            f"{', '.join(models)}"
        )
    elif run.model != models[key]:
        # Both tables have a model `10b`; without a prefix, GPT's model is meant.
        is_gpt = run.model == presets.GPT.get(run.model_name or "")
        model = f"opt-{key}" if is_gpt else run.model_name
        yield (
            f"framework {run.framework} has its own sizes for model {key!r}; write `model: "
            f"{model}`, without sizes"
        )


def _strategy_problems(run: Run) -> Iterator[str]:
    strategy, precision = run.options.strategy, run.training.precision
    if precision != _precision(strategy):
        yield f"strategy {strategy} trains in {_precision(strategy)}, not in precision={precision}"


def _phase_problems(run: Run) -> Iterator[str]:
    options: ColossalaiOptions = run.options
    episodes, steps, update = options.num_episodes, options.max_timesteps, options.update_timesteps
    if episodes < 2:
        yield (
            "num_episodes=1: the first episode is not measured, so there would be no results; "
            "give at least 2"
        )
    elif episodes * steps // update == steps // update:
        yield (
            f"update_timesteps={update} is too large: no learning happens after the first "
            f"episode, which is not measured (num_episodes={episodes}, max_timesteps={steps}); "
            "give a smaller update_timesteps"
        )
    made, batch = experience_batch_size(run) * update, run.batch.micro_batch_size
    if made < batch:
        yield (
            f"experience_batch_size*update_timesteps={made} is less than "
            f"micro_batch_size={batch}, so an update would have less than one batch to learn "
            "from; raise update_timesteps"
        )


def _totals(logged: Logged, phase: str) -> RunTotals | None:
    totals = (
        record
        for record in logged.records
        if isinstance(record, RunTotals) and record.phase == phase
    )
    return max(totals, key=lambda record: record.offset, default=None)


def samples_per_second_per_gpu(logged: Logged, phase: str) -> float | None:
    """Return the samples per second per GPU of a phase; None if the log has no such rate.

    phase: `make_experience` (the program generates experience) or `learn` (the program learns from
    the experience). Since version 0.3.0, the program prints the rate of all GPUs together. This
    function divides that rate by the number of GPUs.
    """
    totals = _totals(logged, phase)
    if totals is None or totals.samples_per_second is None:
        return None
    return totals.samples_per_second / (1 if totals.per_gpu else logged.run.world_size)


def claimed_tflops_per_gpu(logged: Logged, phase: str) -> float | None:
    """Return the TFLOPs per GPU that the program prints for a phase; None if the log has none.

    phase: `make_experience` (the program generates experience) or `learn` (the program learns from
    the experience).
    """
    totals = _totals(logged, phase)
    return None if totals is None else totals.tflops_per_gpu


def _measures(phase: str, title: str) -> tuple[Column[Logged], ...]:
    return (
        Column(
            f"{title} (samples/s/GPU)",
            f"{phase}_samples_per_second_per_gpu",
            lambda logged: samples_per_second_per_gpu(logged, phase),
        ),
        Column(
            f"{title} (TFLOPS/GPU)",
            f"{phase}_tflops_per_gpu",
            lambda logged: claimed_tflops_per_gpu(logged, phase),
        ),
    )


MEASURES = (*_measures("make_experience", "experience"), *_measures("learn", "learning"))
COLUMNS: tuple[Column[Run], ...] = (
    Column("strategy", "strategy", lambda run: run.options.strategy),
    Column("experience batch", "experience_batch", experience_batch_size),
)


def files(benchmark: str) -> Callable[[Mapping[str, str]], list[str]]:
    """Return a function that lists the files that a run opens.

    benchmark: the file name of the benchmark program.
    """
    return lambda paths: [f"{paths['source']}/{FOLDER}/{benchmark}"]
