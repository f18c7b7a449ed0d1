"""Make the options of sbatch: name, log, folder, array, dependency, and what the user asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.slurm.arrays import Place
from orchestrator.slurm.lists import compact


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


def sbatch_path(path: Path) -> str:
    """Return a path as sbatch's patterns of file names have it: `%` begins a replacement.

    A backslash anywhere stops all replacements, and stands twice for one.
    """
    text = str(path)
    return text.replace("\\", "\\\\") if "\\" in text else text.replace("%", "%%")
