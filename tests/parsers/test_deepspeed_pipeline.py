"""Parse the line of DeepSpeed's pipeline engine."""

from reports import cases, parse

from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.records import Step

LINE = "steps: 10 loss: 0.0625 iter time (s): 0.125 samples/sec: 64.000"
STEP = Step(iteration=10, loss=0.0625, step_seconds=0.125, samples_per_second=64.0, offset=7)
LOSSES = LINE.replace("0.0625", "0.0625 lm loss: 0.0500 moe loss: 0.0125")
LINES = {
    "0.3 and later": (LINE, [STEP]),
    "several losses": (LOSSES, [STEP]),
    "two glued": (LINE + LOSSES, [STEP, STEP]),
    "before Megatron's line": (LINE + " iteration       10/      50 | lm", [STEP]),
}
NO_STEPS = (
    "",
    "# " + LINE,
    LINE[:-1],
    LINE.partition(".000")[0],
    LINE + "0",
    LINE + "e999",
    LINE + ".5",
    LINE.replace("10", "ten"),
    LINE.replace("0.0625", "loss"),
    LINE.replace(" loss: 0.0625", ""),
    "step: 10, loss: 9.725, throughput: 239.123 1607414400.123",
    "msg: iter time (s): 0.125 samples/sec: 64.000",
)


@cases(LINES, NO_STEPS)
def test_a_line_is_read_as_the_steps_that_it_reports(text: str, records: list[object]) -> None:
    """A line gives seconds, total loss and samples per second.

    Torn and quoted lines give no step.
    """
    assert parse(DEEPSPEED_PIPELINE, text) == records


def test_a_loss_of_nan_or_infinity_is_kept() -> None:
    """A loss of nan or inf is kept, because it shows that the training diverged."""
    (step,) = parse(DEEPSPEED_PIPELINE, LINE.replace("0.0625", "nan"))
    assert isinstance(step, Step)
    assert str(step.loss) == "nan"
