"""Choose the runs of a campaign to start."""

import shlex
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.plan import problem_lines
from orchestrator.collect.endings import endings
from orchestrator.collect.outcomes import run_outcome
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.text import counted
from orchestrator.common.validation import mapping_problems
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import INTERRUPTED, NOT_STARTED
from orchestrator.store.results_folder import Elsewhere
from orchestrator.submit.edits import edits


def possible_runs(
    campaign: Campaign, skip_impossible: bool, *, force: bool = False, oversubscribe: bool = False
) -> list[PlannedRun]:
    """Return the runs that can be started.

    force: also return the runs that will not fit into memory. oversubscribe: also return the runs
    with more ranks than this machine has cores. Raises UserError if no run is left. Without
    `skip_impossible`, raises UserError with all problems if any run cannot be started.
    """
    possible = [
        planned
        for planned in campaign.runs
        if not (planned.problems or planned.unknown_arguments)
        and (force or planned.memory_problem is None)
        and (oversubscribe or planned.core_problem is None)
    ]
    if len(possible) < len(campaign.runs) and not skip_impossible:
        remedies = "correct or exclude these runs, or add --skip-impossible to leave them out"
        if any(planned.unknown_arguments for planned in campaign.runs):
            remedies += (
                ", or add --allow-unknown-arguments if your version of the program accepts these "
                "arguments"
            )
        raise UserError(
            *(f"{campaign.path}: {line}" for line in problem_lines(campaign)),
            f"nothing was written; {remedies}",
        )
    if not possible:
        raise UserError(
            *(f"{campaign.path}: {line}" for line in problem_lines(campaign)),
            "no run can be started; correct the runs",
        )
    return possible


def submitted_runs(campaign: Campaign, store: CampaignStore) -> list[PlannedRun]:
    """Return the runs that were submitted.

    While a `submit` is active, returns all runs of the campaign, because the `submit` may submit
    each of them.
    """
    # If the file system has no locks, only the records show which runs were submitted.
    with suppress(OSError):
        if locks.is_held(store.submit_lock):
            return list(campaign.runs)
    return [planned for planned in campaign.runs if store.run(planned.run_id).next_number > 1]


def refuse_edited(campaign: Campaign, store: CampaignStore) -> None:
    """Raise UserError if the campaign's runs differ from those of its last submission.

    The message names the runs that were changed, added and removed. If no run has been started
    yet, the user may edit the campaign freely, and no error is raised.
    """
    started = any(store.run(identity).attempts() for identity in store.submitted_runs())
    changes = edits(campaign, store) if started else []
    if not changes:
        return
    raise UserError(
        f"{campaign.path}: was edited since campaign {campaign.name!r} was submitted: "
        f"{' and '.join(changes)}; nothing was started, and all results are kept. To continue "
        "with the edited file, pass --accept-changes; for a new campaign, change `name` in "
        "the file"
    )


def refuse_runs_elsewhere(
    campaign: Campaign, store: CampaignStore, others: Sequence[Elsewhere]
) -> None:
    """Raise UserError if a run that is missing here was started in another results folder.

    A run is missing if it was not started in `store`, or was interrupted there. store: the results
    folder in use. others: the other results folders, each with the runs of this campaign in it.
    """
    runs = missing_runs(campaign.runs, store) if others else ()
    missing = {planned.run_id for planned in runs}
    problems = [
        f"{campaign.path}: {counted(len(there), 'run')} missing in {store.path} "
        f"{'was' if len(there) == 1 else 'were'} started in {other.store.path}; to continue there, "
        f"give --results {shlex.quote(str(other.results))}; to run them again, give --results "
        f"{shlex.quote(str(store.path.parent))}"
        for other in others
        if (there := missing.intersection(other.runs))
    ]
    if problems:
        raise UserError(*problems, "nothing was started")


def missing_runs(runs: Sequence[PlannedRun], store: CampaignStore) -> list[PlannedRun]:
    """Return the runs that were not started, or were interrupted.

    Runs that were given up, because an earlier run of their series failed, are left out.
    """
    return [
        planned
        for planned, ending in zip(runs, endings(runs, store), strict=True)
        if ending.state in (NOT_STARTED, INTERRUPTED)
    ]


def ended_runs(
    runs: Sequence[PlannedRun], store: CampaignStore, outcomes: Collection[str]
) -> list[PlannedRun]:
    """Return the runs whose outcome is one of `outcomes`."""
    return [planned for planned in runs if run_outcome(store.run(planned.run_id))[1] in outcomes]


def with_time_limit(runs: Sequence[PlannedRun], time_limit: str | None) -> list[PlannedRun]:
    """Return the runs with the time limit that the user gave; None keeps their own limits.

    time_limit: in minutes or in Slurm's notation, e.g. 6:00:00. The limit does not change the
    identity of a run. Raises UserError if `time_limit` is not valid.
    """
    seconds = parse_time_option(time_limit)
    return list(runs) if seconds is None else [_limited(planned, seconds) for planned in runs]


def parse_time_option(time_limit: str | None) -> int | None:
    """Return the value of --time in seconds; None if the user did not give this option.

    time_limit: the value: minutes, or a time in Slurm's notation, e.g. 6:00:00. Raises UserError
    if it is not valid.
    """
    if time_limit is None:
        return None
    try:
        return time_limit_seconds(int(time_limit) if time_limit.isdecimal() else time_limit)
    except ValueError as error:
        raise UserError(f"--time: {error}") from None


def _limited(planned: PlannedRun, seconds: int) -> PlannedRun:
    resources = replace(planned.run.resources, time_limit_seconds=seconds)
    return replace(planned, run=replace(planned.run, resources=resources))


def refuse_other_resources(**asked: str | None) -> None:
    """Raise UserError if `retry --here` got an option that requests resources, e.g. `--memory`.

    Such an option has no effect, because the allocation already has its nodes and memory. asked:
    the values of the options by name; None if an option is not given.
    """
    given = [f"--{name}" for name, value in asked.items() if value is not None]
    if given:
        them = "this option" if len(given) == 1 else "these options"
        raise UserError(
            f"{', '.join(given)}: the allocation already has its nodes and memory; remove {them}, "
            "or remove --here"
        )


def with_resources(campaign: Campaign, **asked: str | None) -> Campaign:
    """Return the campaign with other values of its cluster profile, e.g. for `partition`.

    asked: the values by name; None keeps the value of the profile. These values do not change the
    identity of a run. Raises UserError with every invalid value. Also raises UserError if a value
    is given, but the campaign runs on this machine.
    """
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if given and campaign.cluster.scheduler != "slurm":
        options = ", ".join(f"--{name}" for name in given)
        raise UserError(
            f"{options}: can be used only on a Slurm cluster; cluster {campaign.cluster.name} "
            "is this machine"
        )
    problems = [f"{name}: is empty; give a value" for name, value in given.items() if not value]
    filled = {name: value for name, value in given.items() if value}
    problems += mapping_problems("", Cluster, {"name": campaign.cluster.name, **filled})
    if problems:
        raise UserError(*(f"--{problem}" for problem in problems))
    if "memory" in given:
        given["memory_per_gpu"] = None
    return replace(campaign, cluster=replace(campaign.cluster, **given))


def choose(runs: Sequence[PlannedRun], names: Sequence[str]) -> list[PlannedRun]:
    """Return the runs with these ids, beginnings of ids, or labels; all runs if `names` is empty.

    Several runs may have the same label; then all of them are returned. Raises UserError with every
    name that matches no run, or with which several ids begin.
    """
    if not names:
        return list(runs)
    chosen: dict[str, PlannedRun] = {}
    problems = []
    for name in names:
        fitting = [run for run in runs if name and run.run_id.startswith(name)]
        labelled = [run for run in runs if run.label == name]
        if labelled:
            fitting = labelled
        elif len(fitting) > 1:
            problems.append(
                f"{name!r} is the beginning of {len(fitting):,} run ids; give more digits"
            )
        if not fitting:
            problems.append(f"there is no run {name!r}; see `teralog status` for ids and labels")
        chosen.update((run.run_id, run) for run in fitting)
    if problems:
        raise UserError(*problems)
    return [run for run in runs if run.run_id in chosen]


def log_of(
    runs: Sequence[PlannedRun], store: CampaignStore, attempt: int | None, *, waiting: bool
) -> Path:
    """Return the log of the only run in `runs`.

    attempt: the number of the attempt; None for the last one. waiting: whether the caller waits for
    the log, so that it may not exist yet. Raises UserError if `runs` has several runs, or if there
    is no such attempt or no log.
    """
    if len(runs) > 1:
        raise UserError(
            "several runs have this label; give the id of one run, which `teralog status` shows"
        )
    folder = store.run(runs[0].run_id)
    attempts = folder.attempts()
    fitting = [start for start in attempts if attempt in (None, start.number)]
    if not fitting:
        had = ", ".join(str(attempt.number) for attempt in attempts)
        raise UserError(
            f"{runs[0].label}: has no attempt {attempt}; its attempts are {had}"
            if attempts
            else f"{runs[0].label}: has not been started"
        )
    log = fitting[-1].log
    if not waiting and not log.exists():
        raise UserError(f"{log}: does not exist yet; --follow waits for it")
    return log


def has_ended(planned: PlannedRun, store: CampaignStore) -> bool:
    """Return whether a run has ended, in any state."""
    return run_outcome(store.run(planned.run_id))[1] is not None
