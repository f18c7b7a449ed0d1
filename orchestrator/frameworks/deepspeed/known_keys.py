"""Check the keys of a DeepSpeed configuration against known_keys.json."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from orchestrator.common.errors import did_you_mean

# Sections that have no meaning inside another section.
_SECTIONS = frozenset({"fp16", "bf16", "amp", "zero_optimization", "optimizer", "scheduler"})
# Keys that begin like this are parameters of a run.
_OFFLOAD = "offload_"


def unknown_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each key that the recorded version of DeepSpeed does not know.

    DeepSpeed itself silently ignores most unknown keys. The known keys are those that DeepSpeed
    looks up when it reads a configuration.
    """
    yield from _unknown_keys(config, ())


def _unknown_keys(config: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    names = _record()["sections"].get(".".join(path))
    if names is None:
        return
    deepspeed = f"DeepSpeed {_record()['deepspeed']}"
    for key, value in config.items():
        where = ".".join((*path, key))
        if path and key in _SECTIONS:
            yield (
                f"{deepspeed} has no key {where!r}: move {key} out of {path[0]}, to the top "
                "level of the configuration"
            )
        elif key not in names:
            today = {*names} - _renamed(path).keys() - _earlier(path)
            yield f"{deepspeed} has no key {where!r}{did_you_mean(key, today)}"
        elif isinstance(value, Mapping):
            yield from _unknown_keys(value, (*path, key))


def renamed_keys(config: Mapping[str, Any], kept: Collection[str] = ()) -> Iterator[str]:
    """Yield one sentence for each key that DeepSpeed has renamed, but that still has its old name.

    For programs with today's DeepSpeed, `with_todays_names` replaces old names before this
    check. `with_todays_names` keeps an old name in two cases:

    - A parameter of the run (`offload_…`) sets the same value.
    - The configuration contains the new name, too. DeepSpeed refuses both names together.

    kept: dotted paths of keys that are not reported, because the program has an old DeepSpeed
        that needs the old names.
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
            if today.startswith(_OFFLOAD):
                yield f"deepspeed: {where} is set by the run's {today}; remove it"
            elif today in config:
                yield f"deepspeed: {where} and {today} are two names of one key; remove {key}"
            else:
                yield f"DeepSpeed has renamed {where!r} to {today!r}; use the new name"
        elif isinstance(value, Mapping):
            yield from _renamed_keys(value, (*path, key), kept)


def with_todays_names(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a configuration in which keys with old names have the names of today's DeepSpeed.

    A key keeps its old name in two cases: the configuration also contains the new name, or a
    parameter of the run (`offload_…`) sets the same value. `renamed_keys` reports these keys.
    """
    renamed = _renamed(path)
    renamed_config: dict[str, Any] = {}
    for key, value in config.items():
        today = renamed.get(key, key)
        if today.startswith(_OFFLOAD) or today in config:
            today = key
        is_section = isinstance(value, Mapping)
        renamed_config[today] = with_todays_names(value, (*path, today)) if is_section else value
    return renamed_config


def earlier_keys(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield one sentence for each key that DeepSpeed had in earlier versions and has removed."""
    for key, value in config.items():
        where = (*path, key)
        if key in _earlier(path):
            yield (
                f"deepspeed: {'.'.join(where)} is a key of earlier versions; DeepSpeed "
                f"{_record()['deepspeed']} does not have it"
            )
        elif isinstance(value, Mapping):
            yield from earlier_keys(value, where)


def _earlier(path: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_record()["earlier"].get(".".join(path), ()))


def _renamed(path: tuple[str, ...]) -> Mapping[str, str]:
    renamed: Mapping[str, str] = _record()["renamed"].get(".".join(path), {})
    return renamed


@cache
def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(
        (files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text()
    )
    return record
