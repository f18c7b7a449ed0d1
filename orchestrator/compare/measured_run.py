"""Read the runs to compare: their settings, step times, places and dates."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.labels import without_repeat
from orchestrator.campaign.parameters import option_names
from orchestrator.collect.attempt_log import read_attempt_log
from orchestrator.collect.endings import Ending, endings
from orchestrator.collect.outcomes import RunOutcome, run_outcome
from orchestrator.common.text import named, natural
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.recorded_runs import started_records
from parsers.summary.launches import Configured
from parsers.summary.warmup import Warmup

# Parameters that can be computed from others, or that do not influence the speed.
_NO_CHOICE = frozenset(
    [
        "cluster",
        "repeat",
        "seed",
        "time_limit_seconds",
        "gpu_hours",
        "model",
        "parameters",
        "parameters_billions",
        "padded_vocab_size",
        "world_size",
        "data_parallel_size",
        "num_microbatches",
        "global_batch_size",
    ]
)


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """The values of a run and of its last attempt that `compare` needs. Unknown values are None.

    values: every parameter and size by name. step_seconds: the step times of the reports after the
    warm-up; empty if the run did not complete. overflowed: whether every report after the warm-up
    includes a skipped update, so that no step time is known. place: the place in the block. nodes:
    the names of the nodes. crowded: a text on how many ranks and other runs shared the cores of
    this machine; None if the run was not crowded.
    """

    run_id: str
    label: str
    values: Mapping[str, Any]
    state: str
    outcome: RunOutcome | None
    step_seconds: tuple[float, ...] = ()
    overflowed: bool = False
    allocation: str | None = None
    block: int | None = None
    place: int | None = None
    started_at: str | None = None
    nodes: str | None = None
    crowded: str | None = None

    @property
    def seconds(self) -> float | None:
        """The median step time; None without a step time.

        The median is used because a single slow step hardly changes it.
        """
        return (median(self.step_seconds) if self.step_seconds else None) or None

    @property
    def trouble(self) -> str | None:
        """The reason why the run has no step time; None if it has a step time."""
        if self.seconds is not None:
            return None
        if self.overflowed:
            return "completed, with a skipped update in every report after its warm-up"
        if self.outcome == RunOutcome.COMPLETED:
            return "completed without a step time after its warm-up"
        if self.outcome is None:
            return self.state.lower().replace("_", " ")
        return self.outcome.upper()

    @property
    def kind(self) -> str:
        """The name of the run's configuration, without its repeat."""
        return without_repeat(self.label)

    @cached_property
    def choices(self) -> dict[str, str]:
        """The settings that distinguish configurations, each as JSON text, by name.

        The cluster, the repeat and the time limit are left out. The seed is left out because it
        does not change the amount of computation. Values that can be computed from other settings
        are also left out, e.g. the number of micro-batches. The global batch is left out because
        `what_repeats_share` adds it.
        """
        chosen = {name: value for name, value in self.values.items() if name not in _NO_CHOICE}
        if "zero_stage" in chosen and "zero_stage" not in option_names(chosen["framework"]):
            # zero_stage follows from another option of the framework, or the framework has no ZeRO.
            del chosen["zero_stage"]
        if chosen.get("hidden_size") and chosen["ffn_hidden_size"] == 4 * chosen["hidden_size"]:
            del chosen["ffn_hidden_size"]
        return {name: json.dumps(value, sort_keys=True) for name, value in chosen.items()}

    @property
    def what_repeats_share(self) -> tuple[object, ...]:
        """The settings and the global batch: the same for all runs of one configuration."""
        return (*sorted(self.choices.items()), self.values.get("global_batch_size"))

    @property
    def tokens(self) -> int | None:
        """The number of tokens per step.

        None if the global batch or the sequence length is not known.
        """
        batch, length = self.values.get("global_batch_size"), self.values.get("seq_length")
        return batch * length if batch and length else None


def trouble_lines(runs: Iterable[MeasuredRun]) -> Iterator[str]:
    """Yield a sentence for each reason why runs have no step time, with the runs' labels."""
    labels: dict[str, list[str]] = {}
    for run in runs:
        if run.trouble is not None:
            labels.setdefault(run.trouble, []).append(run.label)
    for trouble, names in labels.items():
        yield f"Left out because {trouble}: {', '.join(names)}."


def crowded_lines(runs: Iterable[MeasuredRun]) -> Iterator[str]:
    """Yield a sentence with the names of the crowded runs, if there are any.

    Runs without a step time are left out.
    """
    crowded = [f"{run.label} ({run.crowded})" for run in runs if run.crowded and run.seconds]
    if crowded:
        yield (
            f"Crowded on this machine, which makes steps slower: {named(crowded)}; "
            "`teralog submit --slots 1` starts one run at a time."
        )


def measured_runs(campaign: Campaign, store: CampaignStore) -> list[MeasuredRun]:
    """Read what `compare` needs of each run of a campaign; keep the campaign's order."""
    ends = endings(campaign.runs, store)
    return [
        _measured(
            planned.run_id,
            planned.label,
            sizes(planned.run),
            ending,
            warmup=campaign.warmup,
        )
        for planned, ending in zip(campaign.runs, ends, strict=True)
    ]


def recorded_runs(folder: Path, warmup: Warmup) -> list[MeasuredRun]:
    """Return the started runs of a campaign, as its results folder records them.

    warmup: the warm-up to leave out of the step times. The runs are sorted by label, because the
    folder does not record the order of the campaign file. Numbers in labels are sorted by size, so
    that 2 comes before 10. Raises UserError if the folder contains no started run of a campaign.
    """
    store = CampaignStore(folder)
    records = sorted(started_records(store), key=lambda record: natural(record["label"]))
    not_settings = {"run_id", "label", "campaign", "rehearsal", "teralog", "asked"}
    return [
        _measured(
            record["run_id"],
            record["label"],
            {name: value for name, value in record.items() if name not in not_settings},
            Ending(*run_outcome(store.run(record["run_id"]))),
            warmup=warmup,
        )
        for record in records
    ]


def _measured(
    run_id: str,
    label: str,
    values: Mapping[str, Any],
    ending: Ending,
    *,
    warmup: Warmup,
) -> MeasuredRun:
    attempts = ending.attempts
    seconds: list[float] = []
    overflowed = False
    if ending.outcome == RunOutcome.COMPLETED and attempts:
        configured = Configured(values["train_iters"], values["global_batch_size"])
        read = read_attempt_log(
            attempts[-1], values["framework"], configured, warmup, complete=True
        )
        seconds, overflowed = read.reports.seconds, read.reports.overflowed
    measured = MeasuredRun(
        run_id=run_id,
        label=label,
        values=values,
        state=ending.state,
        outcome=ending.outcome,
        step_seconds=tuple(duration for duration in seconds if duration > 0),
        overflowed=overflowed,
    )
    if not attempts:
        return measured
    last, started = attempts[-1], attempts[-1].started
    return replace(
        measured,
        allocation=last.allocation,
        block=started.block if started else None,
        place=started.place if started else None,
        started_at=last.started_at,
        nodes=last.nodes,
        crowded=last.crowded,
    )
