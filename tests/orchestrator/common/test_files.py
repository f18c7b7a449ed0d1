"""Files and folders are written completely or not at all, even if the writing process dies."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.common.errors import UserError
from orchestrator.common.files import (
    claim_folder,
    made_folder,
    passing_text,
    read_json,
    write_folder,
    write_json,
    write_text,
)

LENGTH = 300_000
IMPORTS = """\
import itertools, resource, sys
from pathlib import Path
from orchestrator.common.files import write_folder, write_text
path = Path(sys.argv[1])
"""
# Writes of more than 10 kB fail, as they do on a full disk.
LIMITED = f"{IMPORTS}resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
WRITE_FILES = f"""{IMPORTS}
for number in itertools.count():
    write_text(path / "file", str(number % 10) * {LENGTH})
    print(number, flush=True)
"""
WRITE_FOLDERS = f"""{IMPORTS}
for number in itertools.count():
    texts = dict.fromkeys("ab", str(number % 10) * {LENGTH})
    write_folder(path / "new" / str(number), texts)
    print(number, flush=True)
"""


def start(code: str, path: Path) -> "subprocess.Popen[str]":
    """Start Python code in a separate process, with a path as its argument."""
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fails(code: str, path: Path) -> str:
    """Run Python code that raises an exception, and return the traceback's last line."""
    process = start(code, path)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 1
    return output.splitlines()[-1]


def interrupt(code: str, path: Path, number: int, moment: int) -> None:
    """Run Python code that writes to `path` without end, and send a signal to its process.

    The signal comes at a random time up to 0.1 s after the process prints its first line.

    code: the Python code; its argument is `path`. number: the signal's number. moment: the seed of
    the random time.
    """
    process = start(code, path)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.Random(moment).uniform(0, 0.1))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0


def is_whole(path: Path) -> bool:
    """Return whether a file consists of one character, repeated LENGTH times.

    The test's processes write only such texts, so any other content is an incomplete file.
    """
    text = path.read_text()
    return len(text) == LENGTH and len(set(text)) == 1


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """While a process overwrites a file again and again, a reader sees only complete texts."""
    writer = start(WRITE_FILES, tmp_path)
    assert writer.stdout is not None
    writer.stdout.readline()
    seen = set()
    for _ in range(300):
        assert is_whole(tmp_path / "file")
        seen.add((tmp_path / "file").read_text()[0])
    writer.kill()
    writer.communicate()
    assert len(seen) > 1


@pytest.mark.parametrize("moment", range(3))
def test_ctrl_c_leaves_no_temporary_file(tmp_path: Path, moment: int) -> None:
    """After Ctrl-C the file has either its old or its new content, and no other file is left."""
    interrupt(WRITE_FILES, tmp_path, signal.SIGINT, moment)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert is_whole(tmp_path / "file")


@pytest.mark.parametrize("moment", range(3))
def test_ctrl_c_leaves_whole_folders_only(tmp_path: Path, moment: int) -> None:
    """After Ctrl-C, every folder that exists has all its files."""
    interrupt(WRITE_FOLDERS, tmp_path, signal.SIGINT, moment)
    for folder in (tmp_path / "new").iterdir():
        assert folder.name.isdigit()
        assert sorted(path.name for path in folder.iterdir() if is_whole(path)) == ["a", "b"]


@pytest.mark.parametrize("moment", range(3))
def test_kill_9_leaves_nothing_half_written_under_its_name(tmp_path: Path, moment: int) -> None:
    """After kill -9, a file that is left half written has a hidden, temporary name."""
    interrupt(WRITE_FOLDERS, tmp_path, signal.SIGKILL, moment)
    for folder in (tmp_path / "new").glob("[!.]*"):
        assert sorted(path.name for path in folder.iterdir() if is_whole(path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "error"),
    [(f"'x' * {LENGTH}", "OSError: [Errno 27] File too large"), (r"'\udcff'", "UnicodeEncode")],
)
def test_a_failing_write_leaves_the_old_file(tmp_path: Path, text: str, error: str) -> None:
    """If a write fails, the old file stays, and no other file is left."""
    write_text(tmp_path / "file", "old")
    assert fails(f"{LIMITED}write_text(path, {text})", tmp_path / "file").startswith(error)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_folder_that_cannot_be_written_is_removed(tmp_path: Path) -> None:
    """If writing a new folder fails, the folder is removed, and so are its new parent folders."""
    code = f"{LIMITED}write_folder(path, {{'a': 'x', 'b': 'x' * {LENGTH}}})"
    assert "File too large" in fails(code, tmp_path / "results" / "campaign" / "run")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_keeps_its_content(tmp_path: Path) -> None:
    """In an existing folder, files are replaced one by one, and other files stay.

    If a file cannot be written, its old version stays.
    """
    write_folder(tmp_path / "run", {"a": "old", "b": "old"})
    (tmp_path / "run" / "log").write_text("kept")
    code = f"{LIMITED}write_folder(path, {{'a': 'new', 'b': 'x' * {LENGTH}}})"
    assert "File too large" in fails(code, tmp_path / "run")
    texts = {path.name: path.read_text() for path in (tmp_path / "run").iterdir()}
    assert texts == {"a": "new", "b": "old", "log": "kept"}


def test_two_processes_may_write_a_folder_at_once(tmp_path: Path) -> None:
    """Several processes that write the same folder all succeed, and the folder is complete."""
    texts = dict.fromkeys("abcdefgh", "x")
    code = f"{IMPORTS}input()\nfor n in range(20): write_folder(path / str(n), {texts})"
    command = [sys.executable, "-c", code, str(tmp_path / "new")]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert sorted(int(path.name) for path in (tmp_path / "new").iterdir()) == list(range(20))
    for folder in (tmp_path / "new").iterdir():
        assert sorted(path.name for path in folder.iterdir()) == sorted(texts)


def test_a_folder_that_another_process_uses_meanwhile_stays(tmp_path: Path) -> None:
    """If creating a folder fails, its new parent folders are removed only if they are empty."""

    def fail() -> None:
        with made_folder(tmp_path / "shared" / "mine"):
            (tmp_path / "shared" / "theirs").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["theirs"]


@pytest.mark.parametrize("linked", [True, False])
def test_folders_may_share_a_file(tmp_path: Path, linked: bool) -> None:
    """Several folders may have hard links to one file.

    If the link cannot be created, the folders get copies of the file.
    """
    with passing_text(tmp_path / "record", "text") as written:
        same = written if linked else tmp_path / "gone"
        for name in ("one", "two"):
            assert claim_folder(tmp_path / name, {"a": "text", "b": name}, same={"a": same})
        assert not claim_folder(tmp_path / "two", {"a": "text", "b": "x"}, same={"a": same})
    paths = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/*"))
    assert paths == ["one", "one/a", "one/b", "two", "two/a", "two/b"]
    assert (tmp_path / "two" / "a").read_text() == "text"
    assert (tmp_path / "one" / "a").samefile(tmp_path / "two" / "a") == linked
    write_text(tmp_path / "one" / "a", "new")
    assert (tmp_path / "two" / "a").read_text() == "text"


def test_json_values_survive_writing_and_reading(tmp_path: Path) -> None:
    """Text beyond ASCII, numbers and None are read back unchanged; a missing file gives None."""
    value = {"label": "été → 漢", "seconds": 0.1, "parameters": 10**15, "signal": None}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert read_json(tmp_path / "b.json") is None


def test_json_contains_only_valid_json_values(tmp_path: Path) -> None:
    """NaN is refused, because other programs could not read a JSON file that contains it."""
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b'{"state": "COMPL', b"[1]", b"null", b"\xff\xfe"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    """A message names a JSON file that cannot be parsed."""
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.json: is damaged \(.+\); move it elsewhere"):
        read_json(tmp_path / "a.json")


def test_an_unreadable_file_is_named_in_the_message(tmp_path: Path) -> None:
    """The message about an unreadable file contains the system's error."""
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UserError, match=r"a\.json: cannot be read: Is a directory"):
        read_json(tmp_path / "a.json")
