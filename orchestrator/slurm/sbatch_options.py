"""Build sbatch's options: name, log, folder, array, dependency, and the user's options."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.slurm.arrays import Place
from orchestrator.slurm.lists import compact


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchOptions:
    """Options for sbatch that the user gave when starting runs; absent ones are None.

    throttle: the largest number of array tasks that run at once. dependency, exclude: in sbatch's
    syntax. hold: whether the jobs wait until the user releases them.
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
    """Return sbatch's options for one script, or for an array of them.

    output: the log's path, with sbatch's placeholders. folder: the script's working directory.
    indices: the indices of the array's tasks; empty for a single job.
    after: sbatch's dependency on the job that must complete first; if that job fails, Slurm cancels
    this one.
    """
    arguments = [
        f"--job-name={name}",
        f"--comment={comment}",
        f"--output={output}",
        # Keep the output from before a requeue.
        "--open-mode=append",
        f"--chdir={folder}",
    ]
    if indices:
        throttle = "" if options.throttle is None else f"%{options.throttle}"
        arguments.append(f"--array={compact(indices)}{throttle}")
    if options.dependency or after:
        arguments.append(f"--dependency={','.join(filter(None, (options.dependency, after)))}")
    if after:
        arguments.append("--kill-on-invalid-dep=yes")
    if options.hold:
        arguments.append("--hold")
    if options.exclude:
        arguments.append(f"--exclude={options.exclude}")
    return arguments


def dependency(before: Sequence[Place]) -> str | None:
    """Return sbatch's --dependency for a batch of runs; None if the runs wait for no other run.

    before: for each run of the batch, the job or array task that must complete first. If the batch
    has several runs, they wait for tasks of one earlier array. Each run waits for the task that has
    the same index as its own task.
    """
    if not before:
        return None
    if len(before) == 1:
        return f"afterok:{before[0].text}"
    return f"aftercorr:{before[0].job_id}"


def sbatch_path(path: Path) -> str:
    """Return a path in the form in which an option of sbatch must contain it.

    sbatch replaces e.g. `%j` in the names of files, so each `%` in the path is doubled. But if
    the path contains a backslash, sbatch replaces nothing in it. Then only the backslashes are
    doubled.
    """
    text = str(path)
    return text.replace("\\", "\\\\") if "\\" in text else text.replace("%", "%%")
