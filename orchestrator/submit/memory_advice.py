"""Suggest settings for runs that ran out of memory, before they are started again."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.collect.outcomes import RunOutcome, run_outcome
from orchestrator.common.errors import UserError
from orchestrator.common.text import counted, printable
from orchestrator.estimate.fitting_settings import suggestion_lines
from orchestrator.run.identity import run_id
from orchestrator.slurm.commands import job_memory_gib
from orchestrator.slurm.host_memory import asked_memory, memory_line
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from parsers.records import OutcomeKind

# As many as fit on a screen.
MOST_CONFIGURATIONS = 5


def memory_advice(
    campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore, *, memory: str | None
) -> Iterator[str]:
    """Yield advice about runs that ran out of memory, once for runs that differ only in `repeat`.

    memory: the value of `retry --memory`; None if the user did not give this option. With this
    option, the user has decided how much host memory the runs get on Slurm. So there is no
    advice about host memory then.
    """
    ended = ((planned, *run_outcome(store.run(planned.run_id))[1:]) for planned in runs)
    out_of_memory = [
        (
            planned,
            log_outcome is not None and log_outcome.kind == OutcomeKind.GPU_OUT_OF_MEMORY,
            attempts[-1],
        )
        for planned, outcome, log_outcome, attempts in ended
        if outcome == RunOutcome.OOM and attempts
    ]
    alike: dict[tuple[str, bool], list[tuple[PlannedRun, bool, Attempt]]] = {}
    for run in out_of_memory:
        alike.setdefault(_kind(*run[:2]), []).append(run)
    blocks = list(alike.values())
    for block in blocks[:MOST_CONFIGURATIONS]:
        planned, of_gpu, attempt = block[0]
        if of_gpu or (campaign.cluster.scheduler == "local" and not campaign.cluster.has_gpus):
            lines = suggestion_lines(planned.run, campaign.cluster, campaign.warmup)
        elif campaign.cluster.scheduler == "local":
            lines = ["ran out of this machine's memory, which teralog does not forecast"]
        elif memory is None:
            lines = [memory_line(_used_gib(attempt), _asked(attempt))]
        else:
            continue
        more = f" (and {counted(len(block) - 1, 'repeat')})" if len(block) > 1 else ""
        yield printable(f"{planned.label}{more}: {lines[0]}")
        yield from map(printable, lines[1:])
    if len(blocks) > MOST_CONFIGURATIONS:
        hidden = len(blocks) - MOST_CONFIGURATIONS
        yield f"and {counted(hidden, 'more configuration')}: name a run to see what would fit"


def _kind(planned: PlannedRun, of_gpu: bool) -> tuple[str, bool]:
    """Return a key by which runs are grouped; runs in a group get the same advice.

    Runs that differ only in `repeat` have the same key if the same memory was full. of_gpu: True if
    it was the memory of a GPU, False if it was the memory of the host.
    """
    return run_id(replace(planned.run, repeat=1)), of_gpu


def _used_gib(attempt: Attempt) -> float | None:
    job_id = attempt.job.job_id if attempt.job else None
    return job_memory_gib(job_id) if job_id else None


def _asked(attempt: Attempt) -> str | None:
    with suppress(OSError):
        return asked_memory((attempt.folder / "job.sh").read_text("utf-8", "replace"))
    return None


def refuse_nodes(campaign: Campaign, nodes: int | None) -> None:
    """Raise UserError if `retry` gets `--nodes`.

    A run with another number of nodes is another run, so it cannot be a retry.
    """
    if nodes is None:
        return
    raise UserError(
        f"--nodes: cannot be changed by `retry`, because a run with another number of nodes is a "
        f"new run. Set `nodes: {nodes}` in {campaign.path} ({_places(campaign)}), then type "
        f"`teralog submit {campaign.arguments} --accept-changes`"
    )


def _places(campaign: Campaign) -> str:
    from orchestrator.campaign.file import read_campaign_file

    file = read_campaign_file(campaign.path).file
    places = [
        *(["matrix.nodes"] if "nodes" in file.matrix else []),
        *(f"include[{at}].nodes" for at, entry in enumerate(file.include) if "nodes" in entry),
        *(["defaults.nodes"] if "nodes" in file.defaults else []),
    ]
    return " or ".join(places) or "under defaults"
