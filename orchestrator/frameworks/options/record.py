"""Read the record of a program's options: from the user's source, a file, or a release."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.common.files import json_text, write_text
from orchestrator.frameworks.options import dataclass_fields, interpreter, modules, source
from orchestrator.frameworks.options.source import SourceOptions, Takes, read_options


@dataclass(frozen=True, slots=True)
class Record:
    """The options that a program accepts on its command line.

    program: the program's name and version, as text.
    options: what each option accepts, e.g. how many values, of which type, and which choices.
    own: whether the record was made from the program that the runs start. If not, it was made from
        a release, and the runs may start another release.
    complete: whether the record has the names of all options. False if the program computes some
        names when it runs, or if a package outside the checkout adds options.
    """

    program: str
    options: Mapping[str, Takes]
    own: bool
    complete: bool = True


@cache
def recorded(name: str) -> Record:
    """Return the record called `name` that is part of teralog, e.g. `megatron-lm-2.4`.

    It contains the options of a release, or of one of teralog's own programs.
    """
    text = (files("orchestrator.frameworks") / "known_options" / f"{name}.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    # The programs that come with teralog are recorded by a test.
    ours = not content["source"].startswith("https://")
    return Record(content["program"], content["options"], own=ours)


@cache
def record_of_file(path: Path) -> Record:
    """Return the record in a file that `teralog record-options` wrote.

    This record was made from the user's own source. Raises UserError if the file cannot be read or
    is not a record.
    """
    problem = f"options_record: {path}: "
    try:
        content = json.loads(path.read_text("utf-8"))
        options = {str(name): dict(takes) for name, takes in content["options"].items()}
        return Record(
            str(content["program"]), options, own=True, complete=content.get("complete", True)
        )
    except OSError as error:
        raise UserError(f"{problem}cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{problem}is not a record of options; write one with `teralog record-options SOURCE`"
        ) from None


def is_record(path: Path) -> bool:
    """Return whether a file is a record that `teralog record-options` wrote."""
    try:
        record_of_file.__wrapped__(path)  # not from the cache: the file may have changed
    except UserError:
        return False
    return True


@cache
def record_of_source(program: Path) -> Record | None:
    """Return the record of a script in the user's checkout; None if its options cannot be read.

    The record is stored in the user's cache folder. It is made again if a file of the source
    changes.
    """
    try:
        options = _cached_options(program.resolve())
    except (UserError, OSError):
        return None
    return Record(str(program), options.options, own=True, complete=options.complete)


def _cached_options(program: Path) -> SourceOptions:
    key = hashlib.sha256(f"{_readers_hash()} {program}".encode()).hexdigest()[:32]
    path = _cache_folder() / f"{key}.json"
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(path.read_text("utf-8"))
        kept = SourceOptions(content["options"], content["files"], content["complete"])
        if all(_hash(Path(file)) == digest for file, digest in kept.files.items()):
            return kept
    made = read_options(program)
    # Without a cache the source is read again, which takes a third of a second.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json_text(asdict(made)))
    return made


def _cache_folder() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "teralog" / "options"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _readers_hash() -> str:
    """Return a hash of the modules with which teralog reads a program's source.

    The file name of a cached record depends on this hash, so that records by older code are not
    used.
    """
    parts = (modules, interpreter, dataclass_fields, source)
    return hashlib.sha256(
        "".join(_hash(Path(str(module.__file__))) for module in parts).encode()
    ).hexdigest()
