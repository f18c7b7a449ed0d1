"""Parse iteration lines of nanotron, and of programs that are based on Megatron."""

from dataclasses import replace

import pytest
from reports import parse

from parsers.formats.megatron.iterations import MEGATRON, NANOTRON, NANOTRON_2025
from parsers.records import Step

COUNTS = "number of skipped iterations:   0 | number of nan iterations:   0 |"
FEW = Step(iteration=3, iterations=50, skipped_iterations=0, nan_iterations=0, offset=7)
MICROSOFT = (
    " iteration        3/      50 | elapsed time per iteration (ms): 4000.0 | global batch size:   "
    f" 32 | actual seqlen:  2048 | {COUNTS} samples per second: 8.000 | tokens per gpu per second"
    " (tgs): 4096.000 | TFLOPs: 53.25 |"
)
ALCF = (
    "[2024-06-21 10:50:42][INFO][training:1609] -  iteration=       3/      50 |"
    " consumed_samples=          96 | consumed_tokens=      393216 |"
    " elapsed_time_per_iteration_ms=8457.5 | learning_rate=1.5e-08 | global_batch_size=   32 |"
    " lm loss=11.125 | loss_scale=1.0 | grad_norm=6.375 | actual_seqlen= 4096 |"
    " number_of_skipped_iterations=  0 | number_of_nan_iterations=  0 |"
    " samples_per_second=3.784 | tokens_per_gpu_per_second_tgs=1203.674 | [LM]TFLOPs=70.98 |"
    " [DS]TFLOPs=91.53 |"
)
PRIMUS = (
    "[20251202 09:12:08][rank-7/8][INFO ] [--------trainer.py:2560] : iteration 3/ 50 | elapsed"
    " time per iteration (ms): 13100.5/13240.9 | hip mem usage/free/total/usage_ratio:"
    " 153.81GB/102.17GB/255.98GB/60.09% | throughput per GPU (TFLOP/s/GPU): 579.5/573.6 | tokens"
    f" per GPU (tokens/s/GPU): 10005.5/9903.7 | lm loss: 4.125000E-03 | {COUNTS}"
)
MINDSPEED = (
    "INFO [2026-06-22 19:25:37] >>  iteration 3/50 | elapsed time per iteration (ms): 981.25 |"
    " max_memory_allocated(GB): 19.07 | max_memory_reserved(GB): 20.90 |"
)
NEOX = (
    " samples/sec: 51.250 | iteration       3/      50 | elapsed time per iteration (ms): 1248.8 |"
    " learning rate: 1.250E-04 | approx flops per GPU: 150.5TFLOPS | MFU: 41.20% | HFU: 55.10% |"
    f" lm_loss: 7.125000E+00 | {COUNTS}"
)
NEOX_STEP = replace(
    FEW,
    step_seconds=1.2488,
    samples_per_second=51.25,
    learning_rate=1.25e-4,
    loss=7.125,
    reported_tflops_per_gpu=150.5,
    reported_mfu=0.412,
)
LINES = {
    "Microsoft": (
        MICROSOFT,
        replace(
            FEW,
            step_seconds=4.0,
            global_batch_size=32,
            samples_per_second=8.0,
            tokens_per_second_per_gpu=4096.0,
            reported_tflops_per_gpu=53.25,
        ),
    ),
    "Habana": (
        f"[default3]: iteration 3/50 | elapsed time per iteration (s): 7.2310 | {COUNTS}",
        replace(FEW, step_seconds=7.231),
    ),
    "ALCF": (
        ALCF,
        replace(
            FEW,
            step_seconds=8.4575,
            samples_per_second=3.784,
            consumed_samples=96,
            consumed_tokens=393216,
            global_batch_size=32,
            loss=11.125,
            learning_rate=1.5e-8,
            loss_scale=1.0,
            grad_norm=6.375,
            tokens_per_second_per_gpu=1203.674,
            reported_tflops_per_gpu=70.98,
            timestamp="2024-06-21T10:50:42",
        ),
    ),
    "gpt-neox": (NEOX, NEOX_STEP),
    "gpt-neox, faster than TFLOPS": (
        NEOX.replace("150.5TFLOPS", "1.5PFLOPS"),
        replace(NEOX_STEP, reported_tflops_per_gpu=1500.0),
    ),
    "gpt-neox, without suffix": (
        NEOX.replace("150.5TFLOPS", "500.0"),
        replace(NEOX_STEP, reported_tflops_per_gpu=5e-10),
    ),
    "Primus": (
        PRIMUS,
        replace(
            FEW,
            step_seconds=13.1005,
            loss=0.004125,
            tokens_per_second_per_gpu=10005.5,
            reported_tflops_per_gpu=579.5,
            timestamp="2025-12-02T09:12:08",
        ),
    ),
    "Primus since 26.5": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 13100.5/13240.9 |"
            " compute per GPU (TFLOP/s/GPU): 496.3 (avg 496.1) |"
            f" tokens/s/GPU inst/harmonic mean: 9640.7/9629.8 | {COUNTS}"
        ),
        replace(
            FEW,
            step_seconds=13.1005,
            reported_tflops_per_gpu=496.3,
            tokens_per_second_per_gpu=9640.7,
        ),
    ),
    "OpenEuroLLM": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 13100.5 | mem usages: 0.8131 |"
            " throughput per GPU (TFLOP/s/GPU): 57.6 |"
            f" Tokens per second per GPU (Tok/s/GPU): 2645.8 | {COUNTS}"
        ),
        replace(
            FEW,
            step_seconds=13.1005,
            reported_tflops_per_gpu=57.6,
            tokens_per_second_per_gpu=2645.8,
        ),
    ),
    "MindSpeed-MM with FSDP": (
        (
            "[Rank 0 | Local Rank 0] 2026-09-02 10:00:01 INFO [train_engine:48] =>  "
            "[2026-09-02 10:00:01] iteration        3/      50 | consumed samples:           24 |"
            " elapsed time per iteration (ms): 13100.5 | learning rate: 1.000000E-05 |"
            " global batch size:     8 | loss: 1.924620E+00 | grad norm: 134.300 |"
        ),
        replace(
            FEW,
            step_seconds=13.1005,
            consumed_samples=24,
            learning_rate=1e-05,
            global_batch_size=8,
            loss=1.92462,
            grad_norm=134.3,
            skipped_iterations=None,
            nan_iterations=None,
            timestamp="2026-09-02T10:00:01",
        ),
    ),
    "Swiss AI and Pai": (
        (
            " iteration 3/50 | consumed tokens: 1.258B | elapsed time per iteration (ms): 13100.5 |"
            f" eta: 0:00:00 | tokens/sec/gpu: 8000.5 | {COUNTS}"
        ),
        replace(FEW, step_seconds=13.1005, tokens_per_second_per_gpu=8000.5),
    ),
    "core with a patch that prints tokens": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 13100.5 |"
            f" tokens/sec/GPU: 8000 | {COUNTS}"
        ),
        replace(FEW, step_seconds=13.1005, tokens_per_second_per_gpu=8000.0),
    ),
    "BigCode": (
        (
            f" iteration 3/50 | elapsed time per iteration (ms): 13100.5 | {COUNTS} TFLOPs: 320.25"
            " | tokens-per-second-per-gpu: 2114.50 |"
        ),
        replace(
            FEW,
            step_seconds=13.1005,
            tokens_per_second_per_gpu=2114.5,
            reported_tflops_per_gpu=320.25,
        ),
    ),
    "Biren": (
        f" iteration 3/50 | elapsed time per iteration (ms): 13100.5 | {COUNTS} TGS: 8000.50 |",
        replace(FEW, step_seconds=13.1005, tokens_per_second_per_gpu=8000.5),
    ),
    "Iluvatar": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 500.0 | tokens per second: 8192.00"
            f" | tokens per second per device: 1024.00 | {COUNTS}"
        ),
        replace(FEW, step_seconds=0.5, tokens_per_second=8192.0),
    ),
    "Megatron-LLM": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 500.0 | rate (tokens/sec): 8192.00"
            f" | {COUNTS}"
        ),
        replace(FEW, step_seconds=0.5, tokens_per_second=8192.0),
    ),
    "throughput in tokens and in FLOPs": (
        (
            " iteration 3/50 | elapsed time per iteration (ms): 13100.5 | throughput"
            f" (token/sec/GPU): 8000.5 | flop throughput (TFLOP/sec/GPU): 412.3 | {COUNTS}"
        ),
        replace(
            FEW,
            step_seconds=13.1005,
            tokens_per_second_per_gpu=8000.5,
            reported_tflops_per_gpu=412.3,
        ),
    ),
    "torchtitan in Primus": (
        (
            "iteration 3/50 | elapsed time per iteration (ms): 13100.5 | tokens per GPU"
            " (tokens/s/GPU): 10005.5 | loss: 4.125E-03 | grad norm: 7.5 | mfu: 45.25% |"
        ),
        Step(
            iteration=3,
            iterations=50,
            step_seconds=13.1005,
            tokens_per_second_per_gpu=10005.5,
            loss=0.004125,
            grad_norm=7.5,
            reported_mfu=0.4525,
            offset=7,
        ),
    ),
    "MindSpeed": (
        (
            " iteration  3/50 | elapsed time per iteration (ms): nan | gloabl batch size:  512 |"
            f" learning rate:    1.500E-05 | {COUNTS}"
        ),
        replace(FEW, global_batch_size=512, learning_rate=1.5e-5),
    ),
    "MindSpeed with FSDP": (
        MINDSPEED,
        Step(
            iteration=3,
            iterations=50,
            step_seconds=0.98125,
            max_memory_allocated_gib=19.07,
            max_memory_reserved_gib=20.9,
            timestamp="2026-06-22T19:25:37",
            offset=7,
        ),
    ),
    "abci": (
        f" iteration 3/50 | iteration time: 270.125 s samples/sec: 3.75 | {COUNTS}",
        replace(FEW, step_seconds=270.125, samples_per_second=3.75),
    ),
}
NANOTRON_LINE = (
    "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 15 | consumed_tokens: 1.02K |"
    " elapsed_time_per_iteration_ms: 4.75K | tokens_per_sec: 43.5K | tokens_per_sec_per_gpu: 10.9K"
    " | global_batch_size: 512 | lm_loss: 5.25 | lr: 0.00015 | model_tflops_per_gpu: 1.5e-05 |"
    " hardware_tflops_per_gpu: 2e-05 | grad_norm: 2.75 | cuda_memory_allocated: 67.5M |"
    " cuda_max_memory_reserved: 520M | hd_total_memory_tb: 2.13T"
)
NANOTRON_STEP = Step(
    iteration=1,
    iterations=15,
    step_seconds=4.75,
    log_interval=1,
    tokens_per_second=43500.0,
    tokens_per_second_per_gpu=10900.0,
    consumed_tokens=1020,
    global_batch_size=512,
    loss=5.25,
    learning_rate=0.00015,
    grad_norm=2.75,
    reported_tflops_per_gpu=1.5e-5,
    memory_allocated_gib=67.5e6 / 2**30,
    max_memory_reserved_gib=520e6 / 2**30,
    timestamp="2024-08-31T14:37:31",
    offset=7,
)


@pytest.mark.parametrize(("line", "step"), LINES.values(), ids=LINES.keys())
def test_a_report_is_a_step_with_the_values_of_its_line(line: str, step: Step) -> None:
    """A report of any of these programs gives a step, whatever field names and units it has."""
    assert parse(MEGATRON, line) == [step]


def test_a_rate_in_front_of_a_report_belongs_to_it() -> None:
    """A rate belongs to the report after it, not to the report before it on the same line."""
    slower = NEOX.replace("51.250", "48.500")
    slower_step = replace(NEOX_STEP, samples_per_second=48.5)
    assert parse(MEGATRON, NEOX + slower) == [NEOX_STEP, slower_step]
    assert parse(MEGATRON, NEOX.removesuffix(" |") + slower) == [slower_step]


def test_a_line_of_two_programs_is_no_error() -> None:
    """A line of nanotron that another program's fields follow is parsed without an error."""
    fields = "elapsed time per iteration (ms): 0.6 | samples per second: 71.957 |"
    assert parse(NANOTRON, f"{NANOTRON_LINE} | {fields}") == [NANOTRON_STEP]


def test_nanotron_prints_rounded_numbers() -> None:
    """Reports of nanotron with rounded numbers such as 1.5K are read, but not by Megatron's format.

    A report without its last fields gives no record, because its last number may be cut off.
    """
    assert parse(NANOTRON, NANOTRON_LINE) == [NANOTRON_STEP]
    assert parse(NANOTRON, "[default0]:" + NANOTRON_LINE * 2) == [NANOTRON_STEP] * 2
    assert parse(MEGATRON, NANOTRON_LINE) == []
    assert parse(NANOTRON, NANOTRON_LINE.partition(" | model")[0]) == []
    assert parse(NANOTRON, NANOTRON_LINE.partition(" | hardware")[0]) == []


def test_nanotron_counts_its_batch_in_tokens_since_2025() -> None:
    """In 2025, nanotron renamed the step time and began to print the batch in tokens."""
    line = (
        "04/14/2025 09:12:01 [INFO|DP=0|PP=0|TP=0|node-1]: iteration: 2 / 15 | consumed_tokens:"
        " 512 | time_per_iteration_ms: 4.71K | tokens_per_sec: 223K | tokens_per_sec_per_gpu:"
        " 27.8K | global_batch_size: 1.05M | grad_norm: 2.5 | lm_loss: 12.1 | lr: 3e-05 |"
        " model_tflops_per_gpu: 311 | eta: 0:01:05"
    )
    (step,) = parse(NANOTRON_2025, line)
    assert isinstance(step, Step)
    assert (step.step_seconds, step.consumed_tokens, step.global_batch_size) == (4.71, 512, None)
    assert (step.loss, step.tokens_per_second, step.reported_tflops_per_gpu) == (12.1, 223e3, 311)
    assert parse(NANOTRON_2025, line.partition(" | eta")[0]) == []
