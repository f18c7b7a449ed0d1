"""The commands that show the states, the progress and the logs of runs, and end runs."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.arguments import campaign_argument, runs_argument
from orchestrator.cli.shared.formats import format_option, print_objects, print_table
from orchestrator.cli.shared.opened_campaign import (
    exit_for,
    open_campaign,
    refresh_records,
    submit_line,
)
from orchestrator.cli.shared.options import (
    Positive,
    filter_option,
    rehearsed_option,
    results_option,
    runs_json_option,
    slurm_timeout_option,
)
from orchestrator.cli.shared.terminal import complain, complain_all, for_people, interruptible
from orchestrator.common.text import counted

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign, PlannedRun
    from orchestrator.store.campaign_store import CampaignStore

_STOPPED = "stopped watching; the runs continue"


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

    With more than 20 runs, the command prints the number of runs in each state. Below, it lists
    only runs that failed, hang, are slow or are running, and runs for which Slurm reports why they
    wait. Formats other than text contain every run.
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
    """Return the ids of the runs that match the user's expression, e.g. 'world_size > 8'.

    The expression may contain the names of all values in report.json.
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
    """End some runs of CAMPAIGN: choose RUNS by id or label, or use --state or --all.

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
            f"{loaded.name} was only rehearsed; none of its runs was started. To cancel the "
            f"rehearsal, type `teralog cancel {loaded.arguments} --rehearsed --all`. To keep a "
            "run from starting, give its id or label"
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
        why = "" if chosen else ": no run of the campaign was submitted"
        click.echo(f"nothing to cancel{why}", err=True)


@click.command()
@campaign_argument
@results_option
@rehearsed_option
@slurm_timeout_option
@click.option(
    "--interval",
    type=Positive(),
    default=2.0,
    show_default=True,
    help="Seconds between two reads of the logs; Slurm is asked at most once in 10 s.",
)
@click.option("--once", is_flag=True, help="Show the state once and exit.")
@click.option(
    "--on-hang",
    type=click.Choice(["cancel", "requeue"]),
    help="cancel: cancel hung runs; requeue: let Slurm start them again.  [default: only show "
    "them]",
)
def watch(
    campaign: Path,
    results: Path | None,
    *,
    rehearsed: bool,
    interval: float,
    once: bool,
    on_hang: str | None,
) -> None:
    """Show the progress of the runs of CAMPAIGN until all have ended.

    For each run it shows the state, the iterations, step time and TFLOP/s so far, and the remaining
    time. It names runs that hang or are far slower than their repeats. On a terminal one table is
    updated in place; elsewhere, or with NO_COLOR, changes are printed as lines. Ctrl-C ends the
    watch; the runs continue. Exits with 1 if a run failed.
    """
    from orchestrator.status.on_hang import OnHang
    from orchestrator.status.watch import looks
    from orchestrator.status.watch_terminal import show_live, show_plain
    from orchestrator.store.records import NOT_STARTED

    loaded, store = open_campaign(campaign, results, rehearsed=rehearsed)
    act = [OnHang(loaded, store, on_hang)] if on_hang else []
    all_looks = itertools.islice(looks(loaded, store, interval, *act), 1 if once else None)
    with interruptible(_STOPPED):
        last = show_live(all_looks) if for_people() else show_plain(all_looks, click.echo, complain)
    if last is None or last.under_way:
        return
    if missing := sum(status.state == NOT_STARTED for status in last.statuses):
        those = counted(missing, "run has", "runs have")
        them = "it" if missing == 1 else "them"
        sentence = f"{those} not been started; `{submit_line(loaded)}` starts {them}"
        click.echo(sentence, err=True)
    exit_for([status for status in last.statuses if status.unsuccessful], loaded)


@click.command()
@runs_argument("[CAMPAIGN] RUN", single=True)
@results_option
@rehearsed_option
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Also print what the run adds to the log, until the run ends.",
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
        complain_all([note for note in notes if note not in noted])
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
