"""Run other programs to get an answer, with a time limit."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed to stdout, and whether the answer can be used.

    lines: the printed lines. problem: why the answer cannot be used; None if it can. late: whether
    the program was killed, because it did not end within its time limit.
    """

    lines: tuple[str, ...] = ()
    problem: str | None = None
    late: bool = False


def ask_all(
    commands: Sequence[tuple[str, ...]], timeout_seconds: float = TIMEOUT_SECONDS
) -> list[Answer | None]:
    """Run all commands at once; return one answer per command, in the order of the commands.

    The answer is None for a command whose program is missing.
    """
    with ThreadPoolExecutor(max_workers=max(len(commands), 1)) as pool:
        return list(pool.map(lambda command: ask(command, timeout_seconds), commands))


def ask(
    command: tuple[str, ...],
    timeout_seconds: float = TIMEOUT_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> Answer | None:
    """Run a command until it ends or times out; return the printed lines, or the problem.

    Returns None if the command's program is missing. environment: the variables of the program;
    None for those of this process.
    """
    if shutil.which(command[0]) is None:
        return None
    asked = " ".join(command[:2])
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return Answer(problem=f"{asked} does not start: {error.strerror}")
    try:
        output, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        problem = f"{asked} gave no answer within {timeout_seconds:g} s"
        return Answer(problem=problem, late=True)
    lines = tuple(line.strip() for line in output.splitlines() if line.strip())
    if process.returncode:
        complaint = next((line.strip() for line in errors.splitlines() if line.strip()), None)
        message = complaint or next(iter(lines), "it printed nothing")
        return Answer(lines, f"{asked} exits with {process.returncode}: {message}")
    return Answer(lines)


def _end(process: subprocess.Popen[str]) -> None:
    # Its children hold the pipes too, so the whole group is killed. A process that the driver
    # keeps in the kernel outlives even SIGKILL, so this code does not wait for it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=1)
