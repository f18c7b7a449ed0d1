"""The line of DeepSpeed's pipeline engine."""

import pytest

from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.records import Step


def parse(line: str) -> list[object]:
    """Return the records of a line that starts at byte 7."""
    return list(DEEPSPEED_PIPELINE.parse(7, line))


LINE = "steps: 10 loss: 0.0625 iter time (s): 0.125 samples/sec: 64.000"
STEP = Step(iteration=10, loss=0.0625, step_seconds=0.125, samples_per_second=64.0, offset=7)
LOSSES = LINE.replace("0.0625", "0.0625 lm loss: 0.0500 moe loss: 0.0125")
LINES = {
    "0.3 and later": (LINE, [STEP]),
    "several losses": (LOSSES, [STEP]),
    "torchrun": ("[default0]:" + LINE, [STEP]),
    "two glued": (LINE + LOSSES, [STEP, STEP]),
    "before Megatron's line": (LINE + " iteration       10/      50 | lm", [STEP]),
    "behind a bar": ("\r 50%|█ | 5/10\r" + LINE, [STEP]),
}
NO_STEPS = (
    "",
    "# " + LINE,
    LINE[:-1],
    LINE.partition(".000")[0],
    LINE + "0",
    LINE.replace("10", "ten"),
    LINE.replace("0.0625", "loss"),
    LINE.replace(" loss: 0.0625", ""),
    "step: 10, loss: 9.725, throughput: 239.123 1607414400.123",
    "msg: iter time (s): 0.125 samples/sec: 64.000",
)


@pytest.mark.parametrize(("line", "steps"), LINES.values(), ids=LINES.keys())
def test_a_report_is_a_step(line: str, steps: list[Step]) -> None:
    """Seconds, the total loss, and samples per second."""
    assert parse(line) == steps
    assert any(anchor.decode() in line for anchor in DEEPSPEED_PIPELINE.anchors)


@pytest.mark.parametrize("line", NO_STEPS)
def test_what_is_no_report_is_no_step(line: str) -> None:
    """Torn, quoted and foreign lines."""
    assert parse(line) == []


def test_a_loss_that_is_no_number_is_kept() -> None:
    """That training diverged is a fact of the log."""
    (step,) = parse(LINE.replace("0.0625", "nan"))
    assert isinstance(step, Step)
    assert str(step.loss) == "nan"
