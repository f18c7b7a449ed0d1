"""Which runs go to Slurm together: those whose scripts ask for the same, as one array."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends import StartOptions

# What a script says of itself rather than asks for.
_OWN = ("--job-name=", "--comment=", "--output=")
_ARRAY_BODY = """\
# An array of teralog: each task runs the job script of its run as it is.
folder={folder}/"$SLURM_ARRAY_TASK_ID"
cd -P "$folder" || exit
exec bash "$folder/job.sh"
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A run's job script, and the run."""

    run_id: str
    text: str


def directives(text: str) -> tuple[str, ...]:
    """Return what a script asks of Slurm, as its #SBATCH lines, without what is its own."""
    lines = []
    for line in text.splitlines():
        # sbatch reads no further than the first line of shell.
        if line and not line.startswith("#"):
            break
        if line.startswith("#SBATCH ") and not line.split()[1].startswith(_OWN):
            lines.append(line)
    return tuple(lines)


def batches(
    scripts: Sequence[Script], max_array_size: int, *, arrays: bool = True
) -> Iterator[list[Script]]:
    """Yield the scripts that are to be submitted together, in their order.

    They ask for the same, and are at most as many as an array may have; one by one where there are
    to be no arrays.
    """
    groups: dict[tuple[str, ...], list[Script]] = {}
    for script in scripts:
        groups.setdefault(directives(script.text), []).append(script)
    size = max(max_array_size, 1) if arrays else 1
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def array_script(one: str, folder: str) -> str:
    """Return the script of an array of runs that ask for the same as `one`'s script does.

    In `folder`, a path, each index leads to the run's own folder.
    """
    body = _ARRAY_BODY.format(folder=shlex.quote(folder))
    return "\n".join(("#!/bin/bash", *directives(one), body))


def sbatch_path(path: Path) -> str:
    """Return a path as sbatch's patterns of file names have it: `%` begins a replacement.

    A backslash anywhere stops all replacements, and stands twice for one.
    """
    text = str(path)
    return text.replace("\\", "\\\\") if "\\" in text else text.replace("%", "%%")


def sbatch_options(
    *, name: str, comment: str, output: str, folder: str, count: int | None, options: StartOptions
) -> list[str]:
    """Return sbatch's options for a script, or for an array of `count`.

    `output` is a pattern of sbatch's, `folder` where the script starts.
    """
    found = [
        f"--job-name={name}",
        f"--comment={comment}",
        f"--output={output}",
        # What was printed before a requeue is kept.
        "--open-mode=append",
        f"--chdir={folder}",
    ]
    if count is not None:
        throttle = "" if options.throttle is None else f"%{options.throttle}"
        found.append(f"--array=0-{count - 1}{throttle}")
    if options.dependency:
        found.append(f"--dependency={options.dependency}")
    if options.hold:
        found.append("--hold")
    if options.exclude:
        found.append(f"--exclude={options.exclude}")
    return found
