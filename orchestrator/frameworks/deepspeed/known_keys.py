"""Check the keys of a DeepSpeed configuration against known_keys.json."""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from orchestrator.common.errors import did_you_mean

# Put inside another section they mean nothing there.
_SECTIONS = frozenset({"fp16", "bf16", "amp", "zero_optimization", "optimizer", "scheduler"})
# What begins so is a parameter of a run.
_OFFLOAD = "offload_"


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
    """Yield one sentence for each key that has another name in DeepSpeed today.

    DeepSpeed refuses two names of one key, and teralog reads and writes today's names. kept: dotted
    paths of keys that keep their old name, because the program's DeepSpeed is an old one.
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


def _renamed(path: tuple[str, ...]) -> Mapping[str, str]:
    renamed: Mapping[str, str] = _record()["renamed"].get(".".join(path), {})
    return renamed


@cache
def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(
        (files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text()
    )
    return record
