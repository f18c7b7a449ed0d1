"""The warm-up policy: iterations, or a part of them."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.measure.warmup import Warmup

POLICIES = {
    0: (20, 0, "none"),
    5: (20, 5, "the first 5 iterations"),
    30: (20, 30, "the first 30 iterations"),
    "0%": (20, 0, "none"),
    "10%": (20, 2, "the first 10% of the iterations"),
    " 25% ": (40, 10, "the first 25% of the iterations"),
    "10%, of few": (9, 0, "the first 10% of the iterations"),
    "99%": (100, 99, "the first 99% of the iterations"),
    # 0.29 * 100 is 28.999999999999996 in floating point.
    "29%": (100, 29, "the first 29% of the iterations"),
}


@pytest.mark.parametrize("value", POLICIES)
def test_a_policy_leaves_out_whole_iterations(value: int | str):
    """A part is rounded down to whole iterations, exactly."""
    train_iters, last, said = POLICIES[value]
    policy = Warmup.parse(value.partition(",")[0] if isinstance(value, str) else value)
    assert policy.last_iteration(train_iters) == last
    assert str(policy) == said


REFUSED = {
    -1: "-1 is too small; the least is 0",
    "5": "'5' is no warm-up; write iterations, as 5, or a part, as 10%",
    "": "'' is no warm-up",
    "%": "'%' is no warm-up",
    "100%": "'100%' is no warm-up",
    "1.5%": "'1.5%' is no warm-up",
    "-5%": "'-5%' is no warm-up",
    "10 %": "'10 %' is no warm-up",
    "²%": "'²%' is no warm-up",
    "9" * 5000 + "%": "is no warm-up",
}


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: str(value)[:10])
def test_what_is_no_policy_is_refused(value: int | str):
    """The sentence shows both ways to write one."""
    with pytest.raises(ValueError, match=re.escape(REFUSED[value])):
        Warmup.parse(value)


@given(st.integers(0, 99), st.integers(1, 10**6))
def test_a_part_always_leaves_something(percent: int, train_iters: int):
    """Below 100 % there is an iteration to measure."""
    assert 0 <= Warmup.parse(f"{percent}%").last_iteration(train_iters) < train_iters


@given(st.text(max_size=8) | st.from_regex(r"\s?\w{1,3}%?\s?"))
def test_any_text_is_a_policy_or_refused(text: str):
    """Nothing else is raised, whatever counts as a digit somewhere."""
    with contextlib.suppress(ValueError):
        assert 0 <= Warmup.parse(text).fraction < 1
