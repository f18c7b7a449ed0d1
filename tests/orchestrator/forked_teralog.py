"""Run teralog in forked processes, which saves half a second of CPU per command.

Each test process has one server that has loaded teralog, and forks itself for every command. A fork
has its own folder, environment, output and exit code, like a started teralog. But in a list of
processes, a fork looks like the server. So tests that send signals start a real teralog instead.
"""

import multiprocessing
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import orchestrator

# These frameworks train, so they load torch.
_PROGRAMS = "orchestrator.workloads."
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["submitit"]
    + [
        module.name
        for module in pkgutil.walk_packages(orchestrator.__path__, "orchestrator.")
        if not module.name.startswith(_PROGRAMS)
    ]
)


def run_forked(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run `command`, which begins with the path of teralog, in `folder`, and wait for its end.

    If the command has not ended within `seconds`, kills it and raises subprocess.TimeoutExpired.
    """
    with tempfile.TemporaryDirectory() as written:
        out, err = Path(written, "out"), Path(written, "err")
        process = _SERVER.Process(
            target=_become_teralog, args=(command, folder, dict(environment), out, err)
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, seconds, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(
            command, process.exitcode, out.read_text(), err.read_text()
        )


def _become_teralog(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, err: Path
) -> None:
    for number, path, flags in (
        (0, Path(os.devnull), os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, err, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        descriptor = os.open(path, flags)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [*command]

    from orchestrator.cli.main import main

    main()
