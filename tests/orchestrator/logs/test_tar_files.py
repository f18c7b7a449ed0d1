"""Read logs in tar archives, and logs that are compressed with xz or bzip2."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.cli.main import main
from orchestrator.logs.find import is_log_name
from orchestrator.logs.tar_files import tar_members


def log(ms: float, iterations: int = 3) -> str:
    """Return a log of three step reports, each with this time per iteration in milliseconds."""
    return "".join(
        f" iteration {n:8d}/{iterations:8d} | elapsed time per iteration (ms): {ms:.1f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for n in range(1, 4)
    )


OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
MEMBERS = {
    "./logs/slurm-1.err": OOM,
    "./logs/slurm-1.out": log(1000, 5),
    "./logs/slurm-2.out": log(2000),
    "./logs/.hidden.out": log(3000),
    "./.cache/slurm-3.out": log(4000),
    "./model.bin": "no log",
    "./logs/long-" + "x" * 120 + ".out": log(5000),
}
OPEN_MODES = {
    ".tar": "w",
    ".tar.gz": "w:gz",
    ".tgz": "w:gz",
    ".tar.xz": "w:xz",
    ".tar.bz2": "w:bz2",
}


def archive(members: dict[str, str]) -> bytes:
    """Return an uncompressed tar archive.

    members: the text of each file in the archive, by the file's name.
    """
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return file.getvalue()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parse(*arguments: str) -> Result:
    """Run `teralog parse`."""
    return CliRunner().invoke(main, ["parse", *arguments])


def objects(*arguments: str) -> list[dict[str, Any]]:
    """Return the JSON output of `teralog parse`."""
    result = parse("--json", *arguments)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


@pytest.mark.parametrize("ending", [*OPEN_MODES, ".tar.zst"])
def test_the_logs_of_an_archive_are_read(ending: str) -> None:
    """The logs of an archive are read in the order of their names, without hidden files.

    An output file, e.g. a.out, and its error file a.err are one run.
    """
    path = Path(f"a{ending}")
    plain = archive(MEMBERS)
    if ending == ".tar.zst":
        path.write_bytes(zstandard.ZstdCompressor().compress(plain))
    else:
        mode = OPEN_MODES[ending]
        with (
            tarfile.open(path, mode) as tar,  # type: ignore[call-overload]
            tarfile.open(fileobj=io.BytesIO(plain)) as members,
        ):
            for member in members:
                tar.addfile(member, io.BytesIO(MEMBERS[member.name].encode()))
    before = sorted(Path().iterdir())
    runs = objects(path.name)
    assert [(run["path"], run["step_seconds"]["mean"], run["outcome"]["kind"]) for run in runs] == [
        (f"{path}:logs/long-{'x' * 120}.out", 5.0, "completed"),
        (f"{path}:logs/slurm-1.out", 1.0, "gpu_out_of_memory"),
        (f"{path}:logs/slurm-2.out", 2.0, "completed"),
    ]
    assert sorted(Path().iterdir()) == before
    assert [run["path"] for run in objects(".")] == [run["path"] for run in runs]


def test_names_that_lead_out_of_the_archive_write_nothing(folder: Path) -> None:
    """If a member's name leads out of the archive, e.g. `../out.log`, no file is written there."""
    names = ("../out.log", "/tmp/teralog-out.log", "a/\x1b[31mred.log")
    (folder / "a").mkdir()
    (folder / "a/evil.tar.xz").write_bytes(lzma.compress(archive(dict.fromkeys(names, log(1000)))))
    result = parse("a/evil.tar.xz")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert sorted(path.name for path in folder.rglob("*")) == ["a", "evil.tar.xz"]
    assert not Path("/tmp/teralog-out.log").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.tar", archive(MEMBERS)[:3000], "is cut off, damaged, or not a tar archive: unexpected"),
        ("a.tar.xz", lzma.compress(archive(MEMBERS))[:-40], "is cut off: its compressed data"),
        ("a.tar.bz2", bz2.compress(archive(MEMBERS))[:-9], "is cut off: its compressed data"),
        ("a.tar", b"no archive" * 100, "is cut off, damaged, or not a tar archive: "),
        ("a.tar", archive({"readme.md": "text"}), "contains no log"),
        ("a.tar.gz", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_damaged_archive_is_named_and_the_other_logs_are_read(
    name: str, content: bytes | None, sentence: str
) -> None:
    """One sentence names a damaged archive; its readable part and all other logs are read."""
    Path("other.log").write_text(log(1000))
    if content is not None:
        Path(name).write_bytes(content)
    result = parse(name, "other.log")
    assert result.exit_code == 1
    assert result.stderr.count(sentence) == 1
    assert "Traceback" not in result.output
    assert "other.log" in result.stdout


@pytest.mark.parametrize("ending", [".tar", ".tgz"])
def test_files_of_an_archive_that_are_not_read_are_named(folder: Path, ending: str) -> None:
    """One sentence names the archives and hard links in an archive; its logs are read.

    A hard link to a log is not named, because its log is read by its other name.
    """
    path = f"logs{ending}"
    Path("run.log").write_text(log(1000))
    Path("inner.tar").write_bytes(archive(MEMBERS))
    with tarfile.open(path, OPEN_MODES[ending]) as file:
        file.add("run.log", "run.log")
        file.add("inner.tar", "old/inner.tar")
        file.add("inner.tar", "old/logs.ZIP")
        file.add("inner.tar", ".hidden.tar")
        for name in ("a.log", "b.log", "c.log", "model.bin", "latest.log"):
            member = tarfile.TarInfo(f"old/{name}")
            member.type = tarfile.SYMTYPE if name == "latest.log" else tarfile.LNKTYPE
            member.linkname = {"b.log": ".cas/b.log", "c.log": "run.log"}.get(name, "run.bin")
            file.addfile(member)
    result = parse(path)
    assert result.exit_code == 1
    assert f"{path}:run.log" in result.stdout
    assert result.stderr.endswith(
        f"teralog: {path}: teralog does not read old/inner.tar (an archive), old/logs.ZIP (an "
        "archive), old/a.log (a hard link) and 1 more file in it; unpack it, and give the folder\n"
    )


def test_an_archive_without_logs_in_a_folder_is_not_reported(folder: Path) -> None:
    """An archive in a folder, e.g. of training data, is not reported if it has no logs."""
    Path("data.tar").write_bytes(archive({"0001.json": "{}"}))
    Path("run.log").write_text(log(1000))
    result = parse(".")
    assert (result.exit_code, "archive" in result.stderr) == (0, False)


def test_only_the_logs_of_a_compressed_archive_are_unpacked(folder: Path) -> None:
    """Only logs are unpacked from a compressed archive, and not e.g. its checkpoints."""
    checkpoint = {"global_step10/model.pt": "0" * 10**6}
    Path("a.tgz").write_bytes(gzip.compress(archive(checkpoint | MEMBERS | checkpoint)))
    (folder / "unpacked").mkdir()
    members, problem = tar_members(Path("a.tgz"), folder / "unpacked", is_log_name)
    assert problem is None
    assert [member.name for member in members] == [
        f"a.tgz:{name.removeprefix('./')}"
        for name in MEMBERS
        if name.endswith((".out", ".err")) and "/." not in name.removeprefix(".")
    ]
    (file,) = (folder / "unpacked").iterdir()
    assert file.stat().st_size == sum(member.size for member in members)


def test_progress_within_a_compressed_archive_is_in_bytes_of_its_file(folder: Path) -> None:
    """While an archive is unpacked, the reported numbers of bytes add up to its size."""
    Path("a.tgz").write_bytes(gzip.compress(archive({"run.out": log(1000, 3) * 30_000}), 0))
    size = Path("a.tgz").stat().st_size
    progress: list[int] = []
    (_,), problem = tar_members(Path("a.tgz"), folder, is_log_name, progress.append)
    assert problem is None
    assert sum(progress) == size
    assert max(progress) < size / 4


def test_all_of_a_truncated_log_is_read(folder: Path) -> None:
    """If a tar archive is cut off within a log, all bytes of the log before the cut are read."""
    whole = archive({"run.out": log(1000, 3) * 1000})
    Path("a.tar.gz").write_bytes(gzip.compress(whole[:-60_000]))
    (member,), problem = tar_members(Path("a.tar.gz"), folder, is_log_name)
    assert problem == "a.tar.gz: is cut off, damaged, or not a tar archive: unexpected end of data"
    assert member.size == len(whole) - 60_000 - member_offset(whole)


def member_offset(content: bytes) -> int:
    """Return the offset in bytes at which the content of an archive's first member begins."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getmembers()[0].offset_data


def test_a_disk_without_room_for_the_logs_is_named(folder: Path) -> None:
    """If unpacked logs do not fit on the disk, a message asks the user to set TMPDIR.

    TMPDIR is the folder in which logs are unpacked. Other logs are still read.
    """
    Path("a.tar.gz").write_bytes(gzip.compress(archive({"run.out": log(1000) * 1000})))
    Path("other.log").write_text(log(1000))
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)); "
        "sys.dont_write_bytecode = True; from orchestrator.cli.main import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", limited, "parse", "a.tar.gz", "other.log"],
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert f"a.tar.gz: its logs do not fit into {folder}: File too large" in result.stderr
    assert "set TMPDIR to another folder" in result.stderr
    assert "other.log" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_an_archive_with_another_ending_is_recognised(pack: Callable[[bytes], bytes]) -> None:
    """A tar archive is recognized even if its name does not end in .tar, .tar.gz etc.

    A message asks for a file with such a name.
    """
    content = pack(archive(MEMBERS))
    Path("logs.out").write_bytes(content)
    sentence = "is a tar archive: give it as a file whose name ends in .tar, .tar.gz"
    assert f"logs.out: {sentence}" in parse("logs.out").stderr
    assert f"-: {sentence}" in CliRunner().invoke(main, ["parse", "-"], content).stderr


def test_a_log_in_utf_16_in_an_archive_is_named() -> None:
    """The message about a UTF-16 log in an archive contains the name of the archive's member."""
    with tarfile.open("a.tar", "w") as tar:
        for name in ("run.out", "torch.out"):
            text = log(1000).encode("utf-16" if name == "run.out" else "utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    Path("run.log.gz").write_bytes(gzip.compress(log(1000).encode("utf-16")))
    assert "run.log.gz: is text in UTF-16: convert it to UTF-8" in parse("run.log.gz").stderr
    result = parse("a.tar")
    assert "a.tar:run.out: is text in UTF-16: convert it to UTF-8" in result.stderr
    assert "torch.out" in result.stdout


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress])
def test_xz_and_bzip2_are_recognised_by_their_content(pack: Any) -> None:
    """A log compressed with xz or bzip2 is recognized by its content: here its name is `run.log`.

    Two compressed streams in one file, one after the other, are one log. If the compressed data is
    cut off, a message reports that.
    """
    Path("run.log").write_bytes(pack(log(1000, 5).encode()) + pack(OOM.encode()))
    (run,) = objects("run.log")
    assert (run["steps"], run["outcome"]["kind"]) == (3, "gpu_out_of_memory")
    Path("run.log").write_bytes(pack(log(1000).encode())[:-4])
    assert "is cut off: its compressed data stops before its end" in parse("run.log").stderr


def test_jobs_read_no_archives(folder: Path) -> None:
    """With `--on-slurm`, an archive is refused, because Slurm jobs cannot read archives."""
    Path("a.tar").write_bytes(archive(MEMBERS))
    Path("cpu.yaml").write_text("name: cpu\nscheduler: slurm\n")
    result = parse("a.tar", "--on-slurm", "cpu.yaml")
    assert result.exit_code == 1
    assert "is in a tar archive, which jobs cannot read" in f"{result.output}{result.exception}"


@settings(max_examples=60)
@given(st.data())
def test_a_mangled_archive_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """An archive with changed or missing bytes gives a message or logs, but never a traceback."""
    folder = tmp_path_factory.mktemp("archive")
    content = bytearray(archive(MEMBERS))
    for _ in range(data.draw(st.integers(0, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    pack = data.draw(st.sampled_from([bytes, gzip.compress]))
    path = folder / "a.tar"
    path.write_bytes(pack(bytes(content[: data.draw(st.integers(0, len(content)))])))
    members, problem = tar_members(path, folder, is_log_name)
    assert problem is None or problem.startswith(f"{path}: ")
    assert all(member.begin >= 0 for member in members)
