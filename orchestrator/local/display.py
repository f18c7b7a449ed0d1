"""Show the progress of `submit`: live on a terminal, plain lines otherwise."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.common.text import counted
from orchestrator.local.executor import WAITING, Event
from orchestrator.store.records import RUNNING

Tell = Callable[[Event], None]


@contextmanager
def show_progress(total: int, devices: str) -> Iterator[Tell]:
    """Yield a function that shows an event of a run (start, end or wait) on stderr.

    total: how many runs there are. devices: a description of the devices that the runs use.
    """
    print(f"{counted(total, 'run')} to start on {devices}", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        with _live(total, devices) as tell:
            yield tell
    else:
        yield _plain(total, devices)


def _plain(total: int, devices: str) -> Tell:
    begun: dict[str, float] = {}
    ended = 0

    def tell(event: Event) -> None:
        nonlocal ended
        planned = event.planned
        if event.state == RUNNING:
            begun[planned.run_id] = time.monotonic()
            line = "started"
        elif event.state == WAITING:
            line = _waiting(devices)
        else:
            ended += 1
            since = begun.get(planned.run_id)
            took = "" if since is None else f" after {time.monotonic() - since:.0f} s"
            line = f"{event.state}{took} [{ended}/{total}]"
        print(f"{planned.run_id} {planned.label}: {line}", file=sys.stderr, flush=True)

    return tell


def _waiting(devices: str) -> str:
    return f"waits for {devices} to be free"


@contextmanager
def _live(total: int, devices: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    display = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with display:
        overall = display.add_task("runs", total=total)
        tasks = {}

        def tell(event: Event) -> None:
            planned = event.planned
            if event.state == RUNNING:
                tasks[planned.run_id] = display.add_task(escape(planned.label), total=1)
                return
            if event.state == WAITING:
                line = f"{escape(planned.label)}: {_waiting(devices)}"
                display.console.print(line, highlight=False)
                return
            display.advance(overall)
            if planned.run_id in tasks:
                display.remove_task(tasks.pop(planned.run_id))
            display.console.print(f"{event.state:<11} {escape(planned.label)}", highlight=False)

        yield tell
