"""Split an archive of logs into shards: each log once, in shards of similar size."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.files import write_json
from orchestrator.logs.archive import shards as shards_module
from orchestrator.logs.archive.folder import ShardFolder
from orchestrator.logs.archive.job import read_shard
from orchestrator.logs.archive.shards import (
    Reader,
    Shard,
    StampedLog,
    code_fingerprint,
    in_shards,
    stamped,
)
from orchestrator.logs.find import Log
from parsers.summary.warmup import Warmup

SIZES = st.lists(st.integers(0, 10**9), min_size=1, max_size=40)


def logs_of(sizes: list[int]) -> list[StampedLog]:
    """Return logs whose files have these sizes in bytes."""
    return [StampedLog(Path(f"{n}.log"), None, ((size, 0),)) for n, size in enumerate(sizes)]


@given(SIZES, st.integers(1, 12))
def test_each_log_is_in_one_shard_and_shards_are_of_about_the_same_size(
    sizes: list[int], count: int
) -> None:
    """Each log is in exactly one shard, shards are of similar size, and no shard is empty.

    The size of a shard is the bytes of its logs, plus 4096 per log. Two shards differ by no more
    than the size of the largest log, counted in the same way.
    """
    logs = logs_of(sizes)
    shards = list(in_shards(logs, count))
    assert sorted(log.path for shard in shards for log in shard.logs) == sorted(
        log.path for log in logs
    )
    assert len(shards) == min(count, len(logs))
    assert all(shard.logs for shard in shards)
    weights = [shard.bytes + 4096 * len(shard.logs) for shard in shards]
    assert max(weights) - min(weights) <= max(sizes) + 4096


@given(SIZES, st.integers(1, 12), st.data())
def test_a_shard_stays_as_long_as_its_logs_do(
    sizes: list[int], count: int, data: st.DataObject
) -> None:
    """If a log changes, only the shard of that log is read again."""
    logs = logs_of(sizes)
    earlier = list(in_shards(logs, count))
    changed = data.draw(st.integers(0, len(logs) - 1))
    now = [*logs]
    now[changed] = replace(logs[changed], stamps=((sizes[changed], 1),))
    shards = list(in_shards(now, count, earlier))
    kept = [shard for shard in earlier if logs[changed] not in shard.logs]
    assert shards[: len(kept)] == kept
    assert sorted(log.path for shard in shards for log in shard.logs) == sorted(
        log.path for log in logs
    )
    assert now[changed] in [log for shard in shards for log in shard.logs]


def test_the_same_logs_give_the_same_shards() -> None:
    """The same logs give shards of the same names in every call; other logs give other names."""
    logs = logs_of([5, 4, 3, 2, 1])
    names = [shard.name for shard in in_shards(logs, 2)]
    assert names == [shard.name for shard in in_shards(logs, 2)]
    assert len({*names, Shard((replace(logs[0], stamps=((5, 1),)),)).name}) == 3


def saved(folder: Path, *paths: Path) -> ShardFolder:
    """Save a shard of these logs, as `parse` does before it submits the shard's job.

    Return the shard's folder.
    """
    reader = Reader(
        folder=folder, warmup=Warmup(rule="first"), keep_skipped=False, code=code_fingerprint()
    )
    shard = ShardFolder(folder / "shard")
    shard.save(reader, Shard(tuple(stamped(Log(path)) for path in paths)))
    return shard


def test_a_log_invisible_on_the_node_differs_from_an_unreadable_one(tmp_path: Path) -> None:
    """If a log existed when its shard was saved, but the job's node does not see it, the job fails.

    A log that did not exist when the shard was saved gives an error in the result instead.
    """
    (tmp_path / "a.log").write_text("hello\n")
    shard = saved(tmp_path, tmp_path / "a.log", tmp_path / "never.log")
    read_shard(shard)
    [_, error] = shard.load_result()
    assert isinstance(error, FileNotFoundError)
    shard.result.unlink()
    (tmp_path / "a.log").unlink()
    with pytest.raises(RuntimeError, match=r"a\.log: cannot be read from this node"):
        read_shard(shard)
    assert not shard.result.exists()


def test_another_version_does_not_read_a_shard(tmp_path: Path) -> None:
    """A job with another version of teralog refuses to read a shard."""
    shard = saved(tmp_path)
    reader, logs = shard.load()
    shard.save(replace(reader, code="other"), logs)
    with pytest.raises(RuntimeError, match="another version of teralog"):
        read_shard(shard)


def log_in_results(results: Path) -> Path:
    """Return a log in a results folder, whose campaign has a warm-up of 2 iterations."""
    attempt = results / "mine" / "abc123" / "attempt-1"
    attempt.mkdir(parents=True)
    write_json(results / "mine" / "campaign.json", {"name": "mine", "warmup": 2, "runs": {}})
    write_json(attempt.parent / "run.json", {"train_iters": 4, "global_batch_size": 8})
    log = attempt / "output.log"
    log.write_text(
        "".join(
            f"[teralog] iteration {number}/4 | step_seconds 1.0 | samples_per_second 8 | loss 6.25 "
            "| memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
            for number in range(1, 5)
        )
    )
    return log


def test_a_log_in_results_is_read_again_after_its_campaigns_warm_up_changed(tmp_path: Path) -> None:
    """If the warm-up of a campaign changes, the logs in its results are read again.

    The stored result of a shard is valid only for the warm-up with which it was computed.
    """
    log = log_in_results(tmp_path)
    before = stamped(Log(log))
    campaign = tmp_path / "mine" / "campaign.json"
    write_json(campaign, {"name": "mine", "warmup": "first", "runs": {}})
    assert stamped(Log(log)) != before
    assert stamped(Log(tmp_path / "other.log")).stamps == (None,)


def test_a_change_of_any_module_that_reads_a_shard_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in any module that reads a shard changes the fingerprint of the code.

    If the fingerprint stayed the same, teralog would use a result of an older version.
    """
    reader = Reader(folder=tmp_path, warmup=None, keep_skipped=False, code=code_fingerprint())
    shard = ShardFolder(tmp_path / "shard")
    shard.save(reader, Shard((stamped(Log(log_in_results(tmp_path / "results"))),)))
    root = shards_module.ROOT
    code = (
        "import sys; from pathlib import Path\n"
        "from orchestrator.logs.archive.folder import ShardFolder\n"
        "from orchestrator.logs.archive.job import read_shard\n"
        "read_shard(ShardFolder(Path(sys.argv[1])))\n"
        "files = [getattr(one, '__file__', None) for one in list(sys.modules.values())]\n"
        "print(*(file for file in files if file), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(shard.path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    [[summary]] = shard.load_result()
    assert summary.dropped == 2
    packages = [root / "orchestrator", root / "parsers"]
    modules = [
        path.relative_to(root)
        for path in map(Path, done.stdout.splitlines())
        if any(path.is_relative_to(package) for package in packages)
    ]
    assert Path("parsers/summary/warmup.py") in modules
    for package in packages:
        copy = tmp_path / "copy" / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(shards_module, "ROOT", tmp_path / "copy")
    fingerprints = {code_fingerprint()}
    for module in modules:
        if module == Path("orchestrator/__init__.py"):
            continue  # holds a docstring only
        with (tmp_path / "copy" / module).open("a") as file:
            file.write("# changed\n")
        fingerprint = code_fingerprint()
        assert fingerprint not in fingerprints, module
        fingerprints.add(fingerprint)
