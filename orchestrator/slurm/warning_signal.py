"""Find out whether a job was ended by the signal that Slurm sends before its time limit."""

import re
import shlex
import signal

from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.slurm.arrays import directives
from orchestrator.store.job_state import JobState

# `USR2@90`; letters before a colon select the receiver. Slurm's default is one minute.
_SIGNAL = re.compile(r"(?:[BR]+:)?(?P<name>[A-Z0-9]+)(?:@(?P<seconds>[0-9]+))?")
_DEFAULT_SECONDS = 60
# Slurm may send the signal this many seconds earlier than requested.
_EARLY_SECONDS = 60
_OF_A_SHELL = 128


def ended_by_warning_signal(script: str, state: JobState, seconds: float | None) -> bool:
    """Return whether a failed job was ended by the signal that Slurm sends before its time limit.

    script: the submitted script; its #SBATCH lines request the time limit and the signal. seconds:
    how long the job ran; None if not known. The result is False if the duration, the time limit or
    the signal is not known. It is also False if a program catches the signal and exits with a code
    other than 128 plus the signal's number.
    """
    asked = dict(
        word.split("=", 1)
        for line in directives(script)
        if "=" in (word := shlex.split(line.removeprefix("#SBATCH "))[0])
    )
    match = _SIGNAL.fullmatch(asked.get("--signal", ""))
    if match is None or "--time" not in asked or seconds is None:
        return False
    number = _number(match["name"])
    if number is None or (state.signal != number and state.exit_code != _OF_A_SHELL + number):
        return False
    ahead = int(match["seconds"] or _DEFAULT_SECONDS) + _EARLY_SECONDS
    return seconds >= time_limit_seconds(asked["--time"]) - ahead


def _number(name: str) -> int | None:
    """Return the number of a signal given as USR2, SIGUSR2 or 12; None if unknown."""
    if name.isdecimal():
        return int(name)
    try:
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"].value
    except KeyError:
        return None
