"""Write and read records: frozen dataclasses in JSON files.

A record that cannot be written to the disk can be kept in memory. `read_record` then returns it
until the command ends.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.common.errors import UserError
from orchestrator.common.files import read_json, write_json

Record = TypeVar("Record")

# The records that are kept in memory, by the path of the file to which they belong.
_unwritten: dict[Path, Any] = {}


def write_record(path: Path, record: Any) -> None:
    """Write a record, completely or not at all."""
    write_json(path, asdict(record))


def write_or_keep(path: Path, record: Any) -> str | None:
    """Write a record; if that fails, keep the record in memory and return the reason."""
    try:
        write_record(path, record)
    except OSError as error:
        keep(path, record)
        return error.strerror
    return None


def keep(path: Path, record: Any) -> None:
    """Keep in memory a record that cannot be written to the disk.

    From now on, `read_record` returns this record.
    """
    _unwritten[path] = record


def forget_unwritten(folder: Path) -> dict[Path, Any]:
    """Remove from memory the records that belong to files under a folder.

    Returns these records, by the path of the file.
    """
    paths = [path for path in _unwritten if path.is_relative_to(folder)]
    return {path: _unwritten.pop(path) for path in paths}


def keep_again(records: Mapping[Path, Any]) -> None:
    """Put back into memory records that `forget_unwritten` removed.

    If memory contains a newer record for the same file, the newer one stays.
    """
    for path, record in records.items():
        _unwritten.setdefault(path, record)


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """Read the record in a file, or return None if the file does not exist.

    Keys that this version does not know are ignored. Raises UserError if a key is missing.
    """
    if _unwritten and isinstance(kept := _unwritten.get(path), kind):
        return kept
    written = read_json(path)
    if written is None:
        return None
    record: Any = kind
    field_names = {field.name for field in fields(record)}
    values: dict[str, Any] = {
        name: _frozen(value) for name, value in written.items() if name in field_names
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{path}: is damaged ({error}); move it elsewhere") from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def utc_now() -> str:
    """Return the current time in the records' format: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
