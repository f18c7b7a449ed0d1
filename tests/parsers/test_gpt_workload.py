"""The three lines of the project's own GPT workload."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.records import RunTotals, Step


def parse(line: str) -> list[object]:
    """Return the records of a line that starts at byte 5."""
    return list(GPT_WORKLOAD.parse(5, line))


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
    offset=5,
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
    offset=5,
)
SUMS = RunTotals(
    iterations=20,
    train_seconds=1.234567,
    final_loss=6.238123,
    max_memory_allocated_gib=0.402,
    offset=5,
)

LINES = {
    "start": (START, [SET_UP]),
    "iteration": (ITERATION, [STEP]),
    "finished": (FINISHED, [SUMS]),
    "a field unknown today": (ITERATION.replace(" | loss", " | tflops 1.5 | loss"), [STEP]),
    "another order": (ITERATION.replace(" | loss 6.238123", "") + " | loss 6.238123", [STEP]),
    "rank label": ("[rank0]: " + ITERATION, [STEP]),
    "srun label": ("  0: " + FINISHED, [SUMS]),
    "behind a bar": (" 5%|█  | 1/20 [00:01<00:19, 1.01s/it]" + ITERATION, [STEP]),
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


@pytest.mark.parametrize(("line", "records"), LINES.values(), ids=LINES.keys())
def test_a_line_is_read_whatever_stands_around_it(line: str, records: list[object]) -> None:
    """The start, an iteration and the end, each as its own record."""
    assert parse(line) == records


@pytest.mark.parametrize("line", NO_RECORDS)
def test_a_malformed_line_is_no_record(line: str) -> None:
    """Torn and foreign lines, also those that begin as ours do."""
    assert parse(line) == []


def test_the_name_of_a_device_may_hold_spaces() -> None:
    """As those of NVIDIA's GPUs do."""
    (totals,) = parse(START.replace("device cpu", "device NVIDIA A100-SXM4-80GB"))
    assert isinstance(totals, RunTotals)
    assert totals.device == "NVIDIA A100-SXM4-80GB"


def test_a_package_that_is_not_used_has_no_version() -> None:
    """DDP runs without DeepSpeed."""
    (totals,) = parse(START.removesuffix(" | deepspeed 0.19.8"))
    assert isinstance(totals, RunTotals)
    assert totals.versions == (("torch", "2.13.0+cpu"),)


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_loss_that_is_no_number_is_kept(loss: str) -> None:
    """That training diverged is a fact of the log, not something unknown."""
    (step,) = parse(ITERATION.replace("6.238123", loss))
    (totals,) = parse(FINISHED.replace("6.238123", loss))
    assert isinstance(step, Step)
    assert isinstance(totals, RunTotals)
    assert str(step.loss) == str(totals.final_loss) == loss


@pytest.mark.parametrize("line", [START.removesuffix(" | deepspeed 0.19.8"), ITERATION, FINISHED])
def test_a_line_torn_before_its_last_value_is_no_record(line: str) -> None:
    """However little is missing."""
    for end in range(line.rindex(" ") + 1):
        assert parse(line[:end]) == []


seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@given(
    step=st.builds(
        Step,
        iteration=st.integers(0, 10**12),
        iterations=st.integers(1, 10**12),
        step_seconds=seconds,
        log_interval=st.just(1),
        samples_per_second=seconds,
        loss=st.floats(),
        memory_allocated_gib=seconds,
        max_memory_allocated_gib=seconds,
        skipped=st.none(),
        running_samples_per_second=st.none(),
        offset=st.just(5),
    )
)
def test_a_printed_step_is_read_back(step: Step) -> None:
    """Parsing undoes printing, for every number."""
    (read,) = parse(
        f"[teralog] iteration {step.iteration}/{step.iterations}"
        f" | step_seconds {step.step_seconds} | samples_per_second {step.samples_per_second}"
        f" | loss {step.loss} | memory_allocated_gib {step.memory_allocated_gib}"
        f" | max_memory_allocated_gib {step.max_memory_allocated_gib}"
    )
    assert repr(read) == repr(step)  # nan is not equal to itself, its text is
    assert step.loss is not None
    assert isinstance(read, Step)
    assert math.isnan(step.loss) or read == step
