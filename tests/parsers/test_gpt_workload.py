"""Parse the three lines of the project's own GPT workload."""

import pytest
from reports import cases, parse

from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.records import RunTotals, Step

START = (
    "[teralog] start | strategy zero2 | world_size 2 | backend gloo | device cpu | precision fp32"
    " | parameters 136960 | torch 2.13.0+cpu | deepspeed 0.19.8"
)
ITERATION = (
    "[teralog] iteration 3/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss 6.238123"
    " | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402"
)
FINISHED = (
    "[teralog] finished | iterations 20 | train_seconds 1.234567 | final_loss 6.238123"
    " | max_memory_allocated_gib 0.402"
)
SET_UP = RunTotals(
    strategy="zero2",
    world_size=2,
    backend="gloo",
    device="cpu",
    precision="fp32",
    parameters=136960,
    versions=(("torch", "2.13.0+cpu"), ("deepspeed", "0.19.8")),
    offset=7,
)
STEP = Step(
    iteration=3,
    iterations=20,
    step_seconds=0.012345,
    log_interval=1,
    samples_per_second=648.04,
    loss=6.238123,
    memory_allocated_gib=0.391,
    max_memory_allocated_gib=0.402,
    offset=7,
)
SUMS = RunTotals(
    iterations=20,
    last_iteration=20,
    train_seconds=1.234567,
    final_loss=6.238123,
    max_memory_allocated_gib=0.402,
    offset=7,
)

LINES = {
    "start": (START, [SET_UP]),
    "iteration": (ITERATION, [STEP]),
    "finished": (FINISHED, [SUMS]),
    "a field unknown today": (ITERATION.replace(" | loss", " | tflops 1.5 | loss"), [STEP]),
    "another order": (ITERATION.replace(" | loss 6.238123", "") + " | loss 6.238123", [STEP]),
    "before a bar": (ITERATION + " 5%|█  | 1/20", [STEP]),
    "between carriage returns": ("\r 5%|█ \r" + START + "\r 10%|██", [SET_UP]),
    "two glued": (ITERATION + FINISHED, [STEP, SUMS]),
    "torn by another": (ITERATION[:70] + ITERATION, [STEP]),
}

NO_RECORDS = (
    "",
    "[teralog]",
    "[teralog] ",
    "[teralog] iteration 3/ | step_",
    "[teralog] iteration /20 | step_seconds 0.1",
    "[teralog] started | strategy zero2",
    "[teralog] start | strategy zero2 | world_size 2",
    "[teralog] campaign bench: 3 of 12 runs",
    ITERATION.removeprefix("[teralog] "),
    ITERATION.replace("3/20", "3"),
    ITERATION.replace("0.012345", "nan"),
    ITERATION.replace("0.012345", "0,012345"),
    ITERATION.replace("648.04", "648.04%"),
    ITERATION.replace(" | loss 6.238123", ""),
    ITERATION.replace("6.238123", ""),
    ITERATION.removesuffix("402"),
    FINISHED.replace("20", "twenty"),
    FINISHED.replace("20", "9" * 5000),
    START.replace("cpu |", " |"),
    START.replace("136960", "-1"),
)


@cases(LINES, NO_RECORDS)
def test_a_line_is_read_whatever_is_around_it(text: str, records: list[object]) -> None:
    """Lines for start, iteration and end give one record each, with any text around them.

    Torn lines and other programs' lines give none.
    """
    assert parse(GPT_WORKLOAD, text) == records


def test_the_name_of_a_device_may_hold_spaces() -> None:
    """A device name with spaces is read, such as the names of NVIDIA's GPUs."""
    (totals,) = parse(GPT_WORKLOAD, START.replace("device cpu", "device NVIDIA A100-SXM4-80GB"))
    assert isinstance(totals, RunTotals)
    assert totals.device == "NVIDIA A100-SXM4-80GB"


def test_a_package_that_is_not_used_has_no_version() -> None:
    """DDP runs do not use DeepSpeed, so they have no setting with its version."""
    (totals,) = parse(GPT_WORKLOAD, START.removesuffix(" | deepspeed 0.19.8"))
    assert isinstance(totals, RunTotals)
    assert totals.versions == (("torch", "2.13.0+cpu"),)


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_loss_of_nan_or_infinity_is_kept(loss: str) -> None:
    """A loss of nan or inf is kept and not None, because it shows that the training diverged."""
    (step,) = parse(GPT_WORKLOAD, ITERATION.replace("6.238123", loss))
    (totals,) = parse(GPT_WORKLOAD, FINISHED.replace("6.238123", loss))
    assert isinstance(step, Step)
    assert isinstance(totals, RunTotals)
    assert str(step.loss) == str(totals.final_loss) == loss


@pytest.mark.parametrize("line", [START.removesuffix(" | deepspeed 0.19.8"), ITERATION, FINISHED])
def test_a_line_torn_before_its_last_value_gives_no_record(line: str) -> None:
    """A torn line gives no record, however little of it is missing."""
    for end in range(line.rindex(" ") + 1):
        assert parse(GPT_WORKLOAD, line[:end]) == []
