"""The command line: parse options, call one function, print."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.campaign import Campaign, PlannedRun
    from orchestrator.store import CampaignStore

SECTIONS = {
    "Prepare": ("init", "schema", "plan", "render"),
    "Run": ("submit", "status", "cancel", "retry"),
    "Read": ("collect", "report"),
    "This machine": ("doctor",),
}


class Commands(click.Group):
    """Commands listed by what a person is doing; a UserError becomes its sentences and exit 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the sections."""
        return [name for names in SECTIONS.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each thing a person does."""
        for title, names in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(70)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            for problem in error.problems:
                _complain(f"teralog: {problem}")
            ctx.exit(1)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            _complain(f"teralog: {what}{error.strerror or error}")
            ctx.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="teralog", message="%(package)s %(version)s")
def main() -> None:
    """GPT training benchmarks, from one campaign file to a table of TFLOPs."""


campaign_argument = click.argument("campaign", type=click.Path(dir_okay=False, path_type=Path))
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    envvar="TERALOG_RESULTS",
    show_envvar=True,
    help="Folder that holds all campaigns' results.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
skip_option = click.option(
    "--skip-impossible", is_flag=True, help="Leave out the runs that cannot be made."
)
slots_option = click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Most runs at once.  [default: as many as GPUs, or cores, allow]",
)


@main.command()
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), default=Path("campaign.yaml")
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def init(file: Path, force: bool) -> None:
    """Write a commented campaign file to start from."""
    from orchestrator.starter import write_starter

    write_starter(file, force)
    click.echo(f"wrote {file}; now: teralog plan {file}", err=True)


@main.command()
def schema() -> None:
    """Print the JSON schema of campaign files, for editors."""
    from orchestrator.schema import campaign_schema

    _print_json(campaign_schema())


@main.command()
@campaign_argument
@json_option
def plan(campaign: Path, as_json: bool) -> None:
    """Show every run of CAMPAIGN, its sizes and its problems; write nothing.

    Exits with 1 where a run is impossible.
    """
    from orchestrator import plans
    from orchestrator.tables import as_text

    loaded = _load(campaign)
    if as_json:
        _print_objects(plans.plan_records(loaded))
    else:
        click.echo(as_text(plans.plan_table(loaded)))
        click.echo(plans.plan_totals(loaded))
        for line in plans.problem_lines(loaded):
            _complain(f"impossible: {line}")
    if any(planned.problems for planned in loaded.runs):
        sys.exit(1)


@main.command()
@campaign_argument
@results_option
@skip_option
def render(campaign: Path, results: Path, skip_impossible: bool) -> None:
    """Write the folder of each run of CAMPAIGN: run.json, job.sh, configuration files."""
    from orchestrator import submission

    loaded, store = _open(campaign, results)
    runs = submission.possible_runs(loaded, skip_impossible)
    submission.render(loaded, runs, store)
    click.echo(f"wrote {len(runs)} runs to {store.path}", err=True)


@main.command()
@campaign_argument
@results_option
@slots_option
@skip_option
@click.option(
    "--accept-changes", is_flag=True, help="Go on with a campaign that was edited after it ran."
)
def submit(
    campaign: Path,
    results: Path,
    slots: int | None,
    skip_impossible: bool,
    accept_changes: bool,
) -> None:
    """Start the runs of CAMPAIGN that are missing, and wait for them.

    Ctrl-C stops what is running; a second submit goes on with what is missing. Exits with 1 where
    a run failed.
    """
    from orchestrator import local_submission, submission

    loaded, store = _open(campaign, results)
    runs = submission.possible_runs(loaded, skip_impossible)
    if not accept_changes:
        submission.refuse_edited(loaded, store)
    with _signals_as_interrupt(), local_submission.session(loaded, store):
        local_submission.settle(runs, store)
        missing = submission.missing_runs(runs, store)
        store.save_submission(loaded)
        local_submission.start(loaded, store, missing, slots)
    _finish_submit(loaded, store, runs)


@main.command()
@campaign_argument
@results_option
@json_option
def status(campaign: Path, results: Path, as_json: bool) -> None:
    """Show the state of every run of CAMPAIGN."""
    from orchestrator import statuses
    from orchestrator.tables import as_text

    loaded, store = _open(campaign, results)
    found = statuses.run_statuses(loaded, store)
    if as_json:
        _print_objects(statuses.records(found))
        return
    click.echo(as_text(statuses.table(found)))
    click.echo(statuses.totals(found, store.other_runs(loaded)))


@main.command()
@campaign_argument
@click.argument("runs", nargs=-1)
@results_option
def cancel(campaign: Path, runs: tuple[str, ...], results: Path) -> None:
    """End the RUNS of CAMPAIGN, given by id or label; all where none is given.

    A run that has not started is marked, and not started; one that has ended stays as it is.
    """
    from orchestrator import local_submission, submission

    loaded, store = _open(campaign, results)
    chosen = submission.choose(loaded.runs, runs)
    for planned, state in local_submission.cancel(loaded, chosen, store):
        click.echo(f"{planned.run_id} {planned.label}: {state}", err=True)


@main.command()
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

    loaded, store = _open(campaign, results)
    wanted = outcomes.parse_outcomes(only)
    with _signals_as_interrupt(), local_submission.session(loaded, store):
        possible = [run for run in submission.choose(loaded.runs, runs) if not run.problems]
        local_submission.settle(possible, store)
        chosen = submission.ended_runs(possible, store, wanted)
        local_submission.start(loaded, store, chosen, slots)
    _finish_submit(loaded, store, chosen)


@main.command()
@campaign_argument
@results_option
def collect(campaign: Path, results: Path) -> None:
    """Read the logs of CAMPAIGN's runs; write steps.csv and runs.csv."""
    from orchestrator import collection, frames

    loaded, store = _open(campaign, results)
    runs = collection.collect(loaded, store)
    steps = frames.steps_frame(runs, loaded.warmup)
    for name, frame in (("steps.csv", steps), ("runs.csv", frames.runs_frame(runs))):
        click.echo(store.write(name, frame.to_csv(index=False)))
    logs = sum(run.log is not None for run in runs)
    click.echo(f"read {logs} logs of {len(runs)} runs: {len(steps)} steps", err=True)


@main.command()
@campaign_argument
@results_option
def report(campaign: Path, results: Path) -> None:
    """Print the table of CAMPAIGN; write report.md, report.csv and report.json."""
    from datetime import datetime

    from orchestrator import collection, reports
    from orchestrator.files import json_text
    from orchestrator.tables import as_csv, as_text

    loaded, store = _open(campaign, results)
    runs = collection.collect(loaded, store)
    made = reports.make_report(loaded, runs, datetime.now().astimezone().date().isoformat())
    gone = store.other_runs(loaded)
    page = store.write("report.md", reports.report_markdown(loaded, made, runs, gone))
    store.write("report.csv", as_csv(made.table))
    store.write("report.json", json_text(reports.report_json(loaded, made, runs)))
    click.echo(as_text(made.table))
    click.echo(made.provenance)
    click.echo(f"wrote {page}, and .csv and .json beside it", err=True)


@main.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what this machine has, what it lacks, and what to type."""
    from orchestrator import diagnosis
    from orchestrator.tables import as_text

    findings = diagnosis.examine()
    if as_json:
        _print_objects(diagnosis.records(findings))
    else:
        click.echo(as_text(diagnosis.table(findings)))
    if not all(finding.ok or finding.optional for finding in findings):
        sys.exit(1)


def _complain(text: str) -> None:
    click.secho(text, err=True, fg=None if os.environ.get("NO_COLOR") else "red")


def _load(campaign: Path) -> "Campaign":
    from orchestrator.campaign import load_campaign

    return load_campaign(campaign)


def _open(campaign: Path, results: Path) -> "tuple[Campaign, CampaignStore]":
    from orchestrator.store import campaign_store

    loaded = _load(campaign)
    return loaded, campaign_store(results, loaded.name)


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


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def _print_objects(values: Sequence[dict[str, Any]]) -> None:
    """Print a JSON list, one object a line."""
    lines = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    click.echo(f"[\n{lines}\n]" if lines else "[]")
