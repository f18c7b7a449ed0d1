"""Parse DeepSpeed's lines about overflowing gradients."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import parse

from parsers.formats.deepspeed import DEEPSPEED_OVERFLOW, DEEPSPEED_TIMER
from parsers.records import SkippedStep, Step
from parsers.runs.reading import read
from parsers.steps.merge import merge_skipped

HYSTERESIS = "hysteresis is 2. Reducing hysteresis to 1"
SKIPPING = "OVERFLOW! Rank 0 Skipping step."
OVERFLOWS = {
    f"[deepscale] {SKIPPING} Attempted loss scale: 256, reducing to 128.0": SkippedStep(
        rank=0, loss_scale=256, reduced_to=128, offset=7
    ),
    f"[deepspeed] {SKIPPING} Attempted loss scale: 8, but {HYSTERESIS}": SkippedStep(
        rank=0, loss_scale=8, offset=7
    ),
    f"[deepspeed] {SKIPPING} Attempted loss scale: 1, reducing to 1": SkippedStep(
        rank=0, loss_scale=1, reduced_to=1, offset=7
    ),
    f"[deepspeed] {SKIPPING}": SkippedStep(rank=0, offset=7),
    "[deepspeed] OVERFLOW! Skipping step. Gradients are non-finite.": SkippedStep(offset=7),
    "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: 65536, reducing to 32768.0": (
        SkippedStep(loss_scale=65536, reduced_to=32768, offset=7)
    ),
    "fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 4, reducing to 2": (
        SkippedStep(loss_scale=4, reduced_to=2, offset=7)
    ),
}
PROGRESS = "[Rank 0] step=10, skipped=6, lr=[4.9e-05], mom=[(0.9, 0.95)]"
NO_OVERFLOWS = (
    "",
    "Skipping step.",
    "# [deepspeed] OVERFLOW! Rank 0 Skipping step.",
    "[deepspeed] OVERFLOW! Rank 0 Skipping ste",
    "every OVERFLOW! is followed by Skipping step.",
    "overflow_detected: Skipping step.",
)


@pytest.mark.parametrize(("line", "skipped"), OVERFLOWS.items())
def test_an_overflow_is_a_skipped_step(line: str, skipped: SkippedStep) -> None:
    """A line about an overflow gives a skipped step, with the loss scale if it is printed."""
    for before in ("", "0: ", "[rank0]: ", "\x1b[33m", " 5%|█  | 1/20 [00:01<00:19, 1.00s/it]\r"):
        assert parse(DEEPSPEED_OVERFLOW, before + line) == [skipped]
    assert parse(DEEPSPEED_OVERFLOW, line + line) == [skipped, skipped]


@pytest.mark.parametrize("line", NO_OVERFLOWS)
def test_other_lines_with_the_words_are_not_overflows(line: str) -> None:
    """Torn lines, comments and other lines with the words of an overflow give no skipped step."""
    assert parse(DEEPSPEED_OVERFLOW, line) == []


@pytest.mark.parametrize("line", OVERFLOWS)
def test_an_overflow_without_an_iteration_gives_no_step(line: str) -> None:
    """A line about an overflow gives no step report, because it contains no iteration."""
    assert list(DEEPSPEED_TIMER.parse(0, line)) == []


@pytest.mark.parametrize("line", OVERFLOWS)
def test_an_overflow_does_not_hide_a_step_on_its_line(line: str) -> None:
    """A progress line is read even if a message about an overflow is on the same line."""
    steps = [Step(iteration=10, skipped=6, offset=0)]
    assert list(DEEPSPEED_TIMER.parse(0, line + PROGRESS)) == steps
    assert list(DEEPSPEED_TIMER.parse(0, PROGRESS + line)) == steps


@given(
    rank=st.integers(0, 10**5),
    power=st.integers(0, 40),
    least=st.integers(0, 40),
    end=st.integers(0, 120),
)
def test_a_torn_line_shows_no_other_scale(rank: int, power: int, least: int, end: int) -> None:
    """If a torn line may have cut the new loss scale, the new loss scale is None.

    The new scale is at least half of the old one, so a smaller number was cut.
    """
    scale, reduced = 2**power, max(2**power // 2, min(2**least, 2**power))
    line = f"OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {scale}, reducing to "
    whole = SkippedStep(
        rank=rank,
        loss_scale=float(scale),
        reduced_to=float(reduced) if 2 * reduced >= scale else None,
        offset=7,
    )
    for text in (line + str(reduced), line + f"{reduced:.1f}"):
        assert parse(DEEPSPEED_OVERFLOW, text) == [whole]
        for torn in parse(DEEPSPEED_OVERFLOW, text[:end]):
            assert isinstance(torn, SkippedStep)
            assert torn.rank == rank
            assert torn.loss_scale in {None, scale}
            assert torn.reduced_to in {None, reduced}


def test_a_step_that_several_ranks_skip_is_one() -> None:
    """A step that several ranks skip counts once, even if the line of one rank is missing."""
    lines = [
        (rank, f"OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: {scale}, reducing to 1")
        for scale in (4, 2)
        for rank in (1, 0, 2)
    ]
    log = "\n".join(line for number, (_, line) in enumerate(lines) if number != 0)
    (run,) = read(io.BytesIO(log.encode()))
    (segment,) = run.segments
    assert [(step.rank, step.loss_scale) for step in segment.skipped_steps] == [(0, 4), (0, 2)]
    assert merge_skipped([]) == []
