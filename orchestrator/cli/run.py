"""The commands that start runs, show their states, and end them."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from orchestrator.cli.common import (
    campaign_argument,
    json_option,
    open_campaign,
    print_objects,
    results_option,
    skip_option,
)

if TYPE_CHECKING:
    from orchestrator.campaign import Campaign, PlannedRun
    from orchestrator.store import CampaignStore

slots_option = click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Most runs at once.  [default: as many as GPUs, or cores, allow]",
)


@click.command()
@campaign_argument
@results_option
@slots_option
@skip_option
@click.option(
    "--accept-changes", is_flag=True, help="Go on with a campaign that was edited after it ran."
)
@click.option("--force", is_flag=True, help="Start also the runs that are forecast not to fit.")
def submit(
    campaign: Path,
    results: Path,
    slots: int | None,
    skip_impossible: bool,
    accept_changes: bool,
    *,
    force: bool,
) -> None:
    """Start the runs of CAMPAIGN that are missing, and wait for them.

    Ctrl-C stops what is running; a second submit goes on with what is missing. Exits with 1 where
    a run failed.
    """
    from orchestrator import local_submission, submission

    loaded, store = open_campaign(campaign, results)
    runs = submission.possible_runs(loaded, skip_impossible, force=force)
    if not accept_changes:
        submission.refuse_edited(loaded, store)
    with _signals_as_interrupt(), local_submission.session(loaded, store):
        local_submission.settle(runs, store)
        missing = submission.missing_runs(runs, store)
        store.save_submission(loaded)
        local_submission.start(loaded, store, missing, slots)
    _finish_submit(loaded, store, runs)


@click.command()
@campaign_argument
@results_option
@json_option
def status(campaign: Path, results: Path, as_json: bool) -> None:
    """Show the state of every run of CAMPAIGN."""
    from orchestrator import statuses
    from orchestrator.tables import as_text

    loaded, store = open_campaign(campaign, results)
    found = statuses.run_statuses(loaded, store)
    if as_json:
        print_objects(statuses.records(found))
        return
    click.echo(as_text(statuses.table(found)))
    click.echo(statuses.totals(found, store.other_runs(loaded)))


@click.command()
@campaign_argument
@click.argument("runs", nargs=-1)
@results_option
def cancel(campaign: Path, runs: tuple[str, ...], results: Path) -> None:
    """End the RUNS of CAMPAIGN, given by id or label; all where none is given.

    A run that has not started is marked, and not started; one that has ended stays as it is.
    """
    from orchestrator import local_submission, submission

    loaded, store = open_campaign(campaign, results)
    chosen = submission.choose(loaded.runs, runs)
    for planned, state in local_submission.cancel(loaded, chosen, store):
        click.echo(f"{planned.run_id} {planned.label}: {state}", err=True)


@click.command()
@campaign_argument
@click.argument("runs", nargs=-1)
@click.option("--only", default="", help="Outcomes to start again, as failed,oom,timeout.")
@results_option
@slots_option
def retry(
    campaign: Path, runs: tuple[str, ...], only: str, results: Path, slots: int | None
) -> None:
    """Start runs of CAMPAIGN again that did not complete; their earlier logs are kept.

    RUNS, given by id or label, and --only narrow the choice.
    """
    from orchestrator import local_submission, outcomes, submission

    loaded, store = open_campaign(campaign, results)
    wanted = outcomes.parse_outcomes(only)
    with _signals_as_interrupt(), local_submission.session(loaded, store):
        possible = [run for run in submission.choose(loaded.runs, runs) if not run.problems]
        local_submission.settle(possible, store)
        chosen = submission.ended_runs(possible, store, wanted)
        local_submission.start(loaded, store, chosen, slots)
    _finish_submit(loaded, store, chosen)


def _finish_submit(
    campaign: "Campaign", store: "CampaignStore", runs: "Sequence[PlannedRun]"
) -> None:
    from orchestrator import statuses

    found = statuses.run_statuses(campaign, store)
    click.echo(statuses.totals(found, store.other_runs(campaign)), err=True)
    ids = {planned.run_id for planned in runs}
    failed = [one for one in found if one.planned.run_id in ids and one.unsuccessful]
    for status in failed:
        click.echo(statuses.failure_line(status), err=True)
    if failed:
        click.echo(f"teralog retry {campaign.path} starts what did not complete again", err=True)
        sys.exit(1)


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP stop the command as Ctrl-C does, with exit code 130."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP, and is to be left to it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped; `teralog submit` goes on with what is missing", err=True)
        sys.exit(130)
