"""Keep a practice cluster running: start its daemons, and at the end kill all of its processes.

There are two processes, and each cleans up if the other is killed. The outer process waits. The
daemons are children of the inner process. The inner process also adopts daemons and jobs that go
into the background. So all processes of the cluster are descendants of the inner process, and can
be found without their names.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from practice.daemons import Daemons
from practice.plan import Plan, PracticeError
from practice.ports import reserved_ports
from practice.processes import adopt_orphans, end_descendants, reap, signal_when_parent_ends


def order(plan: Plan, *, bound: bool) -> str:
    """Return the text that `hold` reads: JSON with `plan` and `bound`.

    bound: whether the cluster ends when the process that started it ends.
    """
    return json.dumps({"plan": {**asdict(plan), "folder": str(plan.folder)}, "bound": bound})


def hold(text: str) -> NoReturn:
    """Keep a cluster running until this process gets SIGTERM; then end the cluster.

    text: the JSON that `order` returns. If its `bound` is true, the cluster also ends when standard
    input is closed.

    A child of this process starts the daemons, and writes its pid into the file `holder.pid`. If
    the child gets SIGUSR1, it starts all daemons again that have ended. If the child gets SIGTERM,
    the cluster ends.

    Prints one line on stdout when the cluster is ready, or when it cannot start:
    `{"ready": seconds}` or `{"problem": sentence}`.
    """
    data: Mapping[str, Any] = json.loads(text)
    plan = Plan(**{**data["plan"], "folder": Path(data["plan"]["folder"])})
    lock = os.open(plan.folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.umask(0o022)
    adopt_orphans()
    outer = os.getpid()
    inner = os.fork()
    if inner == 0:
        _hold_inside(plan, outer, bound=bool(data["bound"]))
    _let_go_of_output()
    os.waitpid(inner, 0)
    _take_down(plan)
    sys.exit(0)


def _hold_inside(plan: Plan, outer: int, *, bound: bool) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    signal_when_parent_ends(signal.SIGTERM)
    adopt_orphans()
    try:
        if os.getppid() == outer:
            _run(plan, bound=bound)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _take_down(plan)
        os._exit(0)


def _run(plan: Plan, *, bound: bool) -> None:
    begun = time.monotonic()
    request = threading.Event()
    signal.signal(signal.SIGUSR1, lambda number, frame: request.set())
    (plan.folder / "holder.pid").write_text(str(os.getpid()))
    with reserved_ports(2 + len(plan.nodes)) as ports:
        try:
            daemons = Daemons(plan, ports)
            daemons.start()
        except (PracticeError, OSError) as error:
            _tell({"problem": str(error)})
            return
        _tell({"ready": time.monotonic() - begun})
        _let_go_of_output()
        watched = [sys.stdin] if bound else []
        while not select.select(watched, [], [], 0.2)[0]:
            reap()
            if request.is_set():
                request.clear()
                daemons.start_ended()


def _tell(message: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


def _let_go_of_output() -> None:
    """Redirect stdout and stderr to /dev/null.

    The process that started the cluster may wait until stdout and stderr are closed.
    """
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def _take_down(plan: Plan) -> None:
    end_descendants()
    shutil.rmtree(plan.folder, ignore_errors=True)
