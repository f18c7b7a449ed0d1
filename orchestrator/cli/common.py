"""Code that several commands share: options, loading and printing."""

import json
import math
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from orchestrator.common.errors import UserError
from orchestrator.common.fitted import fitted_text, wrapped
from orchestrator.common.terminal import show_wide, terminal_width
from orchestrator.common.text import counted, printable

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign
    from orchestrator.common.tables import Table
    from orchestrator.status.table import RunStatus
    from orchestrator.store.campaign_store import CampaignStore
    from orchestrator.store.results_folder import Elsewhere

Command = Callable[..., None]


def options(*several: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options to a command, in their order."""

    def add(command: Command) -> Command:
        for option in reversed(several):
            command = option(command)
        return command

    return add


results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TERALOG_RESULTS",
    show_envvar=True,
    help="Folder that contains the results of all campaigns.  [default: the nearest `results` "
    "folder next to the campaign file or above it, else a new one next to the file]",
)


class Positive(click.FloatRange):
    """The type of options whose value is a finite number above zero."""

    def __init__(self) -> None:
        """Set the lower limit to zero, which is itself not accepted."""
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the user's text to a number above zero."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number above zero", param, ctx)
        return number


FORMATS = ("text", "markdown", "csv", "json", "latex", "parquet")
FOR_PEOPLE = ("text", "markdown", "latex")
# The names of formats in earlier versions of `parse`.
_EARLIER_NAMES = {"table": "text", "md": "markdown"}


class Format(click.Choice[str]):
    """The type of `--format`: a name in FORMATS, or an earlier name of such a format.

    For example, `md` is an earlier name of `markdown`.
    """

    def __init__(self) -> None:
        """Accept the names in FORMATS."""
        super().__init__(FORMATS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format's name in FORMATS; the user may have typed an earlier name."""
        return str(super().convert(_EARLIER_NAMES.get(value, value), param, ctx))


def check_format(layout: str, *, to_terminal: bool) -> str:
    """Return `layout`, the name of a format in FORMATS, if a table can be written in this format.

    Raises UserError for Parquet if the output is a terminal or if pyarrow is not installed.
    """
    if layout != "parquet":
        return layout
    if to_terminal:
        raise UserError("--format parquet: is not for a terminal; add `> table.parquet`")
    if find_spec("pyarrow") is None:
        raise UserError("--format parquet: needs pyarrow; type: pip install 'teralog[parquet]'")
    return layout


def _format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the value of `--format`; click calls this before the command does its work.

    Raises UserError if the output cannot be written in this format.
    """
    return check_format(value, to_terminal=sys.stdout is not None and sys.stdout.isatty())


def _json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    other = ctx.params["layout"]
    if other not in ("text", "json"):
        raise click.UsageError(f"--json means --format json; remove --json or --format {other}")
    ctx.params["layout"] = "json"


def _wide(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        show_wide()


# The first is eager, so that the second finds its value.
format_option = options(
    click.option(
        "--format",
        "layout",
        type=Format(),
        default="text",
        show_default=True,
        is_eager=True,
        callback=_format,
        help="Print the table in this format.",
    ),
    click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_json,
        help="The same as --format json.",
    ),
    click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_wide,
        help="Show all columns on a terminal, however narrow it is.",
    ),
)


def json_option(what: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the option `--json`, for commands that print no table.

    what: a noun for the printed values; the help text of the option is "Print WHAT as JSON.".
    """
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


runs_json_option = json_option("id, label, state, outcome and job of each run")


def _slurm_timeout(ctx: click.Context, param: click.Parameter, value: float) -> None:
    from orchestrator.slurm.commands import patience

    patience.begin(value)


slurm_timeout_option = click.option(
    "--slurm-timeout",
    type=Positive(),
    metavar="SECONDS",
    default=5,
    show_default=True,
    envvar="TERALOG_SLURM_TIMEOUT",
    show_envvar=True,
    expose_value=False,
    callback=_slurm_timeout,
    help="Slurm: seconds to wait for the answer to each query.",
)
filter_option = click.option(
    "--filter",
    "only",
    metavar="EXPRESSION",
    help="Keep only runs that match, e.g. 'world_size > 8 and outcome == \"oom\"'.",
)
rehearsed_option = click.option(
    "--rehearsed", is_flag=True, help="Use the runs of the rehearsal, not the measured runs."
)
skip_option = click.option("--skip-impossible", is_flag=True, help="Leave out impossible runs.")

allow_unknown_option = click.option(
    "--allow-unknown-arguments",
    is_flag=True,
    help="Only warn about arguments that the program does not accept. Without this option, "
    "runs with such arguments are refused.",
)


def complain(text: str) -> None:
    """Print a sentence to stderr: in red if stderr is a terminal and NO_COLOR is not set."""
    plain = bool(os.environ.get("NO_COLOR"))
    lines = "\n".join(wrapped(printable(text), terminal_width(sys.stderr)))
    click.secho(lines, err=True, fg=None if plain else "red", reset=not plain)


def complain_all(sentences: Iterable[str]) -> None:
    """Print each sentence to stderr."""
    for sentence in sentences:
        complain(sentence)


def for_people() -> bool:
    """Return whether stdout is a terminal on which colors are allowed."""
    # Python has no standard output if it was closed before the start.
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


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
    """Return whether the user typed an option in the command line.

    If not, its value is the default or comes from an environment variable.
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

    Prints a message for each reason why they are not, e.g. that Slurm did not answer. Prints
    another message if the campaign was only rehearsed, because then no run was started.
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


@contextmanager
def told_if_slow(sentence: str, seconds: float = 3.0) -> Iterator[None]:
    """Print a sentence to stderr if the code in the `with` block takes longer than `seconds`.

    sentence: the reason for the wait. Nothing is printed if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(seconds, click.echo, [sentence], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(_indented(value))


def _indented(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _objects(values: Sequence[dict[str, Any]]) -> str:
    """Return a list as JSON text, with one object per line."""
    lines = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    return f"[\n{lines}\n]" if lines else "[]"


def print_objects(values: Sequence[dict[str, Any]]) -> None:
    """Print a list as JSON, with one object per line."""
    click.echo(_objects(values))


def print_table(
    layout: str,
    table: "Callable[[], Table]",
    records: Callable[[], Sequence[dict[str, Any]]],
    *,
    values: "Callable[[], Table] | None" = None,
    whole: object = None,
    sentences: Iterable[str] = (),
    text: Callable[[], str] | None = None,
) -> None:
    """Print a table in the format `layout`; the arguments are those of `table_text`."""
    made = table_text(
        layout, table, records, values=values, whole=whole, sentences=sentences, text=text
    )
    click.echo(made, nl=False)


def table_text(
    layout: str,
    table: "Callable[[], Table]",
    records: Callable[[], Sequence[dict[str, Any]]],
    *,
    values: "Callable[[], Table] | None" = None,
    whole: object = None,
    sentences: Iterable[str] = (),
    text: Callable[[], str] | None = None,
) -> str | bytes:
    """Return a table as text, or as bytes for Parquet, in the format `layout`, one of FORMATS.

    Calls only those functions in the arguments that the format needs.

    table: a function that returns the table for people.
    sentences: the lines below the table for people.
    text: a function that returns what the format `text` shows instead of `table` and `sentences`.
    records: a function that returns one object per row, for JSON.
    whole: the JSON value to return instead of `records`.
    values: a function that returns the table for CSV and Parquet; if None, the table is made from
        `records`.
    """
    from orchestrator.common.latex import as_latex, latex_comment
    from orchestrator.common.parquet import as_parquet
    from orchestrator.common.tables import (
        as_csv,
        as_markdown,
        escape_markdown,
        records_table,
    )

    all_values = values or (lambda: records_table(records()))
    match layout:
        case "csv":
            return as_csv(all_values())
        case "parquet":
            return as_parquet(all_values())
        case "markdown":
            paragraphs = (escape_markdown(sentence) for sentence in sentences if sentence)
            lines = "\n\n".join((as_markdown(table()), *paragraphs))
        case "latex":
            comments = (latex_comment(sentence) for sentence in sentences if sentence)
            lines = "\n".join((as_latex(table()), *comments))
        case "json":
            lines = _objects(records()) if whole is None else _indented(whole)
        case _ if text is not None:
            lines = text()
        case _:
            width = terminal_width()
            folded = (line for sentence in sentences for line in wrapped(sentence, width))
            lines = "\n".join((fitted_text(table(), width), *folded))
    return f"{lines}\n"


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
        click.echo(f"{again} starts the runs again that did not complete", err=True)
        sys.exit(1)


@contextmanager
def interruptible(sentence: str | None = None) -> Iterator[None]:
    """On Ctrl-C, SIGTERM or SIGHUP in the `with` block, end the command with exit code 130.

    sentence: what to print to stderr in that case; None prints nothing. If SIGHUP is ignored, e.g.
    under nohup, it stays ignored.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    # nohup ignores SIGHUP, and is to be left to it.
    before = {
        number: handler
        for number in (signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if sentence is not None:
            click.echo(sentence, err=True)
        sys.exit(130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
