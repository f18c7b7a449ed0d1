"""The commands to use before runs are started: `init`, `plan`, `render`, `salloc` and others."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.arguments import campaign_argument
from orchestrator.cli.shared.formats import FOR_PEOPLE, format_option, print_json, print_table
from orchestrator.cli.shared.opened_campaign import from_here, open_campaign, other_results
from orchestrator.cli.shared.options import (
    allow_unknown_option,
    json_option,
    results_option,
    skip_option,
)
from orchestrator.cli.shared.terminal import complain, complain_all
from orchestrator.common.text import counted

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign
    from orchestrator.collect.collected import Collected


@click.command()
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), default=Path("campaign.yaml")
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def init(file: Path, force: bool) -> None:
    """Write a commented campaign file to start from, and its JSON schema for editors."""
    from orchestrator.campaign.starter import SCHEMA_FILE, write_starter

    write_starter(file, force)
    schema = file.with_name(SCHEMA_FILE)
    click.echo(f"wrote {file}, and {schema} for editors; now: teralog plan {file}", err=True)


@click.command()
def schema() -> None:
    """Print the JSON schema of campaign files, for editors."""
    from orchestrator.campaign.schema import campaign_schema

    print_json(campaign_schema())


@click.command()
@campaign_argument
@results_option
@allow_unknown_option
@format_option
@click.option(
    "--ask-program",
    is_flag=True,
    help="Start the program of each run on this machine, without a GPU, and end it before the "
    "training. Show the arguments that the program refuses. This machine needs the "
    "program's source and the Python of the runs.",
)
def plan(
    campaign: Path,
    results: Path | None,
    allow_unknown_arguments: bool,
    layout: str,
    ask_program: bool,
) -> None:
    """Show every run of CAMPAIGN with its sizes, memory and problems; write nothing.

    The command does not ask Slurm: the states are those that an earlier command recorded. Exits
    with 1 if a run is impossible or will not fit.
    """
    from orchestrator.campaign.plan import (
        calibration_lines,
        plan_records,
        plan_table,
        plan_totals,
        problem_lines,
        warning_lines,
    )
    from orchestrator.collect.calibrations import calibrations_by
    from orchestrator.store.records import INTERRUPTED, NOT_STARTED
    from orchestrator.submit.imports import missing_module_lines

    loaded, store = open_campaign(
        campaign, results, allow_unknown_arguments=allow_unknown_arguments
    )
    remarks: tuple[str, ...] = ()
    if ask_program:
        from orchestrator.submit.asking.programs import ask_programs, with_answers

        answers = ask_programs(loaded)
        loaded, remarks = with_answers(loaded, answers), answers.remarks
    runs: Sequence[Collected] = ()
    if store.path.is_dir():
        # This imports all log formats, which takes a fifth of the time of a plan without results.
        from orchestrator.collect.collected import collect_campaign

        runs = collect_campaign(loaded, store)
    states = {
        run.planned.run_id: (run.outcome or run.state).lower().replace("_", " ")
        for run in runs
        if run.state not in (NOT_STARTED, INTERRUPTED)
    }
    calibrations = calibrations_by(loaded, runs)
    print_table(
        layout,
        lambda: plan_table(loaded, calibrations, states),
        lambda: plan_records(loaded, calibrations, states),
        sentences=(plan_totals(loaded, states), *calibration_lines(calibrations)),
    )
    to_start = [planned for planned in loaded.runs if planned.run_id not in states]
    for line in missing_module_lines(loaded, to_start):
        complain(f"cannot start yet: {line}")
    for line in remarks:
        complain(line)
    # In other formats, the records contain the warnings and problems.
    if layout in FOR_PEOPLE:
        for line in warning_lines(loaded):
            complain(f"warning: {line}")
        for line in problem_lines(loaded):
            complain(f"impossible: {line}")
    if any(planned.refusals for planned in loaded.runs):
        sys.exit(1)


@click.command()
@campaign_argument
@results_option
@skip_option
@allow_unknown_option
def render(
    campaign: Path, results: Path | None, skip_impossible: bool, allow_unknown_arguments: bool
) -> None:
    """Write the folder of each run of CAMPAIGN: run.json, job.sh, configuration files."""
    from orchestrator.submit.render import render_runs
    from orchestrator.submit.selection import possible_runs

    loaded, store = open_campaign(
        campaign, results, allow_unknown_arguments=allow_unknown_arguments
    )
    runs = possible_runs(loaded, skip_impossible, force=True, oversubscribe=True)
    render_runs(loaded, runs, store)
    click.echo(f"wrote {counted(len(runs), 'run')} to {store.path}", err=True)


@click.command("record-options")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("options.json"),
    show_default=True,
    help="The file to write.",
)
def record_options(source: Path, output: Path) -> None:
    """Record the options of the program in SOURCE, a checkout or script, without running it.

    Copy the record to a machine without the checkout. In the campaign file on that machine, give
    the path of the record as `options_record`.
    """
    from orchestrator.common.errors import UserError
    from orchestrator.common.files import disk_errors, write_text
    from orchestrator.frameworks.options.describe import make_record, record_text
    from orchestrator.frameworks.options.record import is_record

    if output.exists() and not is_record(output):
        raise UserError(
            f"{output}: is not a record of options: give another file with -o, or remove this one"
        )
    record = make_record(source)
    with disk_errors(output, "give another file with -o"):
        write_text(output, record_text(record))
    count = counted(len(record["options"]), "option")
    click.echo(f"wrote {count} of {record['program']} to {output}", err=True)


@click.command()
@campaign_argument
@results_option
@click.option(
    "--time",
    "time_limit",
    help="Time limit of the allocation: minutes, or H:MM:SS.  [default: the sum of the time "
    "limits of all missing runs]",
)
@click.option(
    "--batch",
    is_flag=True,
    help="Print a line that submits a job; the job runs the campaign unattended. With `order: "
    "interleaved`, the line submits one job per block.",
)
@click.option("--run", "execute", is_flag=True, help="Run the line instead of printing it.")
@json_option("the program and the arguments of the line")
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

    In the allocation, type `teralog submit --here` to start these runs.
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
            "--json and --run: cannot be used together; --json prints the line, --run runs it; "
            "remove one of them"
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
            complain_all(ignored_variables(loaded.cluster.account))
        environment = without_sbatch_variables(os.environ)
        os.execvpe(line[0], line, environment)  # noqa: S606  (no shell is wanted)


def _submit_here(results: Path, campaign: "Campaign") -> list[str]:
    """Return the words of the command `teralog submit --here`, which is run in the allocation."""
    skip = ["--skip-impossible"] * any(planned.refusals for planned in campaign.runs)
    # If a venv is used without being activated, `teralog` is not on the PATH.
    program = ["teralog"] if shutil.which("teralog") else [sys.executable, "-m", "teralog"]
    return [
        *program,
        "submit",
        str(campaign.path),
        f"--results={from_here(results)}",
        "--here",
        *skip,
    ]
