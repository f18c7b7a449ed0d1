"""Read one shard of an archive of logs, in a job of its own: `python -m … FOLDER`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.logs.archive.folder import ShardFolder
from orchestrator.logs.archive.shards import Shard, code_fingerprint, stamped
from orchestrator.logs.read import Found, summaries_of


def read_shard(folder: ShardFolder) -> None:
    """Read a shard's logs, and write what they say.

    Raises RuntimeError where this process is not one that would find what the submitting one does.
    """
    reader, shard = folder.load()
    if reader.code != code_fingerprint():
        raise RuntimeError(f"{sys.executable} has another version of teralog than who submitted")
    # sbatch goes elsewhere, and on, where there is no such folder.
    os.chdir(reader.folder)
    found = list(
        summaries_of(
            [one.log for one in shard.logs],
            reader.warmup,
            keep_skipped=reader.keep_skipped,
            global_batch_size=reader.global_batch_size,
            processes=int(os.environ.get("SLURM_CPUS_PER_TASK", "1")),
        )
    )
    _require_same_files(shard, found)
    folder.save_result(found)


def _require_same_files(shard: Shard, found: Sequence[Found]) -> None:
    """Raise RuntimeError where a log that is there is not to be seen from this node."""
    for log, said in zip(shard.logs, found, strict=True):
        now = stamped(log.log)
        if isinstance(said, OSError) and now.stamps.count(None) > log.stamps.count(None):
            raise RuntimeError(f"{log.path}: is not to be seen from here: {said}")


if __name__ == "__main__":
    read_shard(ShardFolder(Path(sys.argv[1])))
