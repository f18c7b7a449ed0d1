"""The commands that start runs: `submit` and `retry`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.arguments import campaign_argument, runs_argument
from orchestrator.cli.shared.formats import print_objects
from orchestrator.cli.shared.opened_campaign import (
    exit_for,
    open_campaign,
    other_results,
    submit_line,
)
from orchestrator.cli.shared.options import (
    allow_unknown_option,
    options,
    rehearsed_option,
    results_option,
    runs_json_option,
    skip_option,
    slurm_timeout_option,
)
from orchestrator.cli.shared.terminal import complain, complain_all, interruptible

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign, PlannedRun
    from orchestrator.store.campaign_store import CampaignStore

# The pause between two rounds of `submit --wait`; `watch` waits as long between queries to Slurm.
WAIT_SECONDS = 10.0


start_options = options(
    click.option(
        "--slots",
        type=click.IntRange(min=1),
        help="This machine: maximum number of runs at once.  "
        "[default: as many as its GPUs, or its cores, allow]",
    ),
    click.option(
        "--oversubscribe",
        is_flag=True,
        help="This machine: also start runs with more ranks than it has cores; reports mark them.",
    ),
    click.option(
        "--blocks",
        type=click.IntRange(min=1),
        help="Maximum number of blocks to start now, if `order` is interleaved.  [default: all]",
    ),
    click.option(
        "--throttle",
        type=click.IntRange(min=1),
        help="Slurm: maximum number of runs at once.  [default: `throttle` of the cluster profile]",
    ),
    click.option("--dependency", help="Slurm: what the jobs wait for, e.g. afterok:123."),
    click.option(
        "--hold", is_flag=True, help="Slurm: hold the jobs until `scontrol release` releases them."
    ),
    click.option("--exclude", help="Slurm: nodes that the jobs must not use, e.g. r1i0n[3-5]."),
)


here_options = options(
    click.option(
        "--here", is_flag=True, help="Slurm: run in the current allocation, and wait for the end."
    ),
    click.option(
        "--overrun",
        is_flag=True,
        help="With --here: also start runs whose time limit exceeds the remaining time of the "
        "allocation.",
    ),
)


@click.command()
@campaign_argument
@results_option
@start_options
@slurm_timeout_option
@skip_option
@allow_unknown_option
@click.option(
    "--force",
    is_flag=True,
    help="Also start runs that will not fit into memory, according to their forecasts.",
)
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Continue a campaign whose file was edited after runs started.",
)
@here_options
@click.option(
    "--wait",
    is_flag=True,
    help="Slurm: if Slurm accepts only some of the runs, wait, and submit the others when "
    "Slurm accepts more jobs, until all are submitted.",
)
@click.option(
    "--rehearse",
    is_flag=True,
    help="Start every job script with a checker instead of the training. The checker checks "
    "the arguments and the environment of each rank. Its results are kept apart from "
    "measured ones.",
)
@click.option(
    "--test-only",
    is_flag=True,
    help="Slurm: show Slurm's estimate of each run's start; submit nothing.",
)
@runs_json_option
def submit(
    campaign: Path,
    results: Path | None,
    *,
    skip_impossible: bool,
    allow_unknown_arguments: bool,
    force: bool,
    accept_changes: bool,
    here: bool,
    overrun: bool,
    wait: bool,
    rehearse: bool,
    test_only: bool,
    as_json: bool,
    **start: Any,
) -> None:
    """Start the missing runs of CAMPAIGN.

    On this machine, the command waits for the runs. Ctrl-C stops the active runs; a second submit
    continues with the missing ones. On a Slurm cluster, the command submits jobs, prints their ids
    and returns. Runs that request the same resources form one job array. Exits with 1 if a run
    failed.
    """
    from orchestrator.slurm.commands import ignored_variables
    from orchestrator.submit.backend import StartOptions
    from orchestrator.submit.choose_backend import backend
    from orchestrator.submit.imports import refuse_missing_modules
    from orchestrator.submit.selection import (
        missing_runs,
        possible_runs,
        refuse_edited,
        refuse_runs_elsewhere,
    )

    loaded, store = open_campaign(
        campaign,
        results,
        rehearsed=rehearse,
        allow_unknown_arguments=allow_unknown_arguments,
    )
    place = backend(loaded, here=here)
    options = StartOptions.of(wait=wait, overrun=overrun, **start)
    place.refuse(options)
    runs = possible_runs(loaded, skip_impossible, force=force, oversubscribe=options.oversubscribe)
    if not accept_changes:
        refuse_edited(loaded, store)
    if results is None:
        refuse_runs_elsewhere(loaded, store, other_results(loaded, store))
    if test_only:
        missing = missing_runs(runs, store)
        estimates = place.estimates(loaded, missing, store)
        if as_json:
            print_objects(
                [
                    {"run_id": planned.run_id, "label": planned.label, "estimate": estimate}
                    for planned, estimate in estimates
                ]
            )
        else:
            for planned, estimate in estimates:
                click.echo(f"{planned.run_id} {planned.label}: {estimate}")
        complain_all(ignored_variables(loaded.cluster.account))
        if not missing:
            click.echo("nothing to start: no run is missing", err=True)
        return
    printed_lines: set[str] = set()
    with interruptible(_stopped(loaded, here=here)):
        while True:
            # The session ends after each round, so that other commands can submit or cancel runs.
            with place.session(loaded, store, complain) as session:
                notes = session.settle(runs)
                complain_all(note for note in notes if note not in printed_lines)
                missing = missing_runs(runs, store)
                refuse_missing_modules(loaded, missing)
                store.save_submission(loaded)
                for line in session.start(missing, options):
                    if line not in printed_lines:
                        click.echo(line, err=as_json)
                    printed_lines.add(line)
                printed_lines.update(notes)
            if not wait or not missing_runs(runs, store):
                break
            time.sleep(WAIT_SECONDS)
    _finish_submit(loaded, store, runs, as_json=as_json)


@click.command()
@runs_argument("[CAMPAIGN] [RUNS]...")
@click.option(
    "--only", default="", help="Start only runs with these outcomes, e.g. failed,oom,node_fail."
)
@click.option("--time", "time_limit", help="New time limit of the runs: minutes, or H:MM:SS.")
@click.option("--memory", help="Slurm: new amount of memory on each node, e.g. 160G.")
@click.option("--partition", help="Slurm: run in this partition instead.")
@click.option("--qos", help="Slurm: use this quality of service (QOS) instead.")
@click.option(
    "--constraint", help="Slurm: run on nodes with these features instead, e.g. a100-80g."
)
@click.option("--nodes", type=click.IntRange(min=1), hidden=True)
@results_option
@rehearsed_option
@start_options
@here_options
@slurm_timeout_option
@runs_json_option
def retry(
    campaign: Path,
    runs: tuple[str, ...],
    only: str,
    time_limit: str | None,
    results: Path | None,
    *,
    memory: str | None,
    partition: str | None,
    qos: str | None,
    constraint: str | None,
    nodes: int | None,
    rehearsed: bool,
    here: bool,
    overrun: bool,
    as_json: bool,
    **start: Any,
) -> None:
    """Start again the runs of CAMPAIGN that did not complete; their earlier logs are kept.

    To start only some of these runs, give RUNS by id or label, or --only. Options change what the
    runs request from Slurm, e.g. after a run ran out of time or memory. For runs that ran out of
    memory, the command prints settings that would fit. The command does not change CAMPAIGN.
    """
    from orchestrator.collect.outcomes import parse_outcomes
    from orchestrator.submit.backend import StartOptions
    from orchestrator.submit.choose_backend import backend
    from orchestrator.submit.imports import refuse_missing_modules
    from orchestrator.submit.memory_advice import memory_advice, refuse_nodes
    from orchestrator.submit.selection import (
        choose,
        ended_runs,
        missing_runs,
        parse_time_option,
        refuse_other_resources,
        with_resources,
        with_time_limit,
    )

    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    refuse_nodes(loaded, nodes)
    if here:
        refuse_other_resources(memory=memory, partition=partition, qos=qos, constraint=constraint)
    loaded = with_resources(
        loaded, memory=memory, partition=partition, qos=qos, constraint=constraint
    )
    place, options = backend(loaded, here=here), StartOptions.of(overrun=overrun, **start)
    place.refuse(options)
    wanted = parse_outcomes(only)
    parse_time_option(time_limit)
    with (
        interruptible(_stopped(loaded, here=here)),
        place.session(loaded, store, complain) as session,
    ):
        possible = [run for run in choose(loaded.runs, runs) if not run.problems]
        complain_all(session.settle(possible))
        chosen = ended_runs(possible, store, wanted)
        if not chosen:
            missing = missing_runs(possible, store)
            _say_nothing_ended(loaded, wanted, named=bool(runs), missing=bool(missing))
        refuse_missing_modules(loaded, chosen)
        for line in memory_advice(loaded, chosen, store, memory=memory):
            click.echo(line, err=True)
        for line in session.start(with_time_limit(chosen, time_limit), options):
            click.echo(line, err=as_json)
    _finish_submit(loaded, store, chosen, as_json=as_json)


def _stopped(campaign: "Campaign", *, here: bool = False) -> str:
    line = f"{submit_line(campaign)}{' --here' if here else ''}"
    return f"stopped; `{line}` continues with the missing runs"


def _say_nothing_ended(
    campaign: "Campaign", outcomes: Sequence[str], *, named: bool, missing: bool
) -> None:
    """Print that `retry` starts nothing, because no run ended with one of `outcomes`.

    named: whether the user named the runs. missing: whether some runs are missing, i.e. not started
    or interrupted. If so, the message also contains the command that starts them.
    """
    *others, last = outcomes
    listed = f"{', '.join(others)} or {last}" if others else last
    which = "none of these runs" if named else "no run"
    hint = f"; `{submit_line(campaign)}` starts the missing runs" if missing else ""
    click.echo(f"nothing to start again: {which} ended with {listed}{hint}", err=True)


def _finish_submit(
    campaign: "Campaign", store: "CampaignStore", runs: "Sequence[PlannedRun]", *, as_json: bool
) -> None:
    from orchestrator.status.table import is_complete, run_records, run_statuses, totals

    statuses = run_statuses(campaign, store)
    if not campaign.rehearsal and is_complete(statuses):
        _write_report(campaign, store)
    click.echo(totals(statuses, store.other_runs(campaign)), err=True)
    if as_json:
        print_objects(run_records(statuses, runs))
    ids = {planned.run_id for planned in runs}
    failed = [status for status in statuses if status.planned.run_id in ids and status.unsuccessful]
    exit_for(failed, campaign)


def _write_report(campaign: "Campaign", store: "CampaignStore") -> None:
    """Write the report of a campaign whose runs have all ended, unless the report is up to date.

    If the report cannot be written, prints the reason and raises no error. So the exit code
    depends only on the outcomes of the runs.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.report.write import renew_report

    try:
        written = renew_report(campaign, store)
        if written:
            click.echo(written, err=True)
    except UserError as error:
        # The runs have ended, and that decides the exit code.
        complain_all(error.problems)
