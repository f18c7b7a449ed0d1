"""Check the keys and values of a DeepSpeed configuration against known_keys.json."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from orchestrator.common.errors import did_you_mean

# Put inside another section they mean nothing there.
_SECTIONS = frozenset({"fp16", "bf16", "amp", "zero_optimization", "optimizer", "scheduler"})
_KINDS: Mapping[str, type] = {"boolean": bool, "integer": int, "number": float}
# What begins so is a parameter of a run.
_OFFLOAD = "offload_"
# It stands for DeepSpeed's default, or for what a program fills in.
_AUTO = "auto"


def unknown_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each key that DeepSpeed does not know.

    DeepSpeed itself ignores most of them in silence. The known keys are those that DeepSpeed looks
    up when it reads a configuration.
    """
    yield from _unknown_keys(config, ())


def _unknown_keys(config: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    known = _record()["sections"].get(".".join(path))
    if known is None:
        return
    for key, value in config.items():
        where = ".".join((*path, key))
        if path and key in _SECTIONS:
            yield (
                f"DeepSpeed knows no key {where!r}: {key} is a section of its own, beside {path[0]}"
            )
        elif key not in known:
            today = {*known} - _renamed(path).keys()
            yield f"DeepSpeed knows no key {where!r}{did_you_mean(key, today)}"
        elif isinstance(value, Mapping):
            yield from _unknown_keys(value, (*path, key))


def renamed_keys(config: Mapping[str, Any], kept: Collection[str] = ()) -> Iterator[str]:
    """Yield one sentence for each key that DeepSpeed calls otherwise today.

    It refuses two names of one key, and what teralog writes and reads goes by today's. kept: dotted
    paths of those that the program's DeepSpeed, an early one, goes by.
    """
    yield from _renamed_keys(config, (), kept)


def _renamed_keys(
    config: Mapping[str, Any], path: tuple[str, ...], kept: Collection[str]
) -> Iterator[str]:
    renamed = _renamed(path)
    for key, value in config.items():
        where = ".".join((*path, key))
        if key in renamed and where not in kept:
            today = renamed[key]
            yield (
                f"deepspeed: {where} is what the run's {today} says; take it out"
                if today.startswith(_OFFLOAD)
                else f"DeepSpeed calls {where!r} {today!r} today; write that"
            )
        elif isinstance(value, Mapping):
            yield from _renamed_keys(value, (*path, key), kept)


def removed_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each key that DeepSpeed has taken and refuses today."""
    record = _record()
    for key in record["removed"]:
        if key in config:
            yield f"DeepSpeed {record['deepspeed']} refuses {key!r}: only earlier ones have it"


def unknown_types(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each optimizer and scheduler that neither DeepSpeed nor torch has."""
    record = _record()
    for section, known in record["types"].items():
        chosen = config.get(section)
        name = chosen.get("type") if isinstance(chosen, Mapping) else None
        # Those of DeepSpeed's own optimizers it takes in any case.
        if isinstance(name, str) and not {name, name.lower()} & {*known}:
            there = did_you_mean(name, known)
            yield f"DeepSpeed {record['deepspeed']} knows no {section} {name!r}{there}"


def _renamed(path: tuple[str, ...]) -> Mapping[str, str]:
    renamed: Mapping[str, str] = _record()["renamed"].get(".".join(path), {})
    return renamed


def refused_values(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each truth value or number that DeepSpeed would not take as such.

    It takes them from texts too, `"5"`, as pydantic does, with which it checks these sections.
    """
    yield from _refused_values(config, ())


def _refused_values(config: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    kinds = _record()["values"].get(".".join(path), {})
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _refused_values(value, (*path, key))
        elif key in kinds and value != _AUTO:
            said = _refusal(value, kinds[key])
            if said is not None:
                yield f"DeepSpeed takes {'.'.join((*path, key))}={value!r} for {said}"


def _refusal(value: Any, kind: Mapping[str, Any]) -> str | None:
    from pydantic import ValidationError

    if value is None and kind.get("optional"):
        return None
    try:
        taken = _adapter(kind["type"]).validate_python(value)
    except ValidationError:
        return f"no {_called(kind['type'])}"
    if taken < kind.get("minimum", taken):
        return f"too small; it is at least {kind['minimum']:g}"
    if "exclusiveMinimum" in kind and taken <= kind["exclusiveMinimum"]:
        return f"too small; it is more than {kind['exclusiveMinimum']:g}"
    if taken > kind.get("maximum", taken):
        return f"too large; it is at most {kind['maximum']:g}"
    return None


def _called(kind: str) -> str:
    return {"boolean": "truth value", "integer": "whole number"}.get(kind, kind)


@cache
def _adapter(kind: str) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_KINDS[kind])


@cache
def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(
        (files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text()
    )
    return record
