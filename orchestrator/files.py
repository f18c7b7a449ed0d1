"""Writing files so that they are there whole or not at all."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from orchestrator.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, fsync it, and rename it into place.

    Whoever reads `path` sees the old text or the new, on NFS and Lustre too; where the disk is
    full the old one stays. Raises OSError; whatever stops it, nothing is left behind.
    """
    temporary = _temporary(path)
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, whole or not at all."""
    write_text(path, json_text(value))


def json_text(value: object) -> str:
    """Return a value as the JSON text that our files hold."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None where there is no such file.

    Raises UserError where it cannot be read: whoever wrote it, it was not `write_json`.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}); move it out of the way") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: is damaged (holds no object); move it out of the way")
    return value


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; where the block fails, take away those that were new."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in new:
            # Only where it is empty: somebody else may have begun to use it.
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder with these files in it, whole or not at all; update it where it is there.

    Raises OSError; whatever stops it, nothing is left behind that was not there before.
    """
    if not folder.is_dir():
        try:
            _make_whole(folder, texts)
        except OSError:
            if not folder.is_dir():
                raise
            # Somebody else was faster.
        else:
            return
    for name, text in texts.items():
        write_text(folder / name, text)


def _make_whole(folder: Path, texts: Mapping[str, str]) -> None:
    temporary = _temporary(folder)
    with made_folder(folder.parent):
        try:
            temporary.mkdir()
            for name, text in texts.items():
                write_text(temporary / name, text)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}.tmp")
