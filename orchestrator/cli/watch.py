"""The command that shows the progress of runs."""

import itertools
from pathlib import Path

import click

from orchestrator.cli.arguments import campaign_argument
from orchestrator.cli.common import (
    Positive,
    complain,
    exit_for,
    for_people,
    interruptible,
    open_campaign,
    rehearsed_option,
    results_option,
    slurm_timeout_option,
    submit_line,
)
from orchestrator.common.text import counted

_STOPPED = "stopped watching; the runs continue"


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
    help="Seconds between two reads of the logs; Slurm is asked every 10 s at most.",
)
@click.option("--once", is_flag=True, help="Show the state once and exit.")
@click.option(
    "--on-hang",
    type=click.Choice(["cancel", "requeue"]),
    help="Cancel hung runs, or let Slurm start them again.  [default: only show them]",
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
