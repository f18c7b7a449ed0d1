"""Find the width available for a table: that of the terminal, unlimited for a pipe."""

import shutil
import sys
from typing import TextIO


class _Choice:
    """The user's choice between tables that fit the terminal and whole tables (`--wide`)."""

    wide = False


def show_wide() -> None:
    """Show whole tables from now on, even on a narrow terminal, because of `--wide`."""
    _Choice.wide = True


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the number of characters per line of the terminal; None for tables without a limit.

    stream: where the table is printed; stdout by default. The width is unlimited if the stream is
    not a terminal, or if the user gave `--wide`.
    """
    # Python has no standard output if it was closed before the start.
    stream = stream or sys.stdout
    is_terminal = stream is not None and stream.isatty()
    return shutil.get_terminal_size().columns if is_terminal and not _Choice.wide else None
