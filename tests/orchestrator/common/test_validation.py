"""Check values against types, with one sentence per value that does not fit."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from pydantic.functional_validators import AfterValidator

from orchestrator.common.validation import field_problems, field_types, mapping_problems


def even(value: int | str) -> int | str:
    """Return the value unchanged; raise ValueError if it is an odd integer."""
    if isinstance(value, int) and value % 2:
        raise ValueError(f"{value} is odd")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A dataclass with one field of each type that campaign files and cluster profiles have."""

    name: Annotated[str, Field(min_length=1)]
    size: Annotated[int, Field(ge=1, le=64)] = 1
    rate: Annotated[float, Field(gt=0)] = 1.0
    flag: bool = False
    mode: Literal["none", "cpu", "nvme"] = "none"
    version: Literal["2", "core"] = "core"
    optional: Annotated[int, Field(ge=1)] | None = None
    either: Annotated[int | str, AfterValidator(even)] = 2
    words: list[str] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


FITS: dict[str, list[Any]] = {
    "name": ["a", "5"],
    "size": [1, 64],
    "rate": [0.1, 2, 1e-9],
    "flag": [True, False],
    "mode": ["none", "nvme"],
    "version": ["2"],
    "optional": [3],
    "either": [2, "three"],
    "words": [[], ["a", "b"]],
    "table": [{}, {"a": {"b": [1, None]}}],
    "rows": [[], [{"a": 1}, {}]],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in FITS.items() for value in values]
)
def test_a_value_that_fits_has_no_problem(name: str, value: Any):
    """A value that fits its type has no problem; a whole number fits a float."""
    assert list(field_problems(name, Example, name, value)) == []


MISFITS: list[tuple[str, Any, list[str]]] = [
    ("size", "8", ["size: '8' is text; write the whole number 8 without quotes"]),
    ("size", "eight", ["size: 'eight' is not a whole number"]),
    ("size", 1.5, ["size: 1.5 is not a whole number"]),
    ("size", 2.0, ["size: 2.0 is not a whole number"]),
    ("size", True, ["size: True is not a whole number"]),
    ("size", [1], ["size: [1] is not a whole number"]),
    ("size", 0, ["size: 0 is too small; the minimum is 1"]),
    ("size", 65, ["size: 65 is too large; the maximum is 64"]),
    ("size", None, ["size: has no value"]),
    ("rate", "1e-4", ["rate: '1e-4' is text; write the number 1e-4 without quotes"]),
    ("rate", "fast", ["rate: 'fast' is not a number"]),
    ("rate", 0, ["rate: 0 is too small; it must be more than 0.0"]),
    ("flag", "yes", ["flag: 'yes' is not true or false"]),
    ("flag", 1, ["flag: 1 is not true or false"]),
    ("mode", "disk", ["mode: 'disk' is not one of none, cpu, nvme"]),
    ("mode", "nvem", ["mode: 'nvem' is not one of none, cpu, nvme; did you mean 'nvme'?"]),
    ("mode", "on", ["mode: 'on' is not one of none, cpu, nvme"]),
    ("mode", False, ["mode: False is not one of none, cpu, nvme"]),
    ("version", 2, ["version: 2 is not text; put it in quotes"]),
    ("version", 3, ["version: 3 is not one of 2, core"]),
    ("optional", "3", ["optional: '3' is text; write the whole number 3 without quotes"]),
    ("optional", None, ["optional: has no value"]),
    ("either", 3, ["either: 3 is odd"]),
    ("either", 1.5, ["either: 1.5 is not a whole number"]),
    ("either", [1], ["either: [1] is not a whole number"]),
    ("either", {"int": 1}, ["either: {'int': 1} is not a whole number"]),
    ("name", 5, ["name: 5 is not text; put it in quotes"]),
    ("name", {"a": 1}, ["name: {'a': 1} is not text"]),
    ("name", "", ["name: '' is empty; give a value"]),
    ("words", "a", ["words: 'a' is not a list; write it as [a, b]"]),
    (
        "words",
        ["a", 1, "b", 2],
        [
            "words[1]: 1 is not text; put it in quotes",
            "words[3]: 2 is not text; put it in quotes",
        ],
    ),
    ("words", [True, "b"], ["words[0]: true is not text; put it in quotes"]),
    ("table", [1], ["table: [1] is not a mapping; write it as {key: value}"]),
    ("table", {1: 2}, ["table.1: 1 is not text; put it in quotes"]),
    ("rows", [{"a": 1}, 2], ["rows[1]: 2 is not a mapping; write it as {key: value}"]),
]


@pytest.mark.parametrize(("name", "value", "problems"), MISFITS)
def test_a_value_that_does_not_fit_has_one_sentence(name: str, value: Any, problems: list[str]):
    """The sentence about a wrong value contains its key, the value, and what to write instead."""
    assert list(field_problems(name, Example, name, value)) == problems


def test_a_mapping_shows_all_its_problems_at_once():
    """Unknown keys, values that do not fit, and missing keys are all reported at once."""
    problems = list(mapping_problems("", Example, {"siz": 3, "size": "3", "rows": [1]}))
    assert problems == [
        "unknown key 'siz'; did you mean 'size'?",
        "size: '3' is text; write the whole number 3 without quotes",
        "rows[0]: 1 is not a mapping; write it as {key: value}",
        "the key 'name' is missing",
    ]


def test_a_problem_in_a_nested_mapping_names_its_keys():
    """Every sentence about a nested mapping begins with the path of the key."""
    problems = list(mapping_problems("defaults.model", Example, {"sizes": 3, "size": 0}))
    assert problems == [
        "defaults.model: unknown key 'sizes'; did you mean 'size'?",
        "defaults.model.size: 0 is too small; the minimum is 1",
        "defaults.model: the key 'name' is missing",
    ]


def test_the_types_of_a_dataclass_keep_their_limits():
    """`field_types` returns the types of a dataclass's fields together with the fields' limits.

    So the limits hold both in the checks and in the JSON schema.
    """
    types = field_types(Example)
    assert list(types) == list(FITS)
    assert types["size"].__metadata__
