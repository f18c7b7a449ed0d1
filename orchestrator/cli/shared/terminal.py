"""Print problems and reasons for waiting to the terminal, and end a command on Ctrl-C."""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from orchestrator.common.fitted import wrapped
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import printable


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


@contextmanager
def interruptible(sentence: str | None = None) -> Iterator[None]:
    """End the command with exit code 130 if Ctrl-C, SIGTERM or SIGHUP arrives in the `with` block.

    sentence: what to print to stderr before the command ends; None prints nothing. If SIGHUP is
    ignored when the block begins, e.g. under nohup, it stays ignored.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    # Under nohup, SIGHUP is ignored, and must stay ignored.
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
