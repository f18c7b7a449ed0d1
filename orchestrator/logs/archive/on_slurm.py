"""Read an archive of logs with Slurm jobs: a job array with one task per shard of the logs.

If a shard is read twice, both results are equal, so a repetition does no harm. Submitted jobs are
recorded only so that a later call waits for these jobs instead of submitting new ones.
"""

import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.common.files import at_once, disk_errors
from orchestrator.common.text import counted
from orchestrator.hardware.cluster import Cluster
from orchestrator.logs.archive.folder import ShardJob, WorkFolder, work_folder
from orchestrator.logs.archive.shards import Reader, Shard, StampedLog, in_shards, stamped
from orchestrator.logs.find import Log
from orchestrator.logs.read import LogContent
from orchestrator.slurm.commands import SlurmAnswer, ask_jobs, ignored_variables, max_array_size
from orchestrator.slurm.executor import RefusedError, ScriptExecutor
from orchestrator.slurm.sbatch_options import SbatchOptions, sbatch_options, sbatch_path
from orchestrator.submit.scripts import shards_script
from parsers.scan.sources import STANDARD_INPUT

_LOOK_SECONDS = 0.5
_ASK_SECONDS = 5.0
# How long a result may take to appear through a network file system.
_LATE_SECONDS = 15.0
_GONE = "no longer known to Slurm"


@dataclass(frozen=True, slots=True)
class Task:
    """The task of an array that reads a shard, and the path of the task's output."""

    task_id: str
    log: Path


def read_on_slurm(
    logs: Sequence[Log],
    reader: Reader,
    cluster: Cluster,
    work: Path,
    *,
    count: int,
    tell: Callable[[str], None],
) -> list[LogContent]:
    """Return the content of each log; tasks of Slurm jobs read the logs, in about `count` shards.

    Results in `work` from an earlier call are used. If jobs of an earlier call still run, this call
    waits for them. Raises UserError with the number of each shard that has no result although its
    task has ended. The results of the other shards are kept.

    work: the folder for shards and results.
    tell: a function that is called with sentences about the progress.
    """
    _refuse_streams(logs)
    with disk_errors(work, "give a writable folder with --work"):
        folder = work_folder(work, reader)
        wanted = [stamped(log) for log in logs]
        tasks = _going_on(folder)
        earlier = [
            shard for shard in folder.shards() if _has_result(folder, shard) or shard.name in tasks
        ]
        earlier.sort(key=lambda shard: not _has_result(folder, shard))
        shards = list(in_shards(wanted, count, earlier))
        missing = [shard for shard in shards if not _has_result(folder, shard)]
        new = [shard for shard in missing if shard.name not in tasks]
        at_once(lambda shard: folder.shard(shard.name).save(reader, shard), new)
        for job in _submit(folder, reader, cluster, new, tasks):
            tell(job)
        if len(missing) > len(new):
            tell(f"earlier jobs are reading {counted(len(missing) - len(new), 'shard')}")
        _wait(folder, shards, tasks, tell)
        contents: dict[StampedLog, LogContent] = {}
        for shard in shards:
            results = folder.shard(shard.name).load_result()
            contents |= dict(zip(shard.logs, results, strict=True))
            if any(isinstance(result, OSError) for result in results):
                # The log may be readable next time.
                folder.shard(shard.name).result.unlink(missing_ok=True)
    return [contents[log] for log in wanted]


def _refuse_streams(logs: Sequence[Log]) -> None:
    for log in logs:
        if not isinstance(log.path, Path):
            raise UserError(
                f"{log.path}: is in a tar archive, which jobs cannot read; unpack it first"
            )
        try:
            mode = log.path.stat().st_mode
        except OSError:
            mode = stat.S_IFREG
        if str(log.path) == STANDARD_INPUT or not stat.S_ISREG(mode):
            raise UserError(
                f"{log.path}: is not a file, so Slurm jobs cannot read it; copy it to a file"
            )


def _going_on(folder: WorkFolder) -> dict[str, Task]:
    """Return the tasks of earlier job arrays that have not ended, by the names of their shards.

    Tasks whose shard has a result are left out. If Slurm's answer is incomplete and contains no
    state for a task, the task counts as not ended.
    """
    tasks = {
        shard: Task(f"{job.job_id}_{index}", folder.log(name, index))
        for name, job in folder.jobs()
        for index, shard in enumerate(job.shards)
        if not folder.shard(shard).result.exists()
    }
    answer = ask_jobs([task.task_id for task in tasks.values()])
    return {
        shard: task
        for shard, task in tasks.items()
        if ((state := answer.states.get(task.task_id)) is not None and not state.final)
        or (state is None and not answer.complete)
    }


def _submit(
    folder: WorkFolder,
    reader: Reader,
    cluster: Cluster,
    shards: Sequence[Shard],
    tasks: dict[str, Task],
) -> Iterator[str]:
    """Submit job arrays that read `shards`; yield a sentence for each array.

    tasks: a mapping from names of shards to tasks; the new tasks are added to it. Raises UserError
    if sbatch refuses an array.
    """
    if not shards:
        return
    yield from ignored_variables(cluster.account)
    executor = ScriptExecutor(folder.path)
    size = cluster.max_array_size or max_array_size()
    for start in range(0, len(shards), size):
        some = [shard.name for shard in shards[start : start + size]]
        name = f"parse-{reader.name}-{secrets.token_hex(6)}"
        job_folder = folder.path / "jobs" / name
        folder.new_job(name, shards_script(cluster, job_folder), some)
        options = sbatch_options(
            name=name,
            comment=counted(len(some), "shard"),
            output=f"{sbatch_path(job_folder)}/%a.log",
            folder=str(reader.folder),
            indices=range(len(some)),
            options=SbatchOptions(throttle=cluster.throttle),
        )
        try:
            job_id = executor.submit_script(job_folder / "script.sh", options)
        except RefusedError as refused:
            raise UserError(f"sbatch: {refused}") from None
        folder.submitted(name, ShardJob(job_id, tuple(some)))
        for index, shard in enumerate(some):
            tasks[shard] = Task(f"{job_id}_{index}", folder.log(name, index))
        yield f"{job_id}: {counted(len(some), 'shard')}"


def _wait(
    folder: WorkFolder,
    shards: Sequence[Shard],
    tasks: Mapping[str, Task],
    tell: Callable[[str], None],
) -> None:
    """Wait until each shard has a result, or its task has ended without a result.

    Raises UserError if a task has ended, and the shard's result does not appear soon afterwards.
    """
    waiting = dict(enumerate(shards, start=1))
    ended: dict[int, tuple[str, float]] = {}
    failed: dict[int, str] = {}
    asked_at = time.monotonic()
    while True:
        before = len(waiting)
        for number, shard in list(waiting.items()):
            if _has_result(folder, shard):
                del waiting[number]
            elif number in ended and time.monotonic() - ended[number][1] > _LATE_SECONDS:
                failed[number] = ended[number][0]
                del waiting[number]
        if len(waiting) < before:
            read = len(shards) - len(waiting) - len(failed)
            tell(f"{read} of {counted(len(shards), 'shard')} read")
        if not waiting:
            break
        time.sleep(_LOOK_SECONDS)
        if time.monotonic() - asked_at > _ASK_SECONDS:
            by_task = {tasks[shard.name].task_id: number for number, shard in waiting.items()}
            answer = ask_jobs(list(by_task))
            if not answer.complete:
                tell(f"Slurm gave no answer: {answer.silences[-1]}")
            # Slurm may report a job again that it did not know for a moment.
            ended = {
                by_task[task]: ended.get(by_task[task], (word, time.monotonic()))
                for task, word in _ends(answer, by_task)
            }
            asked_at = time.monotonic()
    if failed:
        lines = (
            f"shard {number} of {len(shards)} ({_what(shards[number - 1])}): {word}; see "
            f"{tasks[shards[number - 1].name].log}"
            for number, word in sorted(failed.items())
        )
        raise UserError(
            *lines,
            "run the same command to read these shards again; the results of the other shards are "
            "kept",
        )


def _ends(answer: SlurmAnswer, task_ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and the final state of each task that has ended, according to Slurm's answer.

    If a complete answer does not contain a task, the task has ended, too. Its state is then
    `no longer known to Slurm`.
    """
    for task in task_ids:
        state = answer.states.get(task)
        if state is not None and state.final:
            yield task, state.word
        elif state is None and answer.complete:
            yield task, _GONE


def _what(shard: Shard) -> str:
    first, more = shard.logs[0].path, len(shard.logs) - 1
    return f"{first} and {counted(more, 'other log')}" if more else str(first)


def _has_result(folder: WorkFolder, shard: Shard) -> bool:
    return folder.shard(shard.name).result.exists()
