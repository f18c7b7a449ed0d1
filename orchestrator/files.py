"""Writing files so that they are there whole or not at all."""

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, fsync it, and rename it into place.

    Whoever reads `path` sees the old text or the new, on NFS and Lustre too; where the disk is
    full the old one stays. Raises OSError, with nothing left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
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
    """Return the object in a JSON file, or None where there is no such file."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return value


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder with these files in it, whole or not at all; update it where it is there.

    Raises OSError, with nothing left behind that was not there before.
    """
    if folder.is_dir():
        for name, text in texts.items():
            write_text(folder / name, text)
        return
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        for name, text in texts.items():
            write_text(temporary / name, text)
        temporary.rename(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
