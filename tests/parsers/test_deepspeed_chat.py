"""Parse DeepSpeed-Chat's reports of whole iterations, and those of the actor's engine."""

import io
from random import Random

import pytest
from printed import chat
from reports import cases, parse

from parsers.formats.deepspeed_chat import DEEPSPEED_CHAT
from parsers.records import Step
from parsers.runs.reading import read
from parsers.summary.run import RunSummary, summarise
from parsers.summary.warmup import Warmup

LOSS = "epoch: 0|step: {}|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.25|unsuper_loss: 0.0\n"
E2E = (
    "|E2E latency=4.00s |Gather latency=0.00s (0.00%) |Generate time=2.43s (65.28%) |Training "
    "time=1.06s (28.45%) |Others=0.23 (6.27%)|CurSamplesPerSec=16.00 |AvgSamplesPerSec=15.50\n"
)
TIMER = (
    "[INFO] [timer.py:199:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec="
    "90.0, CurrSamplesPerSec=80.0, MemAllocated=10.77GB, MaxMemAllocated=20.55GB\n"
)


ONLY_LOSS = Step(iteration=3, loss=0.5, offset=7)


def summary(text: str, warmup: str = "first") -> RunSummary:
    """Return the summary of a log with one run."""
    (run,) = read(io.BytesIO(text.encode()))
    return summarise(run, Warmup.parse(warmup))


@cases(
    {
        "another epoch": (LOSS.replace("epoch: 0", "epoch: 1").format(3) + E2E, []),
        "no end-to-end line": (LOSS.format(3) + "average reward score: 1.0", [ONLY_LOSS]),
        "that of another step": (LOSS.format(3) + LOSS.format(4) + E2E, [ONLY_LOSS]),
    },
    ("# " + LOSS.format(3) + E2E, E2E),
)
def test_no_time_of_another_step_is_read(text: str, records: list[object]) -> None:
    """A step has the time that is printed after its loss, and never that of another step.

    If no time follows its loss, the step has no time.
    """
    assert parse(DEEPSPEED_CHAT, text) == records


def test_losses_alone_leave_the_rates_of_the_engine() -> None:
    """If no line has the rate of whole iterations, the run has the rates of DeepSpeed's engine."""
    run_summary = summary("".join(LOSS.format(n) + TIMER.format(n) for n in range(10, 50, 10)))
    assert run_summary.samples_per_second == pytest.approx(80.0)
    assert run_summary.engine_samples_per_second is None


def test_times_and_rates_are_end_to_end() -> None:
    """Times and rates are those of whole iterations; the engine's rates are a separate value.

    The engine's rates cover only the training, but its peak memory is that of the whole process.
    """
    steps = [LOSS.format(n) + E2E + (TIMER.format(n + 1) if n % 5 == 4 else "") for n in range(20)]
    run_summary = summary("".join(steps))
    assert (run_summary.step_seconds.n, run_summary.step_seconds.mean) == (19, 4.0)
    assert run_summary.samples_per_second == pytest.approx(16.0)
    assert run_summary.engine_samples_per_second == pytest.approx(80.0)
    assert run_summary.peak_memory_gib == 20.55
    assert run_summary.formats[0] == "DeepSpeed-Chat, end to end"
    assert run_summary.not_understood == 0
    assert run_summary.global_batch_size == 64


def test_an_engine_alone_is_the_program() -> None:
    """If a log has only reports of DeepSpeed's engine, the run has the engine's rates."""
    run_summary = summary("".join(TIMER.format(n) for n in range(10, 50, 10)))
    assert run_summary.samples_per_second == pytest.approx(80.0)
    assert run_summary.engine_samples_per_second is None
    assert run_summary.rates_only
    assert not summary(chat(Random(1)).log + "\n").rates_only
