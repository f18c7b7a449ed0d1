"""Job arrays: the runs that go to Slurm together, and the script of an array."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.slurm.arrays import Place, Script, batch_script, batches, directives
from orchestrator.store.folders import BatchFolder

HEADER = """\
#!/bin/bash
#SBATCH --job-name=play-{name}
#SBATCH --comment={name}
#SBATCH --nodes={nodes}
#SBATCH --constraint=v100-32g
#SBATCH --time=0:10:00
#SBATCH --output=/results/{name}/slurm-%j.out
# Campaign play

echo x
#SBATCH --this=is-no-directive
"""


def script(name: str, nodes: int = 1) -> Script:
    """Return a run's script."""
    return Script(name, HEADER.format(name=name, nodes=nodes))


def test_directives_are_what_a_script_asks_for_and_not_what_it_calls_itself() -> None:
    """They end at the first line of shell."""
    assert directives(script("a").text) == (
        "#SBATCH --nodes=1",
        "#SBATCH --constraint=v100-32g",
        "#SBATCH --time=0:10:00",
    )


@pytest.mark.parametrize(
    ("size", "arrays", "groups"),
    [
        (1000, True, [["a", "b", "d", "f"], ["c", "e"]]),
        (3, True, [["a", "b", "d"], ["f"], ["c", "e"]]),
        (1, True, [["a"], ["b"], ["d"], ["f"], ["c"], ["e"]]),
        (1000, False, [["a"], ["b"], ["d"], ["f"], ["c"], ["e"]]),
    ],
)
def test_runs_that_ask_for_the_same_go_together(
    size: int, arrays: bool, groups: list[list[str]]
) -> None:
    """In their order, and no more than an array holds."""
    scripts = [script(name, nodes=2 if name in "ce" else 1) for name in "abcdef"]
    found = [[one.run_id for one in group] for group in batches(scripts, size, arrays=arrays)]
    assert found == groups


def run_task(batch: Path, index: int, job_id: str) -> "subprocess.CompletedProcess[str]":
    """Run a copy of a batch's script as Slurm does, which keeps one of its own."""
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
    """The folder of a batch of two runs, which end with 3 and 4."""
    folder = tmp_path / "it's a folder"
    for index in range(2):
        run = tmp_path / f"run {index}"
        run.mkdir()
        (run / "job.sh").write_text(f"pwd; exit {index + 3}\n")
        folder.mkdir(exist_ok=True)
        (folder / str(index)).symlink_to(f"../{run.name}")
    text = batch_script(script("a").text, folder)
    (folder / "script.sh").write_text(text)
    (tmp_path / "kept.sh").write_text(text)
    return folder


def test_an_array_s_script_runs_that_of_the_index(batch: Path) -> None:
    """In the run's own folder, and its exit code is the run's; again if it is requeued."""
    assert directives((batch / "script.sh").read_text()) == directives(script("a").text)
    for index in (0, 1, 0):
        done = run_task(batch, index, "7")
        assert (done.returncode, done.stdout) == (index + 3, f"{batch.parent}/run {index}\n")
    assert BatchFolder(batch).begun_job() == "7"


def test_a_batch_that_was_withdrawn_runs_nothing(batch: Path) -> None:
    """However late Slurm starts its job."""
    assert BatchFolder(batch).withdraw() is None
    done = run_task(batch, 0, "7")
    assert done.returncode == 1
    assert done.stdout.startswith("[teralog] this job runs nothing")
    assert BatchFolder(batch).begun_job() is None


def test_a_batch_whose_job_has_begun_is_not_withdrawn(batch: Path) -> None:
    """Who withdraws it gets the job's id."""
    run_task(batch, 0, "7")
    assert BatchFolder(batch).withdraw() == "7"
    assert run_task(batch, 1, "7").returncode == 4


def test_a_run_that_goes_alone_runs_in_its_attempt(tmp_path: Path) -> None:
    """Its job.sh, as it is."""
    folder, attempt = tmp_path / "batch", tmp_path / "an attempt"
    folder.mkdir()
    attempt.mkdir()
    (attempt / "job.sh").write_text("pwd; exit 5\n")
    (folder / "script.sh").write_text(batch_script(script("a").text, folder, attempt))
    (tmp_path / "kept.sh").write_text((folder / "script.sh").read_text())
    done = run_task(folder, 0, "8")
    assert (done.returncode, done.stdout) == (5, f"{attempt}\n")


def test_runs_come_after_tasks_of_one_array_with_their_indices() -> None:
    """Those that come after different jobs, or after none, go each with their own."""
    places = {"a": Place("7", 0), "b": Place("7", 3), "c": Place("9"), "d": Place("8", 1)}
    scripts = [replace(script(f"after-{one}"), after=one) for one in "dabc"] + [script("e")]
    found = [[one.run_id for one in group] for group in batches(scripts, 10, places=places)]
    assert found == [["after-d"], ["after-a", "after-b"], ["after-c"], ["e"]]


@pytest.mark.parametrize("said", ["7", "7_3"])
def test_a_place_is_written_as_slurm_does(said: str) -> None:
    """And read so."""
    assert Place.of(said).said == said
