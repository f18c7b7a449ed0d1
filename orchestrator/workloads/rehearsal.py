"""Stands in a rehearsal where a rank of a training program would, and checks what that would see.

A stand-alone program of the standard library alone, for it runs under whatever Python the training
would run under.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CONVERT = {"int": int, "float": float, "str": str}


def option_problems(
    arguments: Sequence[str], accepted: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what a program would refuse of the arguments of its command line.

    accepted: what each option takes: `values`, how many (0, a number, or argparse's "?", "*" and
        "+"; 1 where not given), their `type` ("int", "float", "str") and `choices`.
    """
    found = _options(arguments)
    for option, values in found:
        if option is None:
            yield f"unrecognized arguments: {' '.join(values)}"
        elif option not in accepted:
            yield f"unrecognized arguments: {' '.join((option, *values))}"
        else:
            yield from _value_problems(option, values, accepted[option])
    given = [option for option, _ in found if option is not None]
    for option, takes in accepted.items():
        if takes.get("required") and option not in given:
            yield f"the following arguments are required: {option}"


def _options(arguments: Sequence[str]) -> list[tuple[str | None, list[str]]]:
    """Return each option with its values; what comes before the first has none."""
    found: list[tuple[str | None, list[str]]] = []
    for argument in arguments:
        if argument.startswith("-") and not _is_number(argument):
            option, equals, value = argument.partition("=")
            found.append((option, [value] if equals else []))
        elif found:
            found[-1][1].append(argument)
        else:
            found.append((None, [argument]))
    return found


def _value_problems(option: str, values: list[str], takes: Mapping[str, Any]) -> Iterator[str]:
    wanted = takes.get("values", 1)
    fits = {"*": True, "+": bool(values), "?": len(values) <= 1}.get(wanted, len(values) == wanted)
    if not fits:
        words = {"+": "at least one value", "?": "at most one value"}
        yield f"argument {option}: expected {words.get(wanted, f'{wanted} values')}, got {values}"
    convert, choices = _CONVERT[takes.get("type", "str")], takes.get("choices")
    for value in values:
        try:
            converted = convert(value)
        except ValueError:
            yield f"argument {option}: invalid {takes['type']} value: {value!r}"
            continue
        if choices is not None and converted not in choices:
            yield f"argument {option}: invalid choice: {value!r} (choose from {choices})"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
