"""What is printed: no control codes, and counts that agree with what they count."""

import pytest

from orchestrator.printing import counted, printable


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1000, "1,000 runs")],
)
def test_what_is_counted_agrees_with_its_number(number: int, said: str) -> None:
    assert counted(number, "run") == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 runs are"), (1, "1 run is"), (2, "2 runs are")]
)
def test_a_verb_agrees_too(number: int, said: str) -> None:
    assert counted(number, "run is", "runs are") == said


def test_what_would_speak_to_a_terminal_is_not_printed() -> None:
    assert printable("a\x1b[2Jb") == "a\N{REPLACEMENT CHARACTER}[2Jb"
