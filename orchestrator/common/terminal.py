"""How wide the text of a table may be: as the terminal, or as wide as it gets in a pipe."""

import shutil
import sys
from typing import TextIO


class _Choice:
    """Whether the user asked for whole tables."""

    wide = False


def show_wide() -> None:
    """Show tables whole from here on, however narrow the terminal is: `--wide`."""
    _Choice.wide = True


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal; None if the stream, stdout if none is given, is a pipe.

    Or if the user asked for whole tables.
    """
    # Python has no standard output if it was closed before the start.
    stream = stream or sys.stdout
    is_terminal = stream is not None and stream.isatty()
    return shutil.get_terminal_size().columns if is_terminal and not _Choice.wide else None
