"""Collect the values of each run for the plots that compare configurations."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.report.configurations import configurations

Forecast = tuple[tuple[str, float], ...]
Box = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The values of each run for the plots, in the order of the runs; an unknown value is None.

    labels: the labels of the configurations.
    configuration: for each run, the index of its configuration in `labels`.
    tflops: TFLOPs per GPU.
    peak_gib: the peak memory in the log, in GiB.
    forecast: for each part of the memory forecast, its name and the middle of its range in GiB.
    boxes: five numbers about the step times after the warm-up, in seconds: the lowest value, the
        three quartiles and the highest value.
    completed: whether the run completed; true for every row of a published table.
    """

    labels: tuple[str, ...]
    configuration: tuple[int, ...]
    tflops: tuple[float | None, ...]
    peak_gib: tuple[float | None, ...]
    forecast: tuple[Forecast | None, ...]
    boxes: tuple[Box | None, ...]
    completed: tuple[bool, ...]


def campaign_facts(
    campaign: Campaign, runs: Sequence[Collected], tflops: Sequence[float | None]
) -> Facts:
    """Return the values of a campaign's runs for the plots.

    tflops: the report's column of TFLOPs per GPU, one value per run.
    """
    groups = configurations(runs)
    place = {run_id: at for at, group in enumerate(groups) for run_id in group.run_ids}
    return Facts(
        labels=tuple(group.label for group in groups),
        configuration=tuple(place[run.planned.run_id] for run in runs),
        tflops=tuple(tflops),
        peak_gib=tuple(run.summary.max_memory_allocated_gib for run in runs),
        forecast=tuple(_forecast(campaign, run) for run in runs),
        boxes=tuple(_box(run.reports.seconds) for run in runs),
        completed=tuple(run.outcome == RunOutcome.COMPLETED for run in runs),
    )


def samples_per_second(runs: Sequence[Collected]) -> list[float | None]:
    """Return the samples/s of each run: its global batch divided by its median step time.

    The result is None for a run if the global batch or the step time is not known.
    """
    return [
        batch / seconds
        if (batch := run.planned.run.batch.global_batch_size)
        and (seconds := run.summary.step_seconds_median)
        else None
        for run in runs
    ]


def _forecast(campaign: Campaign, run: Collected) -> Forecast | None:
    forecast = run.planned.memory
    if forecast is None:
        return None
    # On a GPU, programs log the memory that torch's allocator has handed out.
    shown = forecast.tensors if campaign.cluster.has_gpus else forecast
    return tuple((part.name, (part.low_gib + part.high_gib) / 2) for part in shown.parts)


def _box(seconds: Sequence[float]) -> Box | None:
    if len(seconds) < 2:
        return None
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return min(seconds), low, middle, high, max(seconds)
