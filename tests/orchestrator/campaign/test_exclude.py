"""The rules of `exclude`, by value or by expression."""

from typing import Any

import pytest

from orchestrator.campaign.exclude import make_rule
from orchestrator.common.errors import UserError

SIZES = {"strategy": "zero1", "precision": "bf16", "world_size": 8, "offload_param": None}

RULES = {
    "one value": ({"strategy": "zero1"}, True),
    "another value": ({"strategy": "zero2"}, False),
    "all must match": ({"strategy": "zero1", "precision": "bf16"}, True),
    "one that does not match": ({"strategy": "zero1", "precision": "fp32"}, False),
    "any of a list": ({"strategy": ["zero0", "zero1"]}, True),
    "none of a list": ({"strategy": ["zero0", "ddp"]}, False),
    "an empty list": ({"strategy": []}, False),
    "a derived size": ({"world_size": 8}, True),
    "an absent value": ({"offload_param": "none"}, False),
    "an expression": ("world_size > 4", True),
    "an expression that does not hold": ("world_size > 8", False),
}


@pytest.mark.parametrize(("written", "excludes"), RULES.values(), ids=RULES)
def test_a_rule_excludes_what_matches_all_of_it(written: object, excludes: bool):
    """A rule matches a run if all keys of the rule match.

    A key with a list of values matches if the run has one of these values.
    """
    assert make_rule("exclude[0]", written, SIZES).excludes(SIZES) is excludes


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("world_size > 4", "world_size > 4"),
        ({"strategy": "ddp", "world_size": [1, 2]}, "strategy: ddp, world_size: [1, 2]"),
    ],
)
def test_a_rule_is_quoted_as_it_was_written(written: object, text: str):
    """A rule keeps the text that the user wrote, so that messages can quote it."""
    assert make_rule("exclude[0]", written, SIZES).text == text


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "a number": (3, ["3 is not a rule; write an expression, or a mapping such as {zero_stage: 3}"]),
    "nothing": (
        None,
        ["None is not a rule; write an expression, or a mapping such as {zero_stage: 3}"],
    ),
    "an empty mapping": (
        {},
        ["{} is not a rule; write an expression, or a mapping such as {zero_stage: 3}"],
    ),
    "a list": (
        ["a"],
        ["['a'] is not a rule; write an expression, or a mapping such as {zero_stage: 3}"],
    ),
    "unknown parameters": (
        {"strtegy": "ddp", "worldsize": 8},
        [
            "there is no parameter 'strtegy'; did you mean 'strategy'?",
            "there is no parameter 'worldsize'; did you mean 'world_size'?",
        ],
    ),
    "an expression over an unknown parameter": (
        "worldsize > 8",
        ["there is no parameter 'worldsize'; did you mean 'world_size'?"],
    ),
}


@pytest.mark.parametrize(("written", "problems"), REFUSED.values(), ids=REFUSED)
def test_an_empty_rule_is_refused(written: object, problems: list[str]):
    """A rule that is empty, of a wrong type, or about an unknown parameter is refused.

    Otherwise a rule with a misspelt parameter would silently exclude no run.
    """
    with pytest.raises(UserError) as caught:
        make_rule("exclude[0]", written, SIZES)
    assert list(caught.value.problems) == problems
