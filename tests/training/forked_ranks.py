"""Train several times with ranks forked from one process, which loads torch only once.

A launcher loads torch and DeepSpeed, and so does every rank that it starts. That takes seconds of
CPU for trainings of less than one second. Tests of training start ranks this way; tests of
launchers start the launchers.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from launched import REPOSITORY, Finished, environment

RANKS = 2


def train_forked(
    main: str, commands: Sequence[Sequence[str]], load: Sequence[str] = ()
) -> list[Finished]:
    """Run a training program once per command line, on two ranks; return the results in order.

    main: the program's function, e.g. "orchestrator.workloads.gpt:gpt_main".
    load: modules to import before the ranks are forked.
    A result contains the larger exit code of the two ranks, and the output of rank 0 followed by
    that of rank 1.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, __file__, json.dumps([main, commands, load])],
            cwd=REPOSITORY,
            env=environment(TRAIN_FOLDER=folder),
            check=True,
            timeout=400 + 60 * len(commands),
        )
        return [
            Finished(
                max(json.loads(Path(folder, f"{number}.codes").read_text())),
                *(
                    "".join(
                        Path(folder, f"{number}.{rank}.{stream}").read_text()
                        for rank in range(RANKS)
                    )
                    for stream in ("out", "err")
                ),
            )
            for number in range(len(commands))
        ]


def _fork_all(main: str, commands: Sequence[Sequence[str]], load: Sequence[str]) -> None:
    for name in load:
        importlib.import_module(name)
    module, _, function = main.partition(":")
    program = getattr(importlib.import_module(module), function)
    for number, command in enumerate(commands):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [_fork(program, command, number, rank, port) for rank in range(RANKS)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]
        Path(os.environ["TRAIN_FOLDER"], f"{number}.codes").write_text(json.dumps(codes))


def _fork(
    program: Callable[[Sequence[str]], int],
    command: Sequence[str],
    number: int,
    rank: int,
    port: int,
) -> int:
    if (process := os.fork()) != 0:
        return process
    from orchestrator.workloads.rank_process import leave

    for descriptor, stream in ((1, "out"), (2, "err")):
        path = Path(os.environ["TRAIN_FOLDER"], f"{number}.{rank}.{stream}")
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        leave(program(command))
    except Exception:  # noqa: BLE001  # else it would fork ranks itself
        traceback.print_exc()
        leave(1)


if __name__ == "__main__":
    _fork_all(*json.loads(sys.argv[1]))
