"""Check table cells that state a change relative to another row, e.g. `104 (↑3.4%)`."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.markdown.check.changes import (
    follows_from_any,
    in_order,
    misfits,
    plain_number,
    read_change,
)
from orchestrator.markdown.meaning.printed_numbers import Printed

DECIMALS = st.integers(0, 3)
NUMBERS = st.builds("{:.{}f}".format, st.floats(0.001, 2000), DECIMALS).filter(float)


def number(text: str) -> Printed:
    """Return the number in a cell's text."""
    printed = plain_number(text)
    assert printed is not None
    return printed


@given(
    NUMBERS,
    st.lists(NUMBERS, min_size=1, max_size=20),
    st.sampled_from("↑↓"),
    st.builds("{:.{}f}".format, st.floats(0, 150), st.integers(0, 2)).filter(float),
    st.sampled_from(["Speed", "Utilization (%)"]),
)
@example("1", ["3000"], "↓", "100", "Speed")
@example("742", ["717"], "↑", "3.5", "Speed")
@example("1.0", ["0.6"], "↑", "50", "Speed")
@example("1.0", ["0.6"], "↑", "0.5", "Speed")
@example("92", ["88"], "↑", "4", "Utilization (%)")
def test_a_change_follows_from_any_where_it_follows_from_one(
    value: str, others: list[str], arrow: str, percent: str, title: str
) -> None:
    """`follows_from_any` is true exactly if a change is right for at least one given number.

    E.g. the change in `104(↑4%)` is right for the number 100. The function tries only the numbers
    in the range that the change implies. The test tries all numbers.
    """
    drawn, old = Fraction(value), Fraction(others[0])
    true_percent = f"{float(abs(drawn - old) / old * 100):.1f}"
    numbers = in_order(map(number, others))
    true_arrow = "↑" if drawn > old else "↓"
    for shown in (f"{arrow}{percent}%", f"{true_arrow}{true_percent}%", f"{arrow}{percent}"):
        change = read_change(f"{value}({shown})", title)
        if change is not None:
            each = [not misfits(change, other) for other in numbers]
            assert follows_from_any(change, numbers) == any(each)


@pytest.mark.parametrize("text", ["", "104", "about 104", "[104](log.txt)", "104()", "104(3)"])
def test_a_cell_without_a_sign_reports_no_change(text: str) -> None:
    """A cell without a plus or minus sign or an arrow states no change, e.g. `104(3)`."""
    assert read_change(text) is None
