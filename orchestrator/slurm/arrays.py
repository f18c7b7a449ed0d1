"""Which runs go to Slurm together: those whose scripts ask for the same, as one array."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.slurm.lists import compact

# What a script says of itself rather than asks for.
_OWN = ("--job-name=", "--comment=", "--output=")
_ARRAY_BODY = """\
# An array of teralog: each task runs the job script of its run as it is.
folder={folder}/"$SLURM_ARRAY_TASK_ID"
cd -P "$folder" || exit
exec bash "$folder/job.sh"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchOptions:
    """What a user asks of sbatch when starting runs; absent is None.

    throttle: most tasks of an array at once. dependency, exclude: as sbatch takes them. hold:
    whether the jobs wait until they are released.
    """

    throttle: int | None = None
    dependency: str | None = None
    hold: bool = False
    exclude: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A run's job script, and the run.

    after: the run that must have completed before, where there is one that has not ended.
    """

    run_id: str
    text: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where Slurm has a run: a job, and the index of its task where the job is an array."""

    job_id: str
    index: int | None = None

    @classmethod
    def of(cls, job_id: str) -> "Place":
        """Return the place that Slurm writes as `7`, or as `7_3`."""
        job, _, index = job_id.partition("_")
        return cls(job, int(index) if index else None)

    @property
    def said(self) -> str:
        """The place as Slurm writes it."""
        return self.job_id if self.index is None else f"{self.job_id}_{self.index}"


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
    scripts: Sequence[Script],
    max_array_size: int,
    *,
    arrays: bool = True,
    places: Mapping[str, Place] | None = None,
) -> Iterator[list[Script]]:
    """Yield the scripts that are to be submitted together, in their order.

    They ask for the same, come after tasks of the same array or after none, and are at most as many
    as an array may have; one by one where there are to be no arrays. `places` are those of the runs
    that others come after.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[Script]] = {}
    for script in scripts:
        before = None if places is None or script.after is None else places[script.after].job_id
        groups.setdefault((before, directives(script.text)), []).append(script)
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


def dependency(before: Sequence[Place]) -> str | None:
    """Return what the tasks of a batch wait for, as --dependency takes it; None for nothing.

    `before`: where those are that they come after, each its own one. Of an array, the tasks with
    the same indices.
    """
    if not before:
        return None
    if len(before) == 1:
        return f"afterok:{before[0].said}"
    return f"aftercorr:{before[0].job_id}"


def sbatch_options(
    *,
    name: str,
    comment: str,
    output: str,
    folder: str,
    options: SbatchOptions,
    indices: Sequence[int] = (),
    after: str | None = None,
) -> list[str]:
    """Return sbatch's options for a script, or for an array with `indices`.

    `output` is a pattern of sbatch's, `folder` where the script starts. `after`: what must have
    completed; where it did not, Slurm cancels the job.
    """
    found = [
        f"--job-name={name}",
        f"--comment={comment}",
        f"--output={output}",
        # What was printed before a requeue is kept.
        "--open-mode=append",
        f"--chdir={folder}",
    ]
    if indices:
        throttle = "" if options.throttle is None else f"%{options.throttle}"
        found.append(f"--array={compact(indices)}{throttle}")
    if options.dependency or after:
        found.append(f"--dependency={','.join(filter(None, (options.dependency, after)))}")
    if after:
        found.append("--kill-on-invalid-dep=yes")
    if options.hold:
        found.append("--hold")
    if options.exclude:
        found.append(f"--exclude={options.exclude}")
    return found
