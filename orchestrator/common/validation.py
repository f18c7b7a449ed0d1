"""Check values from users against types, and describe each problem in a sentence."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from orchestrator.common.errors import did_you_mean


def mapping_problems(
    where: str,
    kind: type,
    values: Mapping[str, Any],
    belongs: Callable[[str], str | None] = lambda name: None,
) -> Iterator[str]:
    """Yield a sentence for each problem of a mapping that should have a dataclass's fields as keys.

    kind: the dataclass. values: the mapping. where: the path of the mapping in its file; empty for
    the top level. Every sentence starts with this path. belongs: a function that, given an unknown
    key, returns a sentence on where the key belongs, or None if the place is not known.
    """
    prefix = f"{where}: " if where else ""
    types = field_types(kind)
    for name, value in values.items():
        if name in types:
            yield from field_problems(f"{where}.{name}" if where else name, kind, name, value)
        else:
            right_place = belongs(name)
            hint = did_you_mean(str(name), types) if right_place is None else f"; {right_place}"
            yield f"{prefix}unknown key {name!r}{hint}"
    for field in dataclasses.fields(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in values:
            yield f"{prefix}the key {field.name!r} is missing"


def field_problems(where: str, kind: type, name: str, value: Any) -> Iterator[str]:
    """Yield a sentence for each way in which `value` does not fit a field of a dataclass.

    kind: the dataclass. name: the name of the field. where: the path of the value in its file.
    """
    if value is None:
        yield f"{where}: has no value"
        return
    try:
        _adapter(kind, name).validate_python(value, strict=True)
    except ValidationError as error:
        # A value that fits none of several types has an error for each type; one is enough.
        first: dict[str, str] = {}
        for detail in error.errors():
            first.setdefault(_path(where, value, detail), _sentence(detail))
        yield from (f"{path}: {sentence}" for path, sentence in first.items())


@cache
def field_types(kind: type) -> dict[str, Any]:
    """Return the annotated type of each field of a dataclass, by name."""
    return get_type_hints(kind, include_extras=True)


@cache
def _adapter(kind: type, name: str) -> TypeAdapter[Any]:
    # Making an adapter takes a millisecond.
    return TypeAdapter(field_types(kind)[name])


def _path(where: str, value: Any, detail: Any) -> str:
    # The location also names the type tried, or "[key]", which the user did not write.
    for part in detail["loc"]:
        if value is detail["input"] or part == "[key]":
            break
        where = f"{where}[{part}]" if isinstance(value, list) else f"{where}.{part}"
        value = value[part]
    return where


def _sentence(detail: Any) -> str:
    value, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "int_type" | "int_parsing" | "int_from_float" | "float_type":
            kind = "number" if detail["type"] == "float_type" else "whole number"
            if isinstance(value, str) and _is_number(value):
                return f"{value!r} is text; write the {kind} {value} without quotes"
            return f"{value!r} is not a {kind}"
        case "bool_type":
            return f"{value!r} is not true or false"
        case "string_type":
            quotes = "" if isinstance(value, dict | list) else "; put it in quotes"
            return f"{_as_yaml(value)} is not text{quotes}"
        case "string_too_short":
            return f"{value!r} is empty; give a value"
        case "list_type":
            return f"{value!r} is not a list; write it as [a, b]"
        case "dict_type" | "model_type" | "dataclass_type":
            return f"{value!r} is not a mapping; write it as {{key: value}}"
        case "literal_error":
            return _no_choice(value, [part.strip("'") for part in _expected(context)])
        case "greater_than_equal":
            return f"{value!r} is too small; the minimum is {context['ge']}"
        case "greater_than":
            return f"{value!r} is too small; it must be more than {context['gt']}"
        case "less_than_equal":
            return f"{value!r} is too large; the maximum is {context['le']}"
        case "value_error":
            return str(context["error"])
    message: str = detail["msg"]
    return f"{value!r}: {message}"


def _no_choice(value: Any, choices: list[str]) -> str:
    if not isinstance(value, str) and str(value) in choices:
        return f"{_as_yaml(value)} is not text; put it in quotes"
    return f"{value!r} is not one of {', '.join(choices)}{_nearest(value, choices)}"


def _as_yaml(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _expected(context: Mapping[str, Any]) -> list[str]:
    text: str = context["expected"]
    return text.replace(" or ", ", ").split(", ")


def _nearest(value: Any, choices: list[str]) -> str:
    # For these keys, a word that looks similar is not what the user means.
    close = isinstance(value, str) and value.lower() not in {"on", "off", "yes", "no"}
    hint = did_you_mean(value, choices) if close else ""
    # A hint that lists the choices would repeat them.
    return hint if hint.endswith("?") else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
