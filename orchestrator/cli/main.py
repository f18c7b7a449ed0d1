"""The command line: parse options, call one function, print."""

import os
import sys
from typing import Any

import click

from orchestrator.cli.campaigns import list_campaigns
from orchestrator.cli.check_tables import check_tables
from orchestrator.cli.compare import compare, noise
from orchestrator.cli.doctor import doctor
from orchestrator.cli.estimate import estimate, models
from orchestrator.cli.history import history
from orchestrator.cli.parse import parse
from orchestrator.cli.prepare import init, plan, record_options, render, salloc, schema
from orchestrator.cli.regenerate import regenerate_tflops
from orchestrator.cli.report import collect, report
from orchestrator.cli.run import cancel, logs, status, watch
from orchestrator.cli.shared.terminal import complain
from orchestrator.cli.submit import retry, submit
from orchestrator.common.errors import UserError

# The first sentence of a command's help, uncut.
_WHOLE_SENTENCE = 200

SECTIONS = {
    "Prepare": (init, list_campaigns, schema, plan, render, record_options),
    "Run": (submit, salloc, status, watch, logs, cancel, retry),
    "Read": (collect, report, compare, noise, history, parse),
    "Numbers": (
        estimate,
        models,
        regenerate_tflops,
        check_tables,
    ),
    "This machine": (doctor,),
}


class Commands(click.Group):
    """The group of all commands, listed by purpose in the help text.

    If a command raises UserError, its messages are printed, and the exit code is 1.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return [str(command.name) for commands in SECTIONS.values() for command in commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands in the help text: one section for each purpose."""
        for title, commands in SECTIONS.items():
            rows = [
                (str(command.name), command.get_short_help_str(_WHOLE_SENTENCE))
                for command in commands
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn a UserError or an OSError into messages and exit code 1."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            for problem in error.problems:
                complain(f"teralog: {problem}")
            ctx.exit(1)
        except KeyboardInterrupt:
            ctx.exit(130)
        except BrokenPipeError:
            # The reader of stdout has closed it, so the rest of the output is discarded.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(1)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            complain(f"teralog: {what}{error.strerror or error}")
            ctx.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="teralog", message="%(package)s %(version)s")
def main() -> None:
    """GPT training benchmarks, from one campaign file to a table of TFLOPs."""


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
