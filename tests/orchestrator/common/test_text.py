"""Printed text: no control codes, and nouns that agree with their numbers."""

import pytest

from orchestrator.common.errors import UserError
from orchestrator.common.text import counted, natural, printable, shortened


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1000, "1,000 runs")],
)
def test_a_noun_agrees_with_its_number(number: int, text: str) -> None:
    assert counted(number, "run") == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 runs are"), (1, "1 run is"), (2, "2 runs are")]
)
def test_a_verb_agrees_with_its_number(number: int, text: str) -> None:
    assert counted(number, "run is", "runs are") == text


def test_terminal_control_characters_are_not_printed() -> None:
    assert printable("a\x1b[2Jb") == "a\N{REPLACEMENT CHARACTER}[2Jb"


def test_numbers_in_a_text_sort_by_their_size() -> None:
    texts = ["b 1", "a 10 x", "a 9", "a", "10", "9", "a 09", "a 1" + "0" * 5000, "\u0665"]
    assert sorted(texts, key=natural) == [
        *("9", "10", "a", "a 9", "a 09", "a 10 x", "a 1" + "0" * 5000, "b 1", "\u0665")
    ]


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("a" * 999, "a" * 999),
        (
            f"a.yaml: {'b' * 10**6} is no model",
            f"a.yaml: {'b' * 80}… [999,840 characters left out] …{'b' * 80} is no model",
        ),
        (
            f"a.yaml: {'1 ' * 10**6}is no list",
            f"a.yaml: {'1 ' * 496}… [1,998,018 characters left out] …{'1 ' * 495}is no list",
        ),
    ],
    ids=["short", "long word", "long sentence"],
)
def test_a_long_value_leaves_the_rest_of_a_sentence_to_be_read(sentence: str, left: str) -> None:
    """A message omits the middle of a long value, and says how many characters it omits."""
    assert shortened(sentence) == left
    assert UserError(sentence).problems == (left,)
