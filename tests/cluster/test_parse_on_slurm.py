"""Check that `teralog parse --on-slurm` gives the same output as one process."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard
from practice.running import Cluster

# The generator of logs for measurements; tests are not a package.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from generated_logs import write_log

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
OOM = b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
GO = 'touch "$GO.$SLURM_ARRAY_TASK_ID"; until test -e "$GO"; do sleep 0.1; done'
_ON_THE_WAY = re.compile(
    r"\d+: \d+ shards?|\d+ of \d+ shards? read|\d+ shards? (is|are) being read .*"
)


@dataclass
class Archive:
    """A folder with many logs to parse, and a profile of the cluster."""

    path: Path
    environment: dict[str, str]

    def profile(self, text: str = "") -> None:
        """Write the cluster profile, with these additional lines."""
        (self.path / "cpu.yaml").write_text(
            f"gpus_per_node: 0\nmemory: 1G\npython: {json.dumps(sys.executable)}\n{text}"
        )

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start `teralog parse --on-slurm` on the archive."""
        return subprocess.Popen(
            [TERALOG, "parse", "logs", "logs/named.txt", *options],
            cwd=self.path,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def parse(self, *options: str) -> tuple[bytes, int, list[str]]:
        """Parse the archive; return the output, the exit code, and stderr without progress."""
        out, code, errors = self.finish(self.start(*options))
        return out, code, [line for line in errors if not _ON_THE_WAY.fullmatch(line)]

    def finish(self, process: "subprocess.Popen[bytes]") -> tuple[bytes, int, list[str]]:
        """Wait for the command's end; return the output, the exit code, and all lines of stderr."""
        out, errors = process.communicate(timeout=240)
        return out, process.returncode, errors.decode().splitlines()

    def wait_for(self, slurm: Cluster, count: int) -> list[str]:
        """Wait until this many tasks of Slurm parse the archive, and return the tasks' ids."""
        for _ in range(900):
            # Jobs of other tests may take a while to end.
            lines = slurm.run("squeue", "-h", "-t", "R,CG", "-o", "%F_%K %Z").stdout.splitlines()
            running = [line.split(maxsplit=1) for line in lines]
            ids = [task for task, folder in running if Path(folder) == self.path]
            # If the script has not begun yet, scancel ends the job and not the script.
            if len(ids) == count and len(list(self.path.glob("go.*"))) >= count:
                return ids
            time.sleep(0.1)
        raise AssertionError(ids)


@pytest.fixture
def archive(tmp_path: Path, slurm: Cluster) -> Archive:
    """Return a folder of logs: large, compressed, cut off and empty ones, and a stdout/stderr pair.

    The folder also has files that are not logs.
    """
    logs = tmp_path / "logs"
    (logs / "old runs").mkdir(parents=True)
    for number in range(6):
        write_log(logs / f"run-{number}.log", 60_000 * (number + 1), 20, seed=number)
    plain = (logs / "run-2.log").read_bytes()
    (logs / "old runs" / "run.log.gz").write_bytes(gzip.compress(plain))
    (logs / "old runs" / "cut.log.gz").write_bytes(gzip.compress(plain)[:-2000])
    (logs / "old runs" / "run.log.zst").write_bytes(zstandard.compress(plain))
    (logs / "slurm-1.out").write_bytes(plain[:40_000])
    (logs / "slurm-1.err").write_bytes(OOM)
    (logs / "empty.log").touch()
    (logs / "nul.log").write_bytes(b"\0" * 100)
    (logs / "notes.txt").write_text("no training output\n")
    (logs / "named.txt").write_text("nothing either\n")
    (logs / "two.log").write_bytes(plain + OOM + plain)
    environment = {**slurm.environment, "GO": str(tmp_path / "go")}
    new_archive = Archive(tmp_path, environment)
    new_archive.profile()
    return new_archive


STEPS = ("--steps", "--format", "csv")
ON_SLURM = ("--on-slurm", "cpu.yaml", "--shards", "4")


@pytest.mark.parametrize(
    ("options", "layouts"),
    [
        ((), [(), *(("--format", name) for name in ("md", "csv", "json", "parquet")), STEPS]),
        # The format of the output does not change which logs are read.
        (("--warmup", "auto", "--skipped", "keep"), [("--format", "json"), STEPS]),
    ],
)
def test_output_equals_that_of_one_process(archive: Archive, options: Any, layouts: Any) -> None:
    """`parse --on-slurm` prints the same as `parse`, in each output format.

    Only the first call reads the logs, in one Slurm job. Calls for other formats use its results.
    """
    for layout in layouts:
        alone = archive.parse(*options, *layout)
        assert alone[1] == 1
        assert any("cut.log.gz" in line for line in alone[2])
        assert archive.parse(*options, *layout, *ON_SLURM) == alone
    assert len(list(archive.path.glob("results/.parse/*/jobs/*"))) == 1
    assert len(list(archive.path.glob("results/.parse/*/shards/*"))) == 4


def test_only_the_shard_of_a_changed_log_is_read_again(archive: Archive) -> None:
    """If a log is new or changed, only its shard (the logs that one task reads) is read again."""
    archive.parse(*ON_SLURM)
    with (archive.path / "logs" / "run-5.log").open("ab") as log:
        log.write(OOM)
    (archive.path / "logs" / "new.log").write_bytes(OOM)
    out, _, errors = archive.finish(archive.start(*ON_SLURM))
    assert out == archive.parse()[0]
    [submitted] = [line for line in errors if re.fullmatch(r"\d+: \d+ shards?", line)]
    assert int(submitted.split()[1]) < 4


def test_a_second_call_reads_the_shard_that_was_cancelled_and_no_other(
    archive: Archive, slurm: Cluster
) -> None:
    """If a Slurm task is cancelled, `parse --on-slurm` names the task's shard, and prints no table.

    The next call reads only this shard.
    """
    archive.profile(f"setup: [{json.dumps(GO)}]")
    process = archive.start(*ON_SLURM)
    ids = archive.wait_for(slurm, 4)
    slurm.run("scancel", ids[1])
    archive.wait_for(slurm, 3)
    (archive.path / "go").touch()
    out, code, errors = archive.finish(process)
    assert (out, code) == (b"", 1)
    index = ids[1].partition("_")[2]
    [line] = [line for line in errors if line.startswith("teralog: shard ")]
    assert re.search(
        rf"shard \d of 4 \(logs/.*\): (CANCELLED|no longer known to Slurm); see .*/{index}\.log",
        line,
    )
    out, code, errors = archive.finish(archive.start(*ON_SLURM))
    assert [line.partition(": ")[2] for line in errors if line.endswith(" shard")] == ["1 shard"]
    alone = archive.parse("--format", "json")
    assert archive.parse("--format", "json", *ON_SLURM) == alone
    assert (out, code) == archive.parse()[:2]


def test_a_shard_whose_job_fails_is_named(archive: Archive) -> None:
    """If a task fails, the message names its shard (the logs that one task reads) and its log.

    Once the cause is fixed, the next call reads the shard.
    """
    archive.profile("setup: ['if [ $SLURM_ARRAY_TASK_ID = 2 ]; then echo no disk; exit 3; fi']")
    out, code, errors = archive.parse(*ON_SLURM)
    assert (out, code) == (b"", 1)
    assert len(errors) == 2
    match = re.fullmatch(r"teralog: shard 3 of 4 \(logs/.*\): FAILED; see (.*/2\.log)", errors[0])
    assert match
    assert "no disk" in Path(match[1]).read_text()
    archive.profile()
    assert archive.parse(*ON_SLURM) == archive.parse()


def test_ctrl_c_leaves_the_jobs_and_the_next_call_waits_for_them(
    archive: Archive, slurm: Cluster
) -> None:
    """After Ctrl-C, the next call waits for the same jobs, and submits no job twice."""
    archive.profile(f"setup: [{json.dumps(GO)}]")
    process = archive.start(*ON_SLURM)
    archive.wait_for(slurm, 4)
    process.send_signal(signal.SIGINT)
    out, code, errors = archive.finish(process)
    assert (out, code) == (b"", 130)
    assert errors[-1].startswith("stopped waiting; the jobs continue")
    second = archive.start(*ON_SLURM)
    assert second.stderr is not None
    assert second.stderr.readline() == b"earlier jobs are reading 4 shards\n"
    (archive.path / "go").touch()
    out, code, _ = archive.finish(second)
    assert (out, code) == archive.parse()[:2]
    assert len(list(archive.path.glob("results/.parse/*/jobs/*"))) == 1


def test_impossible_requests_are_reported(archive: Archive) -> None:
    """`parse --on-slurm` refuses standard input, missing files, and profiles that it cannot use."""
    (archive.path / "here.yaml").write_text("scheduler: local\n")

    def parse(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [TERALOG, "parse", *arguments],
            cwd=archive.path,
            env={**os.environ, **archive.environment},
            input="",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stderr

    code, text = parse("-", "--on-slurm", "cpu.yaml")
    assert (code, "-: is not a file, so Slurm jobs cannot read it" in text) == (1, True)
    code, text = parse("logs", "nowhere", "--on-slurm", "cpu.yaml")
    assert (code, "nowhere: does not exist" in text) == (1, True)
    code, text = parse("logs", "--on-slurm", "here.yaml")
    assert (code, "is this machine" in text) == (1, True)
    assert parse("logs", "--shards", "3")[0] == 2
    archive.profile("partition: no-such\n")
    code, text = parse("logs", "--on-slurm", "cpu.yaml")
    assert (code, "sbatch: invalid partition specified" in text.lower()) == (1, True)
