"""Compute the identity of a run, which names its folder."""

import dataclasses
import hashlib
import json
from functools import cache
from typing import Any

from orchestrator.run.model import Run


def run_id(run: Run) -> str:
    """Return a run's identity: 12 hexadecimal digits of a hash over its parameters.

    Only values that differ from a built-in default are hashed. So if a later version of
    teralog has a new parameter, older runs keep their identity. Fields with `identity: False`
    in their metadata are left out, e.g. the time limit.
    """
    text = json.dumps(_differing(run), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _differing(value: Any) -> dict[str, Any]:
    kind: type = type(value)
    chosen: dict[str, Any] = {}
    for item in _fields(kind):
        part = getattr(value, item.name)
        # A described model is identified by its description; its sizes are summaries of it.
        part = getattr(part, "described", None) or part
        part_kind: type = type(part)
        if _is_dataclass(part_kind):
            part = _differing(part)
            if not part:
                continue
        elif part == _default(item):
            continue
        elif isinstance(part, tuple):
            part = [_plain(item) for item in part]
        chosen[item.name] = part
    return chosen


def _plain(value: Any) -> Any:
    kind: type = type(value)
    return _differing(value) if _is_dataclass(kind) else value


# A campaign of ten thousand runs calls both functions a million times.
@cache
def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


@cache
def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(item for item in dataclasses.fields(kind) if item.metadata.get("identity", True))


def _default(item: "dataclasses.Field[Any]") -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default
