"""Parse iteration lines of every version of NVIDIA's Megatron and of BigScience's fork."""

from dataclasses import replace

import pytest
from reports import parse

from parsers.formats.megatron.iterations import MEGATRON, NANOTRON
from parsers.records import Step

V1 = (
    " iteration      100/  320000 | elapsed time per iteration (ms): 512.4 | learning rate:"
    " 1.500E-04 | lm loss: 9.250000E+00 | loss scale: 65536.0 | number of skipped iterations:"
    "   2 | number of nan iterations:   0 |"
)
V1_STEP = Step(
    iteration=100,
    iterations=320000,
    step_seconds=0.5124,
    learning_rate=1.5e-4,
    loss=9.25,
    loss_scale=65536.0,
    skipped_iterations=2,
    nan_iterations=0,
    offset=7,
)
V2 = (
    " iteration       30/     500 | consumed samples:          960 | elapsed time per iteration"
    " (ms): 812.5 | learning rate: 3.000E-04 | global batch size:    32 | lm loss: 8.125000E+00"
    " | loss scale: 32768.0 | grad norm: 4.750 | num zeros: 12.0 | params norm: 310.125 | number"
    " of skipped iterations:   1 | number of nan iterations:   0 |"
)
V2_STEP = Step(
    iteration=30,
    iterations=500,
    step_seconds=0.8125,
    consumed_samples=960,
    global_batch_size=32,
    loss=8.125,
    learning_rate=3e-4,
    loss_scale=32768.0,
    grad_norm=4.75,
    skipped_iterations=1,
    nan_iterations=0,
    offset=7,
)
CORE = (
    " [2025-07-01 10:20:30] iteration        2/     100 | consumed samples:          512 | skipped"
    " samples:            8 | elapsed time per iteration (ms): 15800.5 | throughput per GPU"
    " (TFLOP/s/GPU): 412.5 | energy per GPU (J/iter/GPU): 9050.1 | power per GPU (W/GPU): 572.8 |"
    " learning rate: 4.125000E-07 | decoupled learning rate: 8.000000E-07 | global batch size:  "
    " 256 | lm loss: 1.250000E+01 | seq_load_balancing_loss: 1.000203E+00 | loss scale: 1.0 | grad"
    " norm: 2.875 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
CORE_STEP = Step(
    iteration=2,
    iterations=100,
    step_seconds=15.8005,
    consumed_samples=512,
    global_batch_size=256,
    loss=12.5,
    learning_rate=4.125e-7,
    loss_scale=1.0,
    grad_norm=2.875,
    skipped_iterations=0,
    nan_iterations=0,
    reported_tflops_per_gpu=412.5,
    energy_joules_per_gpu=9050.1,
    power_watts_per_gpu=572.8,
    timestamp="2025-07-01T10:20:30",
    offset=7,
)
BIGSCIENCE = (
    " iteration      250/  115311 | consumed samples:       512000 | consumed tokens:   1048576000"
    " | elapsed time per iteration (s): 105.25 | learning rate: 6.000E-05 | global batch size: "
    " 2048 | lm loss: 2.500000E+00 | grad norm: 0.250 | num zeros: 0.0 | number of skipped"
    " iterations:   0 | number of nan iterations:   0 | samples per second: 19.458 |"
    " TFLOPs: 148.98 |"
)
BIGSCIENCE_STEP = Step(
    iteration=250,
    iterations=115311,
    step_seconds=105.25,
    samples_per_second=19.458,
    consumed_samples=512000,
    consumed_tokens=1048576000,
    global_batch_size=2048,
    loss=2.5,
    learning_rate=6e-5,
    grad_norm=0.25,
    skipped_iterations=0,
    nan_iterations=0,
    reported_tflops_per_gpu=148.98,
    offset=7,
)
NO_TIME = "elapsed time per iteration (ms): nan"
COUNTS = "number of skipped iterations:   0 | number of nan iterations:   0 |"


FEW = Step(iteration=3, iterations=50, skipped_iterations=0, nan_iterations=0, offset=7)
LINES = {
    "1.1.5": (V1, V1_STEP),
    "2.0 to 23.04": (V2, V2_STEP),
    "core 0.13": (CORE, CORE_STEP),
    "core 0.16, microseconds": (
        f" [2026-02-03 04:05:06.789012] iteration 3/50 | {NO_TIME} | {COUNTS}",
        replace(FEW, timestamp="2026-02-03T04:05:06.789012"),
    ),
    "BigScience": (BIGSCIENCE, BIGSCIENCE_STEP),
    "BigScience, when samples were per millisecond": (
        BIGSCIENCE.replace("(s): 105.25", "(ms): 105250.0").replace("19.458", "0.019"),
        replace(BIGSCIENCE_STEP, samples_per_second=19.0),
    ),
    "BigScience, before the tokens": (
        BIGSCIENCE.replace(" | consumed tokens:   1048576000", ""),
        replace(BIGSCIENCE_STEP, consumed_tokens=None),
    ),
    "slow, but per second": (
        BIGSCIENCE.replace("(s): 105.25", "(ms): 2048000000.0").replace("19.458", "0.001"),
        replace(BIGSCIENCE_STEP, step_seconds=2048000.0, samples_per_second=0.001),
    ),
    "DeepSpeed scales the loss": (
        (
            f" iteration 3/50 | {NO_TIME} | lm-loss: 9.5E+00 | loss scale: -1.0 |"
            f" grad norm: 0.000 | {COUNTS}"
        ),
        replace(FEW, loss=9.5, loss_scale=-1.0, grad_norm=0.0),
    ),
    "another order": (
        f" iteration 3/50 | {COUNTS} loss: 9.5 | elapsed time per iteration (ms): 250.0 |",
        replace(FEW, loss=9.5, step_seconds=0.25),
    ),
    "no time": (
        f" iteration 3/50 | {NO_TIME} | {COUNTS}",
        FEW,
    ),
    "before other text": (V2 + "[Rank 3] (after 30 iterations) memory (MB) | al", V2_STEP),
    "before timers": (V2 + "time (ms) | forward: 148.22 | optimizer: 30.50", V2_STEP),
    "behind a torn report": (V1[: V1.index("lm loss")] + V2, V2_STEP),
    "between carriage returns": ("\r 50%|█ | 5/10\r" + V2 + "\r 60%|█ | 6/10", V2_STEP),
    "quoted": ("> " + V2, V2_STEP),
    "a day that is none": (f" [2025-99-01 10:20:30] iteration 3/50 | {NO_TIME} | {COUNTS}", FEW),
}
NO_STEPS = (
    "",
    " validation loss at iteration 100 | lm loss value: 8.017406E+00 | lm loss PPL: 3.033300E+03 |",
    "#" + V2,
    "  # " + V2,
    "> # [2025-07-01 10:20:30]" + V2 + V2,
    V2.replace("30/     500", "30"),
    V2.replace("iteration  ", "at_iteration "),
    V2.replace("812.5", "812,5"),
    V2.replace("812.5", "8[Rank 0] (after 1 iterations)"),
    V2.replace("960", "9_60"),
    V2.replace("   32 ", "   3.2 "),
    V2.replace("   32 ", "    "),
    V2.replace("   1 |", " nan |"),
    V2.replace("30/     500", "30/" + "5" * 5000),
    V2.partition(" | number of skipped")[0] + " |",
    V2.replace("number of", "\r number of").partition("\r")[0],
    " iteration  11/50000 | elapsed time per iteration (ms):  52728.1 | number of skipped",
    "iterations: 0 | number of nan iterations:   0 | samples per second: 9.710 | TFLOPs: 167.52 |",
    'log_string = " iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.1f} |"',
    "saved checkpoint from iteration 500/1000 | elapsed time per iteration (ms) is above",
)


@pytest.mark.parametrize(("line", "step"), LINES.values(), ids=LINES.keys())
def test_a_report_is_a_step_with_the_values_of_its_line(line: str, step: Step) -> None:
    """A report of any version gives a step with the values of its line, with any text around it."""
    assert parse(MEGATRON, line) == [step]


def test_reports_glued_to_each_other_are_as_many_steps() -> None:
    """If several reports are on one line, each of them gives a step."""
    assert parse(MEGATRON, V2 + CORE + V1 + CORE) == [V2_STEP, CORE_STEP, V1_STEP, CORE_STEP]


@pytest.mark.parametrize("line", NO_STEPS)
def test_a_line_that_is_not_a_report_gives_no_step(line: str) -> None:
    """Torn and quoted lines, and lines of other programs, give no step."""
    assert parse(MEGATRON, line) == parse(NANOTRON, line) == []


@pytest.mark.parametrize("loss", ["NAN", "nan", "INF", "-INF", "inf"])
def test_a_loss_of_nan_or_infinity_is_kept(loss: str) -> None:
    """A loss of nan or inf is kept, also in capitals (NAN, INF)."""
    (step,) = parse(MEGATRON, V1.replace("9.250000E+00", loss))
    assert isinstance(step, Step)
    assert str(step.loss) == loss.lower()
