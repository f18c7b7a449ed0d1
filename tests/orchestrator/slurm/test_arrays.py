"""Which runs go to Slurm together, and what sbatch is told."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.slurm.arrays import (
    Place,
    SbatchOptions,
    Script,
    array_script,
    batches,
    dependency,
    directives,
    sbatch_options,
    sbatch_path,
)

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


def test_an_array_s_script_runs_that_of_the_index(tmp_path: Path) -> None:
    """In the run's own folder, and its exit code is the run's."""
    folder = tmp_path / "it's a folder"
    for index in range(2):
        run = tmp_path / f"run {index}"
        run.mkdir()
        (run / "job.sh").write_text(f"pwd; exit {index + 3}\n")
        folder.mkdir(exist_ok=True)
        (folder / str(index)).symlink_to(f"../{run.name}")
    text = array_script(script("a").text, str(folder))
    assert directives(text) == directives(script("a").text)
    (tmp_path / "array.sh").write_text(text)
    for index in range(2):
        done = subprocess.run(
            ["bash", tmp_path / "array.sh"],
            env={"SLURM_ARRAY_TASK_ID": str(index), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (index + 3, f"{tmp_path}/run {index}\n")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/a/b", "/a/b"),
        ("/100%/b", "/100%%/b"),
        ("/a\\b%", "/a\\\\b%"),
        ("/two words", "/two words"),
    ],
)
def test_a_path_in_a_pattern_of_sbatch_stands_for_itself(path: str, pattern: str) -> None:
    """A backslash stops all replacements."""
    assert sbatch_path(Path(path)) == pattern


def test_sbatch_is_told_name_log_and_folder_and_what_the_user_asked_for() -> None:
    """What nobody asked for is not said."""
    told = {"name": "n", "comment": "c", "output": "o", "folder": "f"}
    usual = ["--job-name=n", "--comment=c", "--output=o", "--open-mode=append", "--chdir=f"]
    assert sbatch_options(**told, options=SbatchOptions()) == usual
    assert sbatch_options(**told, indices=range(4), options=SbatchOptions()) == [
        *usual,
        "--array=0-3",
    ]
    everything = SbatchOptions(throttle=2, dependency="afterok:1", hold=True, exclude="n[1-2]")
    assert sbatch_options(**told, indices=range(4), options=everything) == [
        *usual,
        "--array=0-3%2",
        "--dependency=afterok:1",
        "--hold",
        "--exclude=n[1-2]",
    ]


def test_runs_come_after_tasks_of_one_array_with_their_indices() -> None:
    """Those that come after different jobs, or after none, go each with their own."""
    places = {"a": Place("7", 0), "b": Place("7", 3), "c": Place("9"), "d": Place("8", 1)}
    scripts = [replace(script(f"after-{one}"), after=one) for one in "dabc"] + [script("e")]
    found = [[one.run_id for one in group] for group in batches(scripts, 10, places=places)]
    assert found == [["after-d"], ["after-a", "after-b"], ["after-c"], ["e"]]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ([], None),
        ([Place("7")], "afterok:7"),
        ([Place("7", 3)], "afterok:7_3"),
        ([Place("7", 0), Place("7", 3)], "aftercorr:7"),
    ],
)
def test_a_batch_waits_for_what_its_runs_come_after(before: list[Place], said: str | None) -> None:
    """Of an array, each task for the one with its index."""
    assert dependency(before) == said


def test_a_chained_array_has_the_indices_of_the_one_before_and_ends_with_it() -> None:
    """Beside what the user has it wait for."""
    told = {"name": "n", "comment": "c", "output": "o", "folder": "f"}
    options = SbatchOptions(dependency="afterok:1")
    found = sbatch_options(**told, indices=(0, 1, 3), after="aftercorr:7", options=options)
    assert found[5:] == [
        "--array=0-1,3",
        "--dependency=afterok:1,aftercorr:7",
        "--kill-on-invalid-dep=yes",
    ]


@pytest.mark.parametrize("said", ["7", "7_3"])
def test_a_place_is_written_as_slurm_does(said: str) -> None:
    """And read so."""
    assert Place.of(said).said == said
