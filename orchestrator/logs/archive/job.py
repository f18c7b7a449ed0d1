"""Read one shard of an archive of logs, in a separate job: `python -m … FOLDER`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.logs.archive.folder import ShardFolder
from orchestrator.logs.archive.shards import Shard, code_fingerprint, stamped
from orchestrator.logs.read import LogContent, summaries_of


def read_shard(folder: ShardFolder) -> None:
    """Read the logs of a shard, and write their content into the shard's folder.

    Raises RuntimeError if the code that reads logs has changed since the job was submitted.
    """
    reader, shard = folder.load()
    if reader.code != code_fingerprint():
        raise RuntimeError(
            f"{sys.executable} has another version of teralog than the command that submitted this "
            "job"
        )
    # If there is no such folder, sbatch continues in another one.
    os.chdir(reader.folder)
    contents = list(
        summaries_of(
            [log.log for log in shard.logs],
            reader.warmup,
            keep_skipped=reader.keep_skipped,
            configured=reader.configured,
            processes=int(os.environ.get("SLURM_CPUS_PER_TASK", "1")),
        )
    )
    _require_same_files(shard, contents)
    folder.save_result(contents)


def _require_same_files(shard: Shard, contents: Sequence[LogContent]) -> None:
    """Raise RuntimeError if a log cannot be read because this node lacks some of the log's files.

    A file is lacking if it existed when the shard was made, and does not exist on this node.

    contents: for each log of the shard, its content or the error that reading it raised.
    """
    for log, content in zip(shard.logs, contents, strict=True):
        now = stamped(log.log)
        if isinstance(content, OSError) and now.stamps.count(None) > log.stamps.count(None):
            raise RuntimeError(f"{log.path}: cannot be read from this node: {content}")


if __name__ == "__main__":
    read_shard(ShardFolder(Path(sys.argv[1])))
