"""Find out whether a job was ended by the signal that Slurm sends before its time is up."""

import re
import shlex
import signal

from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.slurm.arrays import directives
from orchestrator.store.job_state import JobState

# `USR2@90`, with letters before a colon for who gets it. Slurm's default is a minute.
_SIGNAL = re.compile(r"(?:[BR]+:)?(?P<name>[A-Z0-9]+)(?:@(?P<seconds>[0-9]+))?")
_DEFAULT_SECONDS = 60
# Slurm may send the signal so much earlier than it was asked to.
_EARLY_SECONDS = 60
_OF_A_SHELL = 128


def ended_by_warning_signal(script: str, state: JobState, seconds: float | None) -> bool:
    """Return whether a job that failed ended by the signal that its time limit sent ahead.

    script: what was submitted; its #SBATCH lines ask for the time and the signal. seconds: how long
    the job ran. A program that catches the signal and ends otherwise decides by its exit code.
    """
    asked = dict(
        word.split("=", 1)
        for line in directives(script)
        if "=" in (word := shlex.split(line.removeprefix("#SBATCH "))[0])
    )
    found = _SIGNAL.fullmatch(asked.get("--signal", ""))
    if found is None or "--time" not in asked or seconds is None:
        return False
    number = _number(found["name"])
    if number is None or (state.signal != number and state.exit_code != _OF_A_SHELL + number):
        return False
    ahead = int(found["seconds"] or _DEFAULT_SECONDS) + _EARLY_SECONDS
    return seconds >= time_limit_seconds(asked["--time"]) - ahead


def _number(name: str) -> int | None:
    """Return the number of a signal, given as USR2, SIGUSR2 or 12; None if there is none such."""
    if name.isdecimal():
        return int(name)
    try:
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"].value
    except KeyError:
        return None
