"""Find logs by the paths that a user types."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.logs.find import Log, find_logs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder that has logs among other files."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "slurm-1.out",
        "slurm-1.err",
        "slurm-2.err",
        "train.o1234",
        "notes.md",
        "weights.bin",
        ".hidden.log",
        "run/output.log",
        "off.mem",
        "run/old.log.gz",
        "run/.git/index.log",
        "run/script.sh",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x\n")
    return tmp_path


def names(*paths: str) -> list[str]:
    """Return the names of the logs at these paths.

    A name such as a.out+a.err means one log with an output file and an error file.
    """
    logs = find_logs(paths, Path())
    assert logs.problems == ()
    return [f"{log.path}+{log.errors}" if log.errors else str(log.path) for log in logs.logs]


def test_a_folder_means_all_that_is_called_as_a_log_below_it(folder: Path) -> None:
    """In a folder and its subfolders, every file whose name is typical of a log is a log.

    Hidden files and other files are left out.
    """
    assert names(".") == [
        "off.mem",
        "run/old.log.gz",
        "run/output.log",
        "slurm-1.out+slurm-1.err",
        "slurm-2.err",
        "train.o1234",
    ]


def test_a_file_given_by_name_is_a_log(folder: Path) -> None:
    """If the user names a file, teralog reads it as a log."""
    assert names("notes.md", "run/script.sh") == ["notes.md", "run/script.sh"]


def test_a_quoted_wildcard_is_resolved(folder: Path) -> None:
    """If the shell does not resolve a wildcard, e.g. because the user quoted it, teralog does.

    `**` matches folders of any depth.
    """
    assert names("slurm-*.err") == ["slurm-1.err", "slurm-2.err"]
    assert names("**/*.log") == ["run/output.log"]
    assert names(f"{folder}/run/*.log") == [f"{folder}/run/output.log"]


def test_a_file_whose_name_looks_like_a_wildcard_is_that_file(folder: Path) -> None:
    """If a file's name looks like a wildcard, e.g. `slurm-[1].out`, the name means that file."""
    (folder / "slurm-[1].out").write_text("x\n")
    assert names("slurm-[1].out") == ["slurm-[1].out"]


def test_a_log_named_twice_is_read_once(folder: Path) -> None:
    """A log is read once, even if the user gives both the file and its folder.

    A log whose file the user gave is marked as named by the user.
    """
    logs = find_logs(["run", "run/output.log", "run"], Path())
    assert logs.logs == (
        Log(Path("run/old.log.gz"), named=False),
        Log(Path("run/output.log"), named=True),
    )


def test_output_and_errors_of_one_run_are_one_log_in_any_order(folder: Path) -> None:
    """The output file and the error file of a run are one log, in any order of the names."""
    assert names("slurm-1.err", "train.o1234", "slurm-1.out") == [
        "train.o1234",
        "slurm-1.out+slurm-1.err",
    ]


@pytest.mark.parametrize(
    ("path", "message"),
    [("empty", "empty: contains no log"), ("*.zst", "*.zst: there is no file")],
)
def test_a_path_without_a_log_is_reported(folder: Path, path: str, message: str) -> None:
    """A path without a log is reported, and the other paths are still searched."""
    (folder / "empty").mkdir()
    logs = find_logs([path, "train.o1234"], Path())
    assert [str(log.path) for log in logs.logs] == ["train.o1234"]
    (problem,) = logs.problems
    assert problem.startswith(message)


def test_standard_input_and_missing_files_are_passed_to_the_reader(folder: Path) -> None:
    """`-` and missing files are passed on to the reader, which reports their problems."""
    assert names("-", "missing.out") == ["-", "missing.out"]


def test_a_log_in_a_folder_without_permission_is_passed_to_the_reader(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose folder the user may not enter is passed on to the reader, which reports it."""
    stat = os.stat

    def refuse(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if "secret" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr("os.stat", refuse)
    assert names("secret/run.log", "train.o1234") == ["secret/run.log", "train.o1234"]


def test_a_named_pipe_is_read_only_if_the_user_names_it(folder: Path) -> None:
    """A named pipe in a folder is left out: reading it would wait for a program that writes."""
    os.mkfifo(folder / "run" / "pipe.log")
    assert names("run") == ["run/old.log.gz", "run/output.log"]
    assert names("run/pipe.log") == ["run/pipe.log"]


def streams_of(folder: Path) -> dict[str, list[str]]:
    """Return the paths of the logs in a folder, each with the paths of its metrics streams."""
    logs = find_logs([str(folder)], folder / "unpacked")
    return {
        str(log.path.relative_to(folder)): [
            str(Path(str(stream)).relative_to(folder)) for stream in log.streams
        ]
        for log in logs.logs
        if isinstance(log.path, Path)
    }


def write_files(folder: Path, *names: str) -> None:
    """Write files with these names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


def test_a_stream_goes_with_the_only_log_near_it(tmp_path: Path) -> None:
    """A metrics stream, e.g. metrics.jsonl, belongs to the only log near it.

    That log is in the same folder, or in the nearest parent with a log. If there are several logs,
    the stream is a log of its own.
    """
    write_files(tmp_path, "a/train.log", "a/out/metrics.jsonl", "b/1.out", "b/2.out", "b/m.jsonl")
    assert streams_of(tmp_path) == {
        "a/train.log": ["a/out/metrics.jsonl"],
        "b/1.out": [],
        "b/2.out": [],
        "b/m.jsonl": [],
    }


def test_of_the_states_of_one_training_only_the_last_is_read(tmp_path: Path) -> None:
    """Of several trainer_state.json files of one training, only the last is read.

    The last file contains the steps of all others. It is the file in the output folder. If that
    folder has no such file, it is the file in the folder of the latest checkpoint.
    """
    states = [f"a/out/checkpoint-{at}/trainer_state.json" for at in (5, 10, 100)]
    write_files(tmp_path, "a/train.log", *states)
    assert streams_of(tmp_path) == {"a/train.log": ["a/out/checkpoint-100/trainer_state.json"]}
    write_files(tmp_path, "a/out/trainer_state.json")
    assert streams_of(tmp_path) == {"a/train.log": ["a/out/trainer_state.json"]}
