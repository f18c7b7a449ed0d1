"""Parse numbers in their printed forms."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.fields import NUMBER, finite, parse_number
from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.formats.megatron.fields import MEGATRON_FIELDS, step_values


@given(st.floats())
def test_every_float_is_read_as_it_was_printed(value: float) -> None:
    """`parse_number` reads each float as it was printed; `finite` gives None for nan and inf."""
    text = repr(value)
    assert re.fullmatch(NUMBER, text)
    assert repr(parse_number(text)) == text
    assert finite(text) == (value if abs(value) < float("inf") else None)


@pytest.mark.parametrize("text", ["1e999", "-618.6241e999", "9" * 400])
def test_a_number_that_is_too_large_is_not_infinite(text: str) -> None:
    """A number above the largest float is None and not inf, because `inf` was not printed."""
    assert re.fullmatch(NUMBER, text)
    assert parse_number(text) is finite(text) is None
    line = f"steps: 1 loss: {text} iter time (s): 0.125 samples/sec: 64.000"
    assert [step.loss for step in DEEPSPEED_PIPELINE.parse(0, line)] == [None]  # type: ignore[union-attr]
    for name in ("grad norm", "elapsed time per iteration (ms)", "lm loss"):
        for value in (text, text.upper(), text + "K"):
            with pytest.raises(ValueError, match=re.escape(value)):
                step_values(MEGATRON_FIELDS, {name: value})


@given(st.integers(0, 10**9), st.integers(0, 9))
def test_milliseconds_are_the_nearest_seconds(whole: int, tenth: int) -> None:
    """Milliseconds become the float nearest to the exact number of seconds."""
    values = step_values(MEGATRON_FIELDS, {"elapsed time per iteration (ms)": f"{whole}.{tenth}"})
    assert values["step_seconds"] == float(f"{whole}.{tenth}e-3")
