"""Find logs by the user's paths, folders and globs."""

import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path, PurePath
from stat import S_ISREG

from orchestrator.logs.tar_files import is_tar, tar_members
from parsers.runs.pairs import output_of
from parsers.runs.streams import is_stream
from parsers.scan.sources import LogSlice

# Names of logs: slurm-123.out, log.txt.gz, train.o1234, rank0.log.2, smi.csv, and off.mem of
# OneFlow's benchmarks.
_LOG = re.compile(
    r"^trainer_state\.json$|\.(?:(?:out|err|log|txt|csv|jsonl|mem|stdout|stderr)(?:\.[0-9]+)?|[oe][0-9]+)(?:\.(?:gz|zst|xz|bz2))?$",
    re.IGNORECASE,
)
_CHECKPOINT = re.compile(r"checkpoint-(?P<step>[0-9]{1,15})")
_NO_LOG = (
    "no file name ends in .out, .err, .log, .txt or .jsonl (or these with .gz, .zst, .xz or "
    ".bz2); give the paths of the files themselves"
)


@dataclass(frozen=True, slots=True)
class Log:
    """A log, with the other files of the same run.

    errors: the file with the run's errors, e.g. a.err next to a.out; None if there is none.
    named: whether the user named the log itself, and not its folder or archive.
    streams: metrics files (JSON) of the run, in the log's folder or in folders below it. A metrics
        file is left out if a folder nearer to it has a log.
    """

    path: Path | LogSlice
    errors: Path | LogSlice | None = None
    named: bool = True
    streams: tuple[Path | LogSlice, ...] = ()

    @property
    def files(self) -> tuple[Path | LogSlice, ...]:
        """All files of the log; the first is the log itself."""
        return (self.path, *([] if self.errors is None else [self.errors]), *self.streams)


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """The logs that were found, each once, and a sentence for each path that has a problem."""

    logs: tuple[Log, ...]
    problems: tuple[str, ...]


def find_logs(
    paths: Sequence[str],
    unpack_into: Path,
    tell: Callable[[Path], Callable[[int], None]] = lambda path: lambda count: None,
) -> FoundLogs:
    """Return the logs at paths: files, folders with everything below, globs, and `-` for stdin.

    From a folder or a tar archive, only files are returned that have a log's name and are not
    hidden.

    unpack_into: a folder for the logs of compressed archives. tell: called with the path of
    each archive before teralog reads the archive, because reading it may take long. Returns a
    function, which is called after each read from the archive with the number of bytes.
    """
    # True for a file that the user named, false for a file in a folder.
    files: dict[Path, bool] = {}
    problems = []
    for text in dict.fromkeys(paths):
        meant = _meant(text)
        for path in meant:
            # Path.is_dir raises PermissionError, but os.path.isdir returns False.
            if os.path.isdir(path):  # noqa: PTH112
                unreadable: list[OSError] = []
                logs = sorted(_logs_below(path, unreadable.append))
                problems += [
                    f"{error.filename}: cannot be read: {error.strerror}" for error in unreadable
                ]
                if not logs and not unreadable:
                    problems.append(f"{path}: contains no log: {_NO_LOG}")
                files |= {log: False for log in logs if log not in files}
            else:
                files[path] = True
        if not meant:
            problems.append(f"{text or repr(text)}: there is no file or folder with this name")
    found_logs: list[Log] = []
    for candidate in _paired(files.items()):
        if not isinstance(candidate.path, Path) or not is_tar(candidate.path):
            found_logs.append(candidate)
            continue
        members, problem = tar_members(
            candidate.path, unpack_into, is_log_name, tell(candidate.path)
        )
        problems += [problem] if problem else []
        if not members and not problem and files[candidate.path]:
            problems.append(f"{candidate.path}: contains no log: {_NO_LOG}")
        by_name = sorted(members, key=lambda member: member.name)
        found_logs += _paired((member, False) for member in by_name)
    return FoundLogs(tuple(_with_streams(found_logs)), tuple(problems))


def _meant(text: str) -> list[Path]:
    if not text:
        return []  # a variable that is not set; as a Path it would be this folder
    if not os.path.lexists(text) and glob.has_magic(text):
        # Path.glob takes no absolute pattern.
        return sorted(map(Path, glob.iglob(text, recursive=True)))  # noqa: PTH207
    return [Path(text)]


def _logs_below(folder: Path, tell: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the logs and tar archives in a folder and below it, except hidden ones and pipes.

    tell: called with the error for each folder that cannot be listed.
    """
    for parent, folders, names in os.walk(folder, onerror=tell):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            path
            for name in names
            for path in [Path(parent, name)]
            if (is_log_name(name) or (is_tar(path) and not name.startswith(".")))
            and not _is_stream_or_device(path)
        )


def _is_stream_or_device(path: Path) -> bool:
    """Return whether a path is a named pipe, a socket or a device. Reading it may take forever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not S_ISREG(mode)


def is_log_name(name: str) -> bool:
    """Return whether a file has a log's name, e.g. `train.log.gz`, and is not hidden.

    A hidden file's name begins with a dot.
    """
    return _LOG.search(name) is not None and not name.startswith(".")


def _paired(files: Iterable[tuple[Path | LogSlice, bool]]) -> Iterator[Log]:
    """Yield logs. The output file and the error file of a run form one log.

    files: each file, and whether the user named it.
    """
    by_path = {Path(str(file)): (file, named) for file, named in files}
    errors = {
        output: file
        for path, (file, _) in by_path.items()
        if (output := output_of(path)) in by_path
    }
    of_errors = {*errors.values()}
    for path, (file, named) in by_path.items():
        if file not in of_errors:
            yield Log(file, errors.get(path), named)


def _with_streams(logs: Sequence[Log]) -> Iterator[Log]:
    """Yield logs, each with the metrics files that probably belong to the same run.

    A metrics file belongs to the console log in the same folder, or else in the nearest folder
    above that has console logs. The metrics file counts as a separate log in two cases: that
    folder has several console logs, or no folder above has one.

    A training saves a `trainer_state.json` with every checkpoint. Only the last one is used,
    because it contains the content of the earlier ones.
    """
    consoles: dict[PurePath, list[Log]] = {}
    for log in logs:
        if not is_stream(str(log.path)):
            consoles.setdefault(PurePath(str(log.path)).parent, []).append(log)
    streams: dict[Log, list[Log]] = {}
    alone: set[Log] = set()
    for log in _last_states(logs):
        near = next(filter(None, map(consoles.get, PurePath(str(log.path)).parents)), [])
        if len(near) == 1:
            streams.setdefault(near[0], []).append(log)
        else:
            alone.add(log)
    for log in logs:
        if not is_stream(str(log.path)):
            yield replace(log, streams=tuple(stream.path for stream in streams.get(log, [])))
        elif log in alone:
            yield log


def _last_states(logs: Sequence[Log]) -> Iterator[Log]:
    """Yield the metrics files among logs, but only the last `trainer_state.json` of each training.

    A training saves this file with each checkpoint, and the last file contains the content of
    the earlier ones. A file that the user named is always yielded.
    """
    states: dict[PurePath, list[tuple[float, Log]]] = {}
    for log in logs:
        path = PurePath(str(log.path))
        if not is_stream(path.name):
            continue
        if not path.name.startswith("trainer_state.json") or log.named:
            yield log
            continue
        saved = _CHECKPOINT.fullmatch(path.parent.name)
        folder = path.parent.parent if saved else path.parent
        step = float(saved["step"]) if saved else math.inf
        states.setdefault(folder, []).append((step, log))
    for steps_and_logs in states.values():
        yield max(steps_and_logs, key=itemgetter(0))[1]
