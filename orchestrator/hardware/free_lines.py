"""Check the options of sbatch and srun that a profile or a campaign adds to teralog's options."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from pydantic.functional_validators import AfterValidator

from orchestrator.common.errors import did_you_mean

_OPTION = re.compile(r"--(?P<name>[a-z][a-z0-9_-]*)(=(?P<value>.*))?")
_HELP_SECONDS = 5
# The releases of Slurm whose options are in the record. The record also has the options of Pyxis.
_RECORDED = "22.05 to 26.11"
_VALUE, _FLAG = "value", "flag"

# Options that teralog sets itself, and the key of the profile or the campaign to use instead.
_KEYS = {
    **dict.fromkeys(("nodes", "use-min-nodes"), "nodes"),
    **dict.fromkeys(
        (
            "gpus",
            "gpus-per-node",
            "gres",
            "ntasks",
            "ntasks-per-gpu",
            "ntasks-per-node",
            "ntasks-per-tres",
            "tasks-per-node",
        ),
        "gpus_per_node",
    ),
    **dict.fromkeys(("cpus-per-task", "cpus-per-gpu"), "cores_per_rank"),
    **dict.fromkeys(("gpus-per-task", "tres-per-task"), "gpus_per_task"),
    "mem": "memory",
    "mem-per-gpu": "memory_per_gpu",
    "time": "time_limit",
}
_SBATCH_KEYS = {
    **_KEYS,
    **{
        name.replace("_", "-"): name
        for name in (
            "account",
            "begin",
            "constraint",
            "exclude",
            "exclusive",
            "hint",
            "licenses",
            "mail_type",
            "mail_user",
            "nice",
            "nodelist",
            "partition",
            "qos",
            "requeue",
            "reservation",
            "signal",
            "switches",
        )
    },
    "no-requeue": "requeue",
    "array": "throttle",
}
_SBATCH_OPTIONS = {name: f"`teralog submit --{name}`" for name in ("dependency", "hold", "wait")}
_OWN = frozenset((
    "help", "usage", "version", "quiet", "verbose", "test-only", "job-name", "comment", "output",
    "error", "input", "open-mode", "chdir", "export", "cluster", "clusters", "uid", "gid",
))  # fmt: skip
_SBATCH_OWN = _OWN | {"wrap", "parsable", "export-file", "external", "kill-on-invalid-dep"}
_SRUN_OWN = _OWN | {
    "jobid", "pty", "x11", "interactive", "multi-prog", "no-allocate", "preserve-env",
    "kill-on-bad-exit", "label", "relative", "nodefile", "hold", "dependency", "begin",
    "immediate", "mem-per-cpu",
}  # fmt: skip
# Options of a job that also apply to its steps.
_OF_THE_JOB = frozenset(_SBATCH_KEYS) - {"exclusive", "hint", "signal", "begin", "array"}


def free_line_problem(command: str, line: str) -> str | None:
    """Return the problem of an option for `sbatch` or `srun`; None if the option is valid.

    line: the option in the command's syntax, e.g. `--contiguous` or `--core-spec=2`.
    """
    match = _OPTION.fullmatch(line)
    if not line.isprintable():
        return f"{line!r} contains a line break or a control character"
    if match is None:
        words = re.match(r"(--[a-z][a-z0-9_-]*)\s+(.*)", line)
        written = f"{words[1]}={words[2]}" if words else "--name=value, or --name"
        return f"{line!r}: write it as {written}"
    name, value = match["name"], match["value"]
    if (reserved := _reserved(command, name)) is not None:
        return f"--{name}: {reserved}"
    kind = _kind(command, name)
    if kind is None:
        return (
            f"--{name} is not an option of {command} in Slurm {_RECORDED}, and `{command} --help` "
            f"on this machine does not list it{did_you_mean(name, _record()[command])}"
        )
    if kind == _VALUE and not value:
        return f"--{name}: needs a value; write it as --{name}=VALUE"
    if kind == _FLAG and value is not None:
        return f"--{name}: takes no value; write it as --{name}"
    return None


def checked_lines(command: str) -> AfterValidator:
    """Return a validator of a list of options that users add to a command.

    command: `sbatch` or `srun`. The validator raises ValueError if an option is not valid.
    """

    def check(lines: list[str]) -> list[str]:
        problems = [problem for line in lines if (problem := free_line_problem(command, line))]
        if problems:
            raise ValueError("; ".join(problems))
        return lines

    return AfterValidator(check)


def together(profile: Sequence[str] | None, run: Sequence[str]) -> list[str]:
    """Return the options of a profile and of a run in one list.

    If both have an option with the same name, the list contains only the option of the run.
    """
    names = {line.partition("=")[0] for line in run}
    return [*(line for line in profile or () if line.partition("=")[0] not in names), *run]


def _reserved(command: str, name: str) -> str | None:
    """Return what to use instead of an option that teralog sets; None for other options."""
    if command == "srun":
        if name in _KEYS:
            return f"use the key {_KEYS[name]}; teralog sets this option from it"
        if name in _OF_THE_JOB:
            return "is an option of the job, not of its steps; give it as an option of sbatch"
        return (
            "is not allowed: teralog sets it itself, or it has no effect in a job; remove it"
            if name in _SRUN_OWN
            else None
        )
    if name in _SBATCH_KEYS:
        return f"use the key {_SBATCH_KEYS[name]}"
    if name in _SBATCH_OPTIONS:
        return f"use {_SBATCH_OPTIONS[name]}"
    return (
        "is not allowed: teralog sets it itself, or it has no effect in a job; remove it"
        if name in _SBATCH_OWN
        else None
    )


def _kind(command: str, name: str) -> str | None:
    """Return the kind of an option: `value`, `flag` or `optional`.

    A `value` must have a value, a `flag` has none, and an `optional` may have one. Returns None if
    the command has no such option.

    command: `sbatch` or `srun`.
    """
    return _record()[command].get(name) or _site_options(command).get(name)


@cache
def _record() -> Mapping[str, Mapping[str, str]]:
    """Return the options that Slurm's manual lists for sbatch and for srun.

    The keys are the two commands. The value of each maps an option's name to the option's kind:
    `value` (must have a value), `flag` (has no value) or `optional` (may have a value).
    """
    text = (files("orchestrator.hardware") / "slurm_options.json").read_text(encoding="utf-8")
    kinds: dict[str, dict[str, list[str]]] = json.loads(text)
    return {
        command: {name: kind for kind, names in by_kind.items() for name in names}
        for command, by_kind in kinds.items()
    }


@cache
def _site_options(command: str) -> Mapping[str, str]:
    """Return the options that `COMMAND --help` lists on this machine.

    The keys are the names of the options. The value of each is `optional`, because it is not known
    whether the option has a value. The result is empty if the command is missing or too slow.
    """
    try:
        done = subprocess.run(
            [command, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HELP_SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict.fromkeys(re.findall(r"--([a-z][a-z0-9_-]*)", done.stdout), "optional")
