"""Write the options of sbatch."""

from pathlib import Path

import pytest

from orchestrator.slurm.arrays import Place
from orchestrator.slurm.sbatch_options import SbatchOptions, dependency, sbatch_options, sbatch_path


def test_options_contain_name_log_folder_and_what_the_user_asked_for() -> None:
    """The options for sbatch have the job's name, log and folder, and the user's own options."""
    required = {"name": "n", "comment": "c", "output": "o", "folder": "f"}
    usual = ["--job-name=n", "--comment=c", "--output=o", "--open-mode=append", "--chdir=f"]
    assert sbatch_options(**required, options=SbatchOptions()) == usual
    assert sbatch_options(**required, indices=range(4), options=SbatchOptions()) == [
        *usual,
        "--array=0-3",
    ]
    everything = SbatchOptions(throttle=2, dependency="afterok:1", hold=True, exclude="n[1-2]")
    assert sbatch_options(**required, indices=range(4), options=everything) == [
        *usual,
        "--array=0-3%2",
        "--dependency=afterok:1",
        "--hold",
        "--exclude=n[1-2]",
    ]


def test_chained_array_depends_on_the_array_before_and_on_the_user_s_jobs() -> None:
    """An array that follows another array depends on it, and on the jobs that the user named.

    If a task of the earlier array fails, Slurm cancels the tasks that depend on it.
    """
    required = {"name": "n", "comment": "c", "output": "o", "folder": "f"}
    options = SbatchOptions(dependency="afterok:1")
    words = sbatch_options(**required, indices=(0, 1, 3), after="aftercorr:7", options=options)
    assert words[5:] == [
        "--array=0-1,3",
        "--dependency=afterok:1,aftercorr:7",
        "--kill-on-invalid-dep=yes",
    ]


@pytest.mark.parametrize(
    ("before", "option"),
    [
        ([], None),
        ([Place("7")], "afterok:7"),
        ([Place("7", 3)], "afterok:7_3"),
        ([Place("7", 0), Place("7", 3)], "aftercorr:7"),
    ],
)
def test_dependency_names_the_jobs_that_must_complete_first(
    before: list[Place], option: str | None
) -> None:
    """`dependency` returns sbatch's option by which a job waits until earlier jobs have completed.

    If the earlier jobs are several tasks of an array, each task of the new array waits for the
    earlier task with the same index. If there are no earlier jobs, the result is None.
    """
    assert dependency(before) == option


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/a/b", "/a/b"),
        ("/100%/b", "/100%%/b"),
        ("/a\\b%", "/a\\\\b%"),
        ("/two words", "/two words"),
    ],
)
def test_path_has_no_replacements_left_for_sbatch(path: str, pattern: str) -> None:
    """In a path, `%` is doubled, because sbatch replaces e.g. `%j`.

    In a path with a backslash, sbatch replaces nothing, so only the backslash is doubled.
    """
    assert sbatch_path(Path(path)) == pattern
