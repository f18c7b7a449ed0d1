"""Divide an archive of logs into shards of similar size; a task of a Slurm job reads one shard.

A shard is identified by the paths, sizes and times of its logs. If a log changes, its shard counts
as a new shard, which has not been read yet.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.common.version import version
from orchestrator.logs.find import Log
from orchestrator.logs.recorded import record_files
from parsers.summary.launches import NOTHING_CONFIGURED, Configured
from parsers.summary.warmup import Warmup

ROOT = Path(__file__).parents[3]
# How a log is read depends on these files: if one changes, earlier results are not used.
_CODE = (
    "parsers/**/*.py",
    "orchestrator/common/**/*.py",
    "orchestrator/store/**/*.py",
    "orchestrator/logs/**/*.py",
)

Stamp = tuple[int, int] | None
"""A file's size in bytes and when it was changed, in ns; None if the file does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The settings for reading logs.

    folder: the folder to which relative paths refer. warmup, keep_skipped: these decide which step
    reports the results include. configured: values that are used for logs that do not contain
    them. code: a fingerprint of the source files that read logs.
    """

    folder: Path
    warmup: Warmup | None
    keep_skipped: bool
    configured: Configured = NOTHING_CONFIGURED
    code: str

    @property
    def name(self) -> str:
        """The name of the folder for these settings; it changes if a setting changes."""
        return _fingerprint(str(self).encode(errors="surrogateescape"))


@dataclass(frozen=True, slots=True)
class StampedLog:
    """The files of one log, with their sizes and modification times at one moment.

    path: the log itself.
    errors: the file with the errors of the same run, or None.
    stamps: the size and modification time of each file, and of the run.json and campaign.json that
        determine how the log is read; None for a missing file.
    streams: the metrics files of the same run.
    """

    path: Path
    errors: Path | None
    stamps: tuple[Stamp, ...]
    streams: tuple[Path, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of the log's files on disk, in bytes."""
        return sum(stamp[0] for stamp in self.stamps if stamp)

    @property
    def log(self) -> Log:
        """The log without sizes and times."""
        return Log(self.path, self.errors, streams=self.streams)


@dataclass(frozen=True, slots=True)
class Shard:
    """The logs that one task of a job array reads, in this order."""

    logs: tuple[StampedLog, ...]

    @property
    def name(self) -> str:
        """The name of the shard's folder; it changes if a log's path, size or time changes."""
        return _fingerprint(str(self).encode(errors="surrogateescape"))

    @property
    def bytes(self) -> int:
        """The size of all files of the shard's logs on disk, in bytes."""
        return sum(log.bytes for log in self.logs)


def code_fingerprint() -> str:
    """Return a hash of the source files that read logs; it changes if the code changes."""
    texts = (path.read_bytes() for pattern in _CODE for path in sorted(ROOT.glob(pattern)))
    return _fingerprint(version().encode(), *texts)


def stamped(log: Log) -> StampedLog:
    """Return a log with the sizes and modification times of its files.

    These include the files that determine how the log is read: run.json and campaign.json.
    """
    path, errors = Path(str(log.path)), None if log.errors is None else Path(str(log.errors))
    streams = tuple(Path(str(stream)) for stream in log.streams)
    files = (path, *([] if errors is None else [errors]), *streams)
    stamps = map(_stamp, (*files, *record_files(path)))
    return StampedLog(path, errors, tuple(stamps), streams)


def in_shards(
    logs: Sequence[StampedLog], count: int, earlier: Iterable[Shard] = ()
) -> Iterator[Shard]:
    """Yield about `count` shards of similar size, which together contain each log once.

    earlier: shards of an earlier call. A shard is used again if all its logs are among `logs`, and
    none of them is in another shard that is used again. The other logs form new shards.
    """
    left = dict.fromkeys(logs)
    for shard in earlier:
        if all(log in left for log in shard.logs):
            for log in shard.logs:
                del left[log]
            yield shard
    whole = sum(map(_weight, logs))
    yield from _balanced(list(left), -(-count * sum(map(_weight, left)) // whole) if left else 0)


def _balanced(logs: Sequence[StampedLog], count: int) -> Iterator[Shard]:
    """Divide logs into at most `count` shards of similar size.

    The logs are assigned one by one, from the largest to the smallest. Each log goes to the shard
    that is the smallest so far.
    """
    members: list[list[int]] = [[] for _ in range(min(count, len(logs)))]
    filled = [0] * len(members)
    for at in sorted(range(len(logs)), key=lambda at: -logs[at].bytes):
        least = filled.index(min(filled))
        members[least].append(at)
        filled[least] += _weight(logs[at])
    yield from (Shard(tuple(logs[at] for at in sorted(member))) for member in members)


def _weight(log: StampedLog) -> int:
    # Opening a log takes time too, even if it is empty.
    return log.bytes + 2**12


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _fingerprint(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
