"""Find the smallest changes to a run's settings after which the run fits into memory."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from typing import Any

from orchestrator.campaign.checks import run_problems
from orchestrator.campaign.fit import Capacity, capacity, fits, gib, run_forecast
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.forecast import MemoryForecast
from orchestrator.run.model import Run
from parsers.summary.warmup import Warmup

Settings = Mapping[str, Any]

_STRATEGY = re.compile(r"ddp|zero[0-3]")
_LAST_ZERO_STAGE = 3


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changed settings of a run, and the memory forecast of the run with these settings.

    settings: the changed parameters with their new values, e.g. {"micro_batch_size": 2}.
    fits: whether the run then fits into memory: `yes` or `maybe`.
    """

    settings: Settings
    forecast: MemoryForecast
    fits: str

    def __str__(self) -> str:
        given = ", ".join(f"{name}: {_yaml(value)}" for name, value in self.settings.items())
        return f"{given}  ({_interval(self.forecast)} GiB)"


def suggestion_lines(run: Run, cluster: Cluster, warmup: Warmup) -> list[str]:
    """Return lines that suggest other settings for a run that had too little memory.

    If no settings can be suggested, the lines give the reason.
    """
    own, room = run_forecast(run, cluster), capacity(run, cluster)
    if own is None or room is None:
        what = "the memory that the run needs" if own is None else "the memory that a rank has"
        return [f"no settings to suggest: {what} is not known; see `teralog plan`"]
    needs = f"forecast {_interval(own)} GiB, and {room.owner} has {gib(room.gib)}"
    if fits(own, room) == "yes":
        return [f"{needs}: the run should fit; check whether another program used the memory"]
    suggestions = nearest_fitting(run, cluster, warmup, room)
    if not suggestions:
        return [
            (
                f"{needs}: none of the settings that teralog tried would fit; use more ranks "
                "or a smaller model"
            )
        ]
    would = "would" if suggestions[0].fits == "yes" else "may"
    return [
        f"{needs}; settings of the campaign file that {would} fit:",
        *(f"  {suggestion}" for suggestion in suggestions),
    ]


def nearest_fitting(run: Run, cluster: Cluster, warmup: Warmup, room: Capacity) -> list[Suggestion]:
    """Return the smallest changes to a run's settings after which the run fits into `room`.

    room: the memory that a rank can use. Four types of changes are tried, first each alone and
    then several together: a smaller micro-batch, activation checkpointing, a higher ZeRO stage,
    and a larger tensor-parallel size. The global batch size stays the same. If some changes have
    the verdict `yes`, those with the verdict `maybe` are left out.
    """
    kinds = [list(kind) for kind in (_micro_batches(run), _recomputation(run), _zero(run))]
    kinds += [list(_tensor_parallel(run, cluster))]
    kinds = [kind for kind in kinds if kind]
    maybe: list[Suggestion] = []
    for count in range(1, len(kinds) + 1):
        sure: list[Suggestion] = []
        possible: list[Suggestion] = []
        for chosen in combinations(kinds, count):
            tried = [
                suggestion
                for suggestion in _tried(run, cluster, warmup, room, chosen)
                if suggestion.fits != "no"
            ]
            sure += [suggestion for suggestion in tried if suggestion.fits == "yes"][:1]
            possible += tried[:1]
        if sure:
            return sure
        maybe = maybe or possible
    return maybe


def _tried(
    run: Run,
    cluster: Cluster,
    warmup: Warmup,
    room: Capacity,
    kinds: Sequence[Sequence[Settings]],
) -> Iterator[Suggestion]:
    for some in product(*kinds):
        settings = {name: value for change in some for name, value in change.items()}
        changed = with_settings(run, settings)
        if any(run_problems(changed, cluster, warmup)):
            continue
        forecast = run_forecast(changed, cluster)
        verdict = fits(forecast, room)
        if forecast is None or verdict is None:
            continue
        if changed.num_microbatches != run.num_microbatches:
            settings["num_microbatches"] = changed.num_microbatches
        yield Suggestion(settings, forecast, verdict)


def with_settings(run: Run, settings: Settings) -> Run:
    """Return a copy of the run with changed parameters, but with the same global batch size."""

    def changed(part: Any) -> Any:
        names = {field.name for field in fields(part)} & settings.keys()
        return replace(part, **{name: settings[name] for name in names})

    options = changed(run.options)
    given = changed(run.parallelism.given)
    return replace(
        run,
        parallelism=FRAMEWORKS[run.framework].divided(given, run.world_size, options),
        batch=changed(run.batch),
        training=changed(run.training),
        options=options,
    )


def _micro_batches(run: Run) -> Iterator[Settings]:
    now = run.batch.micro_batch_size
    for size in range(now - 1, 0, -1):
        if now % size == 0:
            yield {"micro_batch_size": size}


def _recomputation(run: Run) -> Iterator[Settings]:
    if not run.training.activation_checkpointing:
        yield {"activation_checkpointing": True}


def _zero(run: Run) -> Iterator[Settings]:
    """Yield the settings that give the run a higher ZeRO stage.

    Frameworks have different parameters for the stage: `zero_stage`, or `strategy` with values such
    as `zero2`. If a framework has only `use_distributed_optimizer`, and the run sets this parameter
    to False, the only setting is `use_distributed_optimizer: True`.
    """
    options = {field.name: getattr(run.options, field.name) for field in fields(run.options)}
    stages = range((run.zero_stage or 0) + 1, _LAST_ZERO_STAGE + 1)
    if "zero_stage" in options:
        yield from ({"zero_stage": stage} for stage in stages)
    elif _STRATEGY.fullmatch(str(options.get("strategy"))):
        yield from ({"strategy": f"zero{stage}"} for stage in stages)
    elif options.get("use_distributed_optimizer") is False:
        yield {"use_distributed_optimizer": True}


def _tensor_parallel(run: Run, cluster: Cluster) -> Iterator[Settings]:
    """Yield settings with larger tensor-parallel sizes, up to the number of GPUs of a node.

    Yields nothing on a cluster without GPUs.
    """
    if not cluster.has_gpus:
        return
    size = 2 * run.parallelism.tensor_parallel_size
    while size <= run.resources.gpus_per_node:
        yield {"tensor_parallel_size": size}
        size *= 2


def _interval(forecast: MemoryForecast) -> str:
    return f"{gib(forecast.low_gib)} to {gib(forecast.high_gib)}"


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
