"""Parse the output of ColossalAI's Chat benchmark, in its old and its new form."""

import pytest
from reports import cases, parse

from parsers.formats.colossalai import (
    COLOSSALAI_EXAMPLES,
    COLOSSALAI_MODELS,
    COLOSSALAI_THROUGHPUT,
)
from parsers.records import Record, RunTotals

MAKE = "Making experience throughput: 1.234 samples/sec, TFLOPS: 5.678"
LEARN = "Learning throughput: 0.120 samples/sec, TFLOPS: 30.400"
GENERATE = "Generate 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68"
TRAIN = "Train 256 samples, throughput: 0.96 samples/s, TFLOPS per GPU: 30.40"
OVERALL = "Overall throughput: 0.75 samples/s"
PEAK = "Peak CUDA mem: 12.34 GB"

MAKE_TOTALS = RunTotals(
    phase="make_experience", samples_per_second=1.234, tflops_per_gpu=5.678, per_gpu=True, offset=7
)
LEARN_TOTALS = RunTotals(
    phase="learn", samples_per_second=0.12, tflops_per_gpu=30.4, per_gpu=True, offset=7
)
GENERATE_TOTALS = RunTotals(
    phase="make_experience", samples_per_second=9.87, tflops_per_gpu=5.68, offset=7
)
TRAIN_TOTALS = RunTotals(phase="learn", samples_per_second=0.96, tflops_per_gpu=30.4, offset=7)

LINES = {
    "0.2.8: of one GPU, experience": (MAKE, [MAKE_TOTALS]),
    "0.2.8: of one GPU, learning": (LEARN, [LEARN_TOTALS]),
    "0.3.0: of all GPUs, experience": (GENERATE, [GENERATE_TOTALS]),
    "0.3.0: of all GPUs, learning": (TRAIN, [TRAIN_TOTALS]),
    "0.3.0: overall": (OVERALL, [RunTotals(phase="overall", samples_per_second=0.75, offset=7)]),
    "peak": (PEAK, [RunTotals(max_memory_allocated_gib=12.34, offset=7)]),
    "glued": (MAKE + LEARN, [MAKE_TOTALS, LEARN_TOTALS]),
    "glued, in the newer form": (GENERATE + TRAIN, [GENERATE_TOTALS, TRAIN_TOTALS]),
    "torn by another": (MAKE[:40] + LEARN, [LEARN_TOTALS]),
}

NO_RECORDS = (
    "",
    "#   " + OVERALL,  # quoted in a script
    "Performance summary:",
    "Overall time per sample: 1.33 s",
    "Make experience time per sample: 0.52 s, 39.10%",
    "Overall throughput: 12.30 samples/sec/GPU",
    "Overall throughput: 12.30 MB/s",
    "Overall throughput: 12 samples/s",
    "Training throughput: 1.234 samples/sec, TFLOPS: 5.678",
    "step: 10, loss: 9.725, throughput: 239.123 1607414400.123",
    MAKE.replace("sec,", "s,"),
    MAKE.replace("5.678", "5.6789"),
    MAKE.replace("5.678", "nan"),
    GENERATE.replace("512", "N"),
    "Peak CUDA mem: 12.34 MB",
    "Peak CUDA mem: 12.34",
    PEAK[:-1],
)


@cases(LINES, NO_RECORDS)
def test_a_line_of_the_summary_gives_the_totals_of_its_phase(
    text: str, records: list[Record]
) -> None:
    """A summary line gives the totals of its phase, e.g. of learning.

    In version 0.2.8 the throughput is per GPU; in 0.3.0 it is of all GPUs together. Torn lines and
    other programs' lines give no record.
    """
    assert parse(COLOSSALAI_THROUGHPUT, text) == records


MODELS = ("Actor: 118.68 M", "Critic: 1.50 B", "Initial model: 512.00 K", "Reward model: 2.00 M")
SIZES = [
    RunTotals(phase="actor", parameters=124445000, offset=7),
    RunTotals(phase="critic", parameters=3 * 2**29, offset=7),
    RunTotals(phase="initial_model", parameters=2**19, offset=7),
    RunTotals(phase="reward_model", parameters=2**21, offset=7),
]

MODEL_LINES = {
    "four lines": (MODELS, SIZES),
    "cut": ((*MODELS[:2], MODELS[2][:-1]), SIZES[:2]),
    "followed by others": ((MODELS[0], "Loading", "Actor loss: 1.50 M"), SIZES[:1]),
    "said again": ((MODELS[0], MODELS[1], MODELS[0]), SIZES[:2]),
    "another unit": (("Actor: 118.68 MB", "Critic: 1 Mio"), []),
    "no unit": (("Actor: 118.68", "Actor: 5 ", "Actor: M"), []),
    "another word": (("TheActor: 118.68 M", "Actor 118.68 M"), []),
    "no number": (("Actor: nan M", "Actor: inf B", "Actor: 9e99 B"), []),
}


@pytest.mark.parametrize(("lines", "records"), MODEL_LINES.values(), ids=MODEL_LINES.keys())
def test_the_size_of_a_model_is_in_powers_of_1024(
    lines: tuple[str, ...], records: list[Record]
) -> None:
    """In the sizes of the four models, K, M and B are powers of 1024.

    The line of the actor comes first; the lines of the other models directly follow.
    """
    assert parse(COLOSSALAI_MODELS, "\n".join(lines)) == records


EXAMPLE = "Throughput: 12.75 samples/sec, TFLOPS per GPU by Megatron: 52.31, TFLOPS per GPU: 49.82"


@cases(
    {
        "throughput": (
            EXAMPLE,
            [RunTotals(samples_per_second=12.75, tflops_per_gpu=52.31, offset=7)],
        ),
        "memory": (
            "Max CUDA memory usage: 40123.50 MB",
            [RunTotals(max_memory_allocated_gib=40123.5 / 1024, offset=7)],
        ),
    },
    (
        "# " + EXAMPLE,
        EXAMPLE[:62],
        EXAMPLE.replace("12.75", "12.7"),
        "Max CUDA memory usage: 3.50 GB",
    ),
)
def test_the_examples_of_language_models_print_one_result(text: str, records: list[Record]) -> None:
    """The result of an example of a language model: throughput of all GPUs, TFLOPs, peak memory."""
    assert parse(COLOSSALAI_EXAMPLES, text) == records
