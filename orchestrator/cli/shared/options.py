"""Options that several commands share."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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
        """Set the lower limit to zero; zero itself is not accepted."""
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the user's text to a number above zero."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number above zero", param, ctx)
        return number


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
