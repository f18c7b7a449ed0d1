"""Which runs go to Slurm together, and what sbatch is told."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.backends import StartOptions
from orchestrator.slurm_batches import (
    Script,
    array_script,
    batches,
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
    assert sbatch_options(**told, options=StartOptions()) == usual
    assert sbatch_options(**told, indices=range(4), options=StartOptions()) == [
        *usual,
        "--array=0-3",
    ]
    everything = StartOptions(throttle=2, dependency="afterok:1", hold=True, exclude="n[1-2]")
    assert sbatch_options(**told, indices=range(4), options=everything) == [
        *usual,
        "--array=0-3%2",
        "--dependency=afterok:1",
        "--hold",
        "--exclude=n[1-2]",
    ]
