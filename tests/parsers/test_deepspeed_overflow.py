"""DeepSpeed's lines about overflowing gradients."""

import pytest

from parsers.deepspeed import DEEPSPEED_TIMER
from parsers.records import Step

HYSTERESIS = "hysteresis is 2. Reducing hysteresis to 1"
SKIPPING = "OVERFLOW! Rank 0 Skipping step."
OVERFLOWS = (
    f"[deepscale] {SKIPPING} Attempted loss scale: 256, reducing to 128.0",
    f"[deepspeed] {SKIPPING} Attempted loss scale: 8, but {HYSTERESIS}",
    f"[deepspeed] {SKIPPING}",
    "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768.0",
    "fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4, reducing to 2",
)
PROGRESS = "[Rank 0] step=10, skipped=6, lr=[4.9e-05], mom=[(0.9, 0.95)]"


@pytest.mark.parametrize("line", OVERFLOWS)
def test_an_overflow_without_an_iteration_is_no_step(line: str) -> None:
    """No wording says of which iteration it speaks."""
    assert list(DEEPSPEED_TIMER.parse(0, line)) == []


@pytest.mark.parametrize("line", OVERFLOWS)
def test_an_overflow_does_not_hide_a_step_on_its_line(line: str) -> None:
    """The progress line counts the skipped iterations."""
    steps = [Step(iteration=10, skipped=6, offset=0)]
    assert list(DEEPSPEED_TIMER.parse(0, line + PROGRESS)) == steps
    assert list(DEEPSPEED_TIMER.parse(0, PROGRESS + line)) == steps
