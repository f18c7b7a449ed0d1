"""Write files completely or not at all, read JSON, and report errors of the disk."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from orchestrator.common.errors import UserError

_THREADS = 16

Value = TypeVar("Value")
Result = TypeVar("Result")


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, fsync it, and rename it into place.

    A reader of `path` sees either the old or the new text, on NFS and Lustre too. If the disk is
    full, the old text stays. Raises OSError; after any failure, no temporary file is left.
    """
    with replacing(path) as temporary:
        _write_synced(temporary, text)


def _write_synced(path: str | Path, text: str) -> None:
    # Not with Python's layers for text and buffers, which take as much time as the disk.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(text.encode())
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide a temporary file name; after the `with` block, rename that file to `path`.

    If the block fails, `path` stays unchanged. Raises OSError; after any failure, no temporary file
    is left.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, completely or not at all."""
    write_text(path, json_text(value))


def json_text(value: object) -> str:
    """Return a value as JSON text in the layout of teralog's files."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if there is no such file.

    Raises UserError if the file cannot be read, or if it does not contain a JSON object. In the
    second case the file is damaged, because teralog writes only objects.
    """
    try:
        # Not with Python's layers for text and buffers: a status reads several files for each run.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            value = json.loads(file.read().decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}); move it elsewhere") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: is damaged (not a JSON object); move it elsewhere")
    return value


def write_json_once(path: Path, value: object) -> bool:
    """Write a value as JSON if the file does not exist; return whether this call wrote the file.

    If several callers try at the same time, only one succeeds. The file is created by a hard link,
    which either succeeds or fails in one step, on NFS too.
    """
    temporary = _temporary(path)
    write_text(temporary, json_text(value))
    try:
        os.link(temporary, path)
    except FileExistsError:
        # NFS may report this for a link that it has just made, if its first answer was lost.
        return temporary.stat().st_nlink > 1
    finally:
        temporary.unlink()
    return True


def require_hard_links(folder: Path) -> None:
    """Raise UserError if a folder's file system has no hard links; `write_json_once` needs them."""
    source, link = _temporary(folder / "link"), _temporary(folder / "link")
    try:
        source.touch()
        os.link(source, link)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UserError(
            f"{folder}: this file system has no hard links ({error.strerror}); teralog needs "
            "them to submit each job only once; use --results with a folder on another file system"
        ) from None
    finally:
        source.unlink(missing_ok=True)
        link.unlink(missing_ok=True)


def claim_folder(
    folder: Path,
    texts: Mapping[str, str],
    links: Mapping[str, str] | None = None,
    same: Mapping[str, Path] | None = None,
) -> bool:
    """Make a folder with these files and symbolic links in one step, unless the folder exists.

    Returns whether this call made the folder. If several callers try at the same time, also on
    several hosts, only one succeeds. Raises OSError.

    texts: the content of each file, by name. Every caller must pass different texts, so that a
        caller recognizes its own folder.
    links: the target of each symbolic link, by name.
    same: for names in `texts`, an existing file with the same text. If possible, the new file is a
        hard link to the existing file, so that the text is not written again. No program may
        change either file later, because both would change.
    """
    try:
        _make_whole(folder, texts, links, same)
    except OSError:
        if not folder.is_dir():
            raise
        # NFS may refuse a rename that it has just made, when its first answer was lost.
        return all(_read(folder / name) == text for name, text in texts.items())
    return True


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8")
    return None


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its missing parents; if the `with` block fails, remove the new folders.

    A new folder that is not empty stays, because another process may use it.
    """
    new: list[Path] = []
    if not os.path.isdir(folder):  # noqa: PTH112
        new = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in new:
            # Only if it is empty: another process may have begun to use it.
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder with these files; if it already exists, write or replace the files in it.

    texts: the content of each file, by name. A new folder is made with all files or not at all. In
    an existing folder, the files are written one after another, so some may be new after a failure.
    Raises OSError.
    """
    if not folder.is_dir():
        try:
            _make_whole(folder, texts)
        except OSError:
            if not folder.is_dir():
                raise
            # Another process made the folder first.
        else:
            return
    for name, text in texts.items():
        write_text(folder / name, text)


def _make_whole(
    folder: Path,
    texts: Mapping[str, str],
    links: Mapping[str, str] | None = None,
    same: Mapping[str, Path] | None = None,
) -> None:
    # With names as text: for thousands of folders, a Path for each file costs as much as the disk.
    temporary = os.fspath(_temporary(folder))
    with made_folder(folder.parent):
        try:
            os.mkdir(temporary)  # noqa: PTH102
            for name, text in texts.items():
                if not _linked((same or {}).get(name), f"{temporary}/{name}"):
                    _write_synced(f"{temporary}/{name}", text)
            for name, target in (links or {}).items():
                os.symlink(target, f"{temporary}/{name}")  # noqa: PTH211
            os.rename(temporary, folder)  # noqa: PTH104
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _linked(source: Path | None, path: str) -> bool:
    """Create a hard link `path` to the file `source`; return whether this succeeded.

    A link is faster than a copy. If `source` is None, there is nothing to link, and the result is
    False.
    """
    if source is None:
        return False
    # The number of names of a file is limited, on ext4 to 65,000.
    with contextlib.suppress(OSError):
        os.link(source, path)
        return True
    return False


@contextlib.contextmanager
def passing_text(path: Path, text: str) -> Iterator[Path]:
    """Provide a temporary file that contains a text and exists only during the `with` block.

    The file is in the folder of `path`, and is synced to the disk. Raises OSError.
    """
    temporary = _temporary(path)
    try:
        _write_synced(temporary, text)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def at_once(function: Callable[[Value], Result], values: Iterable[Value]) -> list[Result]:
    """Call a function that writes files for every value, in parallel; return the results in order.

    Parallel calls are faster, because the disk takes milliseconds to sync one file, but can
    sync several at the same time. For a thousand runs, syncing takes most of a command's time.
    If several calls raise exceptions, all calls end first. Then the exception for the earliest
    of these values is raised.
    """
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return list(pool.map(function, values))


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}.tmp")


# Errors of file systems without hard links, e.g. vfat and some of FUSE.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
ELSEWHERE = "use --results with a folder that you can write to"


@contextmanager
def disk_errors(path: Path, otherwise: str = ELSEWHERE) -> Iterator[None]:
    """Turn an OSError in the `with` block into a UserError: `path` cannot be written.

    otherwise: the end of the message: what the user can do, e.g. give another folder. If the disk
    is full, the message also contains "free some space".
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = f"free some space, or {otherwise}" if full else otherwise
        raise UserError(f"{path}: cannot be written: {error.strerror}; {remedy}") from error
