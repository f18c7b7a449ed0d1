"""Open a command's campaign and its results, refresh its records, and report failed runs."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from orchestrator.cli.shared.terminal import complain, told_if_slow
from orchestrator.common.text import counted, printable

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign
    from orchestrator.status.table import RunStatus
    from orchestrator.store.campaign_store import CampaignStore
    from orchestrator.store.results_folder import Elsewhere


def open_campaign(
    campaign: Path,
    results: Path | None,
    *,
    rehearsed: bool = False,
    allow_unknown_arguments: bool = False,
) -> "tuple[Campaign, CampaignStore]":
    """Return the campaign in a file, and the folder of its results.

    Prints the path of this folder to stderr, unless the user typed `--results`. Also prints which
    other folders contain results of the campaign. Raises UserError with all problems of the file.

    results: the value of `--results`, or None.
    rehearsed: whether to return the campaign's rehearsal instead, with the rehearsal's folder.
    allow_unknown_arguments: if true, an argument that a run's program does not accept causes only
        a warning. If false, the run is impossible.
    """
    from dataclasses import replace

    from orchestrator.campaign.campaign import load_campaign
    from orchestrator.store.campaign_store import campaign_store
    from orchestrator.store.results_folder import folder_of, results_folder

    loaded = replace(load_campaign(campaign), given_results=results)
    if allow_unknown_arguments:
        runs = tuple(
            replace(
                planned,
                unknown_arguments=(),
                warnings=(*planned.unknown_arguments, *planned.warnings),
            )
            for planned in loaded.runs
        )
        loaded = replace(loaded, runs=runs)
    if rehearsed:
        # Each script is tried, whatever the outcome of the others; memory and time do not matter.
        runs = tuple(
            replace(planned, series=None, memory_problem=None, core_problem=None)
            for planned in loaded.runs
        )
        loaded = replace(loaded, rehearsal=True, runs=runs, order_seed=None)
    place = results_folder(folder_of(campaign)) if results is None else results
    store = campaign_store(place, loaded.name, rehearsal=rehearsed)
    if not _is_typed("results"):
        click.echo(printable(f"results: {from_here(store.path)}"), err=True)
    for other in other_results(loaded, store):
        name = loaded.name
        runs_were = counted(len(other.runs), f"run of {name} was", f"runs of {name} were")
        complain(
            f"{runs_were} also started in {from_here(other.store.path)}; to see them, "
            f"add `--results {shlex.quote(from_here(other.results))}`"
        )
    return loaded, store


def _is_typed(option: str) -> bool:
    """Return whether the user typed an option on the command line.

    Otherwise, the option's value is its default or comes from an environment variable.
    """
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def other_results(campaign: "Campaign", store: "CampaignStore") -> "list[Elsewhere]":
    """Return folders that also contain results of a campaign, except the folder of `store`.

    Looks near the campaign file and in the current folder. For a rehearsal, the result is empty.
    """
    from orchestrator.store.results_folder import elsewhere, folder_of

    if campaign.rehearsal:
        return []
    run_ids = [planned.run_id for planned in campaign.runs]
    return elsewhere(campaign.name, run_ids, store.path.parent, folder_of(campaign.path))


def from_here(path: Path) -> str:
    """Return a path as a user would type it: relative if it is in the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def refresh_records(campaign: "Campaign", store: "CampaignStore") -> bool:
    """Update the records of a campaign's runs; return whether they are up to date now.

    If records are not up to date, prints the reasons, e.g. that Slurm did not answer. Also prints
    a message if the campaign was only rehearsed, because then no run was started.
    """
    from orchestrator.submit.choose_backend import backend

    with told_if_slow("asking Slurm …"):
        notes = backend(campaign).refresh(campaign.runs, store)
    for note in notes:
        complain(note)
    if store.only_rehearsed:
        complain(
            f"{campaign.name} was only rehearsed; none of its runs was started: `teralog status "
            f"{campaign.arguments} --rehearsed` shows the rehearsal"
        )
    return not notes


def submit_line(campaign: "Campaign") -> str:
    """Return the command that starts the runs of a campaign, or of its rehearsal."""
    return f"teralog submit {campaign.arguments}{' --rehearse' if campaign.rehearsal else ''}"


def exit_for(failed: "Sequence[RunStatus]", campaign: "Campaign") -> None:
    """Print the failed runs and the command that starts them again, and exit with 1.

    failed: the failed runs; if it is empty, the function does nothing.
    """
    from orchestrator.status.table import failure_line

    for status in failed:
        click.echo(failure_line(status), err=True)
    if failed:
        again = f"teralog retry {campaign.arguments}{' --rehearsed' if campaign.rehearsal else ''}"
        click.echo(f"`{again}` starts again the runs that did not complete", err=True)
        sys.exit(1)
