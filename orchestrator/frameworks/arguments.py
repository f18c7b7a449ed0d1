"""Read lists of arguments in campaign files, and teralog's records of programs' options."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypeVar

from pydantic import WithJsonSchema

from orchestrator.workloads.rehearsal import given_options

# A campaign file may contain numbers; the program gets each number as the file writes it.
Arguments = list[Annotated[str, WithJsonSchema({"type": ["string", "number"]})]]
Number = TypeVar("Number", int, float)
# Options with their values.
Given = Mapping[str, Sequence[str]]


def given(arguments: Sequence[str]) -> Given:
    """Return the values of each option in a list of arguments, by option.

    For a repeated option, the result contains the values after its last occurrence. Values before
    the first option are left out.
    """
    return {option: values for option, values in given_options(arguments) if option is not None}


def whole_number(options: Given, option: str) -> int | None:
    """Return an option's value as an integer; None if it is absent or is not a single integer."""
    return _one(options, option, int)


def number(options: Given, option: str) -> float | None:
    """Return an option's value as a number; None if it is absent or is not a single number."""
    return _one(options, option, float)


def _one(options: Given, option: str, read: Callable[[str], Number]) -> Number | None:
    try:
        (value,) = options.get(option, ())
        return read(value)
    except ValueError:
        return None


@cache
def known_program(record: str) -> dict[str, Any]:
    """Return teralog's own record of a training program: its name, source and accepted options.

    record: the name of the record's file, without `.json`.
    """
    text = (files("orchestrator.frameworks") / "known_options" / f"{record}.json").read_text(
        encoding="utf-8"
    )
    values: dict[str, Any] = json.loads(text)
    return values
