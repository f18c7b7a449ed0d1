"""Write and read records: frozen dataclasses in JSON files."""

from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.common.errors import UserError
from orchestrator.common.files import read_json, write_json

Record = TypeVar("Record")


def write_record(path: Path, record: Any) -> None:
    """Write a record, whole or not at all."""
    write_json(path, asdict(record))


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """Return the record in a file, None where there is none; keys of other versions are let be.

    Raises UserError where it lacks a key.
    """
    written = read_json(path)
    if written is None:
        return None
    record: Any = kind
    known = {field.name for field in fields(record)}
    values: dict[str, Any] = {
        name: _frozen(value) for name, value in written.items() if name in known
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{path}: is damaged ({error}); move it out of the way") from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def utc_now() -> str:
    """Return the time, as the records write it: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
