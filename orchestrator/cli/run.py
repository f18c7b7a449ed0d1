"""The commands that start runs, show their states, and end them."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.arguments import campaign_argument, runs_argument
from orchestrator.cli.common import (
    allow_unknown_option,
    complain,
    exit_for,
    filter_option,
    format_option,
    from_here,
    interruptible,
    json_option,
    open_campaign,
    options,
    other_results,
    print_json,
    print_objects,
    print_table,
    refresh_records,
    rehearsed_option,
    results_option,
    skip_option,
    slurm_timeout_option,
    submit_line,
)
from orchestrator.common.text import counted

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign, PlannedRun
    from orchestrator.store.campaign_store import CampaignStore

# Between two rounds of `submit --wait`, as between two questions of `watch` to Slurm.
WAIT_SECONDS = 10.0

runs_json_option = json_option("id, label, state, outcome and job of each run")

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
        help="With order: interleaved: the maximum number of blocks to start now.  [default: all]",
    ),
    click.option(
        "--throttle",
        type=click.IntRange(min=1),
        help="Slurm: maximum number of runs at once.  [default: the profile's]",
    ),
    click.option("--dependency", help="Slurm: what the jobs wait for, e.g. afterok:123."),
    click.option("--hold", is_flag=True, help="Slurm: the jobs wait until they are released."),
    click.option("--exclude", help="Slurm: nodes not to run on, e.g. r1i0n[3-5]."),
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
    "--force", is_flag=True, help="Also start runs that the memory forecast says will not fit."
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
    help="Slurm: if it accepts only some of the runs, stay and submit the others as soon as there "
    "is room, until all are submitted.",
)
@click.option(
    "--rehearse",
    is_flag=True,
    help="Start every script with a checker instead of the training; it checks what each rank "
    "would see. Results are separate from measured ones.",
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

    On this machine it waits for them: Ctrl-C stops what is running, and a second submit continues
    with the missing runs. On a Slurm cluster it submits jobs, prints their ids and returns. Runs
    that request the same resources form one job array. Exits with 1 if a run failed.
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
        _complain_all(ignored_variables(loaded.cluster.account))
        if not missing:
            click.echo("nothing to start: no run is missing", err=True)
        return
    printed_lines: set[str] = set()
    with interruptible(_stopped(loaded, here=here)):
        while True:
            # Between two rounds others may submit, cancel and retry.
            with place.session(loaded, store, complain) as session:
                notes = session.settle(runs)
                _complain_all(note for note in notes if note not in printed_lines)
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
@campaign_argument
@results_option
@rehearsed_option
@slurm_timeout_option
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE,...",
    help="Show only runs in these states or with these outcomes, e.g. running,oom,hung.",
)
@filter_option
@click.option("--all", "everything", is_flag=True, help="Show every run.")
@format_option
def status(
    campaign: Path,
    results: Path | None,
    *,
    rehearsed: bool,
    states: tuple[str, ...],
    only: str | None,
    everything: bool,
    layout: str,
) -> None:
    """Show the states of the runs of CAMPAIGN, and which runs are slow or hang.

    With more than 20 runs it prints the number of runs in each state. Below, it lists only runs
    that failed, hang, are slow or are running, and runs for which Slurm gives a reason to wait.
    Formats other than text contain every run.
    """
    from orchestrator.status.many_runs import (
        MOST_ROWS,
        hung_lines,
        in_state,
        many_runs_text,
        parse_states,
        waiting_lines,
    )
    from orchestrator.status.silent_logs import campaign_hung_runs
    from orchestrator.status.slow_runs import slow_run_lines, slow_runs
    from orchestrator.status.step_times import timed_runs
    from orchestrator.status.table import (
        held_line,
        run_statuses,
        status_records,
        status_table,
        totals,
    )

    wanted = parse_states(states)
    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    up_to_date = refresh_records(loaded, store)
    statuses = run_statuses(loaded, store)
    slow = slow_runs(timed_runs(loaded, store, statuses))
    # A run that is on record as running may have ended, if Slurm gave no answer.
    hung = campaign_hung_runs(loaded, store, statuses) if up_to_date else {}
    chosen = in_state(statuses, wanted, hung) if wanted else statuses
    if only is not None:
        kept = _runs_where(only, loaded, store)
        chosen = [status for status in chosen if status.planned.run_id in kept]
    narrowed = bool(wanted) or only is not None
    ids = {status.planned.run_id for status in chosen}
    total = totals(statuses, store.other_runs(loaded))
    summary = layout == "text" and len(chosen) > MOST_ROWS and not everything and not narrowed
    hanging = [hung_run for identity, hung_run in hung.items() if identity in ids]
    shown = [f"shown: {len(chosen)} of {counted(len(statuses), 'run')}"] if narrowed else []
    sentences = [
        *shown,
        *slow_run_lines(slow_run for identity, slow_run in slow.items() if identity in ids),
        *(hung_lines(hanging) if summary else map(str, hanging)),
        *waiting_lines(chosen),
        *filter(None, [held_line(chosen)]),
    ]
    if summary:
        click.echo(f"{total}\n\n{many_runs_text(statuses, slow, hung)}")
        if sentences:
            click.echo("\n" + "\n".join(sentences))
        return
    print_table(
        layout,
        lambda: status_table(chosen),
        lambda: status_records(chosen, slow, hung),
        sentences=[total, *sentences],
    )


def _runs_where(only: str, campaign: "Campaign", store: "CampaignStore") -> set[str]:
    """Return the ids of the runs that match an expression.

    The expression may use the names of the values in report.json.
    """
    from datetime import datetime

    from orchestrator.collect.collected import collect_campaign
    from orchestrator.report.report import make_report
    from orchestrator.report.sort_and_filter import arranged

    collected = collect_campaign(campaign, store)
    whole = make_report(campaign, collected, datetime.now().astimezone().date().isoformat())
    return {run.planned.run_id for run in arranged(campaign, whole, collected, only=only)[1]}


@click.command()
@runs_argument("[CAMPAIGN] [RUNS]...")
@results_option
@rehearsed_option
@click.option("--all", "all_runs", is_flag=True, help="Cancel all submitted runs.")
@click.option("--state", help="Cancel only runs in this state, e.g. PENDING.")
@slurm_timeout_option
@runs_json_option
def cancel(
    campaign: Path,
    runs: tuple[str, ...],
    results: Path | None,
    *,
    rehearsed: bool,
    all_runs: bool,
    state: str | None,
    as_json: bool,
) -> None:
    """End the RUNS of CAMPAIGN, given by id or label, those in a --state, or --all.

    A run that has already ended stays unchanged and is not listed. With --all, a run that was never
    submitted also stays unchanged. If you name a run that has not started, `submit` will not start
    it; only `retry` will.
    """
    from orchestrator.common.errors import UserError, did_you_mean
    from orchestrator.store.job_state import UNENDED
    from orchestrator.store.records import SUBMITTED, SUBMITTING
    from orchestrator.submit.choose_backend import backend
    from orchestrator.submit.selection import choose, submitted_runs

    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    if not (runs or all_runs or state):
        raise UserError(f"{campaign}: no run given; give ids or labels, --state STATE, or --all")
    if runs and all_runs:
        raise UserError("--all: cancels all runs; remove --all, or do not name runs")
    chosen = choose(loaded.runs, runs) if runs else submitted_runs(loaded, store)
    state = state and state.upper()
    if state in (SUBMITTING, SUBMITTED):
        # Runs have these states only until Slurm is asked, which happens before the cancellation.
        state = "PENDING"
    if state is not None and state not in UNENDED:
        hint = did_you_mean(state, UNENDED)
        raise UserError(f"--state: {state!r} is not a state of an unfinished run{hint}")
    if store.only_rehearsed and not runs:
        # After a rehearsal, a user rarely means runs that were never started.
        raise UserError(
            f"{loaded.name} was only rehearsed; none of its runs was started: `teralog cancel "
            f"{loaded.arguments} --rehearsed --all` cancels the rehearsal; to keep a run from "
            "starting, give its id or label"
        )
    from orchestrator.status.table import run_records, run_statuses

    ended: list[PlannedRun] = []
    try:
        for planned, now in backend(loaded).cancel(loaded, chosen, store, state, complain):
            click.echo(f"{planned.run_id} {planned.label}: {now}", err=True)
            ended.append(planned)
    finally:
        if as_json:
            print_objects(run_records(run_statuses(loaded, store), ended))
    if not ended:
        why = "" if chosen else ": no run of it was submitted"
        click.echo(f"nothing to cancel{why}", err=True)


@click.command()
@runs_argument("[CAMPAIGN] [RUNS]...")
@click.option("--only", default="", help="Outcomes to start again, e.g. failed,oom,node_fail.")
@click.option("--time", "time_limit", help="Another time limit: minutes, or H:MM:SS.")
@click.option("--memory", help="Slurm: another amount of memory on each node, e.g. 160G.")
@click.option("--partition", help="Slurm: another partition.")
@click.option("--qos", help="Slurm: another quality of service.")
@click.option("--constraint", help="Slurm: nodes with other features, e.g. a100-80g.")
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
    """Start runs of CAMPAIGN again that did not complete; their earlier logs are kept.

    RUNS, given by id or label, and --only narrow the choice. Options change what the runs request
    from Slurm, e.g. after a run ran out of time or memory. For runs that ran out of memory, the
    command prints settings that would fit. It changes nothing in CAMPAIGN.
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
        refuse_other_nodes,
        with_resources,
        with_time_limit,
    )

    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    refuse_nodes(loaded, nodes)
    if here:
        refuse_other_nodes(partition=partition, qos=qos, constraint=constraint)
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
        _complain_all(session.settle(possible))
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
    """Print that no run ended in one of `outcomes`.

    named: whether the user named the runs. missing: whether some runs were never started. If so,
    the message also contains the command that starts them.
    """
    *others, last = outcomes
    listed = f"{', '.join(others)} or {last}" if others else last
    which = "none of these runs" if named else "no run"
    hint = f"; `{submit_line(campaign)}` starts the missing runs" if missing else ""
    click.echo(f"nothing to start again: {which} ended with {listed}{hint}", err=True)


@click.command()
@campaign_argument
@results_option
@click.option(
    "--time",
    "time_limit",
    help="Time limit of the allocation.  [default: the sum of all missing runs]",
)
@click.option(
    "--batch",
    is_flag=True,
    help="Print a line that submits a job, which runs the campaign unattended; with order: "
    "interleaved, one job per block.",
)
@click.option("--run", "execute", is_flag=True, help="Run the line instead of printing it.")
@json_option("the words of the line")
def salloc(
    campaign: Path,
    results: Path | None,
    *,
    time_limit: str | None,
    batch: bool,
    execute: bool,
    as_json: bool,
) -> None:
    """Print the line that allocates nodes for the missing runs of CAMPAIGN.

    Within the allocation, `teralog submit --here` runs them.
    """
    from orchestrator.slurm.commands import ignored_variables, without_sbatch_variables
    from orchestrator.submit.selection import (
        missing_runs,
        parse_time_option,
        possible_runs,
        refuse_runs_elsewhere,
    )
    from orchestrator.submit.slurm import batch_line, salloc_line

    if as_json and execute:
        raise click.UsageError(
            "--json and --run: remove one; --json prints the line, --run runs it"
        )
    loaded, store = open_campaign(campaign, results)
    if results is None:
        refuse_runs_elsewhere(loaded, store, other_results(loaded, store))
    runs = missing_runs(possible_runs(loaded, skip_impossible=True), store)
    seconds = parse_time_option(time_limit)
    if batch:
        line = batch_line(loaded, runs, store, seconds, _submit_here(store.path.parent, loaded))
    else:
        line = salloc_line(loaded, runs, store, seconds)
    if as_json:
        print_json({"command": line})
        return
    click.echo(shlex.join(line), err=execute)
    if execute:
        if batch:
            _complain_all(ignored_variables(loaded.cluster.account))
        environment = without_sbatch_variables(os.environ)
        os.execvpe(line[0], line, environment)  # noqa: S606  (no shell is wanted)


def _submit_here(results: Path, campaign: "Campaign") -> list[str]:
    """Return the command that starts the runs inside the allocation of `salloc`."""
    skip = ["--skip-impossible"] * any(planned.refusals for planned in campaign.runs)
    # A venv need not be activated to run what is in it.
    program = ["teralog"] if shutil.which("teralog") else [sys.executable, "-m", "teralog"]
    return [
        *program,
        "submit",
        str(campaign.path),
        f"--results={from_here(results)}",
        "--here",
        *skip,
    ]


@click.command()
@runs_argument("[CAMPAIGN] RUN", single=True)
@results_option
@rehearsed_option
@click.option(
    "-f", "--follow", is_flag=True, help="Also print what the run adds to the log, until it ends."
)
@click.option(
    "--tail", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines."
)
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Number of the attempt.  [default: the last]"
)
@slurm_timeout_option
def logs(
    campaign: Path,
    runs: tuple[str, ...],
    results: Path | None,
    *,
    rehearsed: bool,
    follow: bool,
    tail: int | None,
    attempt: int | None,
) -> None:
    """Print the log of a RUN of CAMPAIGN, given by id or label.

    A file or pipe gets the log unchanged; a terminal gets it without colours and control
    characters.
    """
    from orchestrator.status.log_text import follow_log, last_lines, read_from, terminal_text
    from orchestrator.submit.choose_backend import backend
    from orchestrator.submit.selection import choose, has_ended, log_of

    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    chosen = choose(loaded.runs, runs)
    log = log_of(chosen, store, attempt, waiting=follow)

    noted: set[str] = set()

    def ended() -> bool:
        notes = backend(loaded).refresh(chosen, store)
        _complain_all([note for note in notes if note not in noted])
        noted.update(notes)
        return has_ended(chosen[0], store)

    offset = last_lines(log, tail) if tail and log.exists() else 0
    parts = follow_log(log, ended, offset) if follow else read_from(log, offset)
    if sys.stdout.isatty():
        encoding = sys.stdout.encoding
        parts = (text.encode(encoding, "replace") for text in terminal_text(parts))
    elif not follow and not log.stat().st_size:
        click.echo(f"{log}: is empty", err=True)
    with interruptible():
        for part in parts:
            sys.stdout.buffer.write(part)
            sys.stdout.flush()


def _complain_all(notes: Iterable[str]) -> None:
    for note in notes:
        complain(note)


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
    """Write the report of a complete campaign; print a message if that is impossible."""
    from orchestrator.common.errors import UserError
    from orchestrator.report.write import renew_report

    try:
        written = renew_report(campaign, store)
        if written:
            click.echo(written, err=True)
    except UserError as error:
        # The runs have ended, and that decides the exit code.
        _complain_all(error.problems)
