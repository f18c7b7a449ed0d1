"""Job arrays: which runs are submitted in one array, and the array's script."""

from dataclasses import replace

import pytest

from orchestrator.slurm.arrays import Place, Script, batches, directives

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
    """Return the job script of a run."""
    return Script(name, HEADER.format(name=name, nodes=nodes))


def test_directives_are_the_resources_of_a_script_without_its_name() -> None:
    """`directives` returns the #SBATCH lines of a job script, without the line for the job's name.

    They request the job's resources, and come before the first shell command.
    """
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
def test_runs_with_equal_requests_share_an_array(
    size: int, arrays: bool, groups: list[list[str]]
) -> None:
    """Runs that request equal resources share an array, in the order of the runs.

    No array has more runs than the given maximum.
    """
    scripts = [script(name, nodes=2 if name in "ce" else 1) for name in "abcdef"]
    ids = [[member.run_id for member in group] for group in batches(scripts, size, arrays=arrays)]
    assert ids == groups


def test_runs_come_after_tasks_of_one_array_with_their_indices() -> None:
    """Runs that must start after tasks of the same array share an array.

    Runs that must start after different jobs, or after none, are in separate arrays.
    """
    places = {"a": Place("7", 0), "b": Place("7", 3), "c": Place("9"), "d": Place("8", 1)}
    scripts = [replace(script(f"after-{name}"), after=name) for name in "dabc"] + [script("e")]
    ids = [[member.run_id for member in group] for group in batches(scripts, 10, places=places)]
    assert ids == [["after-d"], ["after-a", "after-b"], ["after-c"], ["e"]]


@pytest.mark.parametrize("text", ["7", "7_3"])
def test_a_place_is_written_as_slurm_does(text: str) -> None:
    """If a `Place` is made from the id of a job or task, its text is the same id again."""
    assert Place.of(text).text == text
